"""PyTensor's own test-suite, run with our mode as the default one.

``python -m tests.peer FOLDER`` runs it from a checkout of PyTensor; nothing of it is kept here.
"""
