"""A read-only, integer-indexed view of a PyTensor graph.  Needs PyTensor, never JAX."""

from pytensor_jaxlink.graph.expressions import expression as expression
from pytensor_jaxlink.graph.expressions import op_name as op_name
from pytensor_jaxlink.graph.source import UNKNOWN as UNKNOWN
from pytensor_jaxlink.graph.source import has_user_line as has_user_line
from pytensor_jaxlink.graph.source import operation_with_place as operation_with_place
from pytensor_jaxlink.graph.source import serves as serves
from pytensor_jaxlink.graph.source import user_location as user_location
from pytensor_jaxlink.graph.types import ArrayType as ArrayType
from pytensor_jaxlink.graph.view import GraphView as GraphView
