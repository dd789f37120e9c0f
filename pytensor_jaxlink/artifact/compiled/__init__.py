"""The compiled layer: plans whose regions are StableHLO.  Needs JAX and NumPy, not PyTensor."""
