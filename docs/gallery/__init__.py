"""Models that mode "JAX" refuses: ``python -m docs.gallery`` runs them and writes their pages."""
