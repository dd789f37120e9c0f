"""Root finding and minimisation in regions, by the methods that SciPy follows."""
