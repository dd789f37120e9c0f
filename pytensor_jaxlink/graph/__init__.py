"""A read-only, integer-indexed view of a PyTensor graph.  Needs PyTensor, never JAX."""

from pytensor_jaxlink.graph.source import user_location as user_location
from pytensor_jaxlink.graph.view import GraphView as GraphView
