"""Ratios to hand-written JAX: ``make bench``, and a check of the values in every test run."""
