"""From compiled functions to the compiled layer of a file: needs PyTensor, JAX and the compiler."""
