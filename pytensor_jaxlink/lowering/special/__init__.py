"""Special functions that JAX does not have, or has for a part of their domain."""
