"""The tests of libraries that are built on PyTensor, run with our mode as the default one.

``python -m tests.clients FOLDER`` runs them from a folder of theirs; nothing of it is kept here.
"""
