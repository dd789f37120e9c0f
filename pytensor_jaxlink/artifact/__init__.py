"""Functions in files: saved with what they are made of, loaded without pickle."""
