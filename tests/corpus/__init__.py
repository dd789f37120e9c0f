"""Forty graphs as people write them, and what the rewrites do for them."""
