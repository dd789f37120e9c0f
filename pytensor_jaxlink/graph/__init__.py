"""A read-only, integer-indexed view of a PyTensor graph.  Needs PyTensor, never JAX."""

from pytensor_jaxlink.graph import index_expressions as index_expressions  # for `written`
from pytensor_jaxlink.graph.expressions import Text as Text
from pytensor_jaxlink.graph.expressions import expression as expression
from pytensor_jaxlink.graph.expressions import op_name as op_name
from pytensor_jaxlink.graph.expressions import written as written
from pytensor_jaxlink.graph.integers import SymbolicInteger as SymbolicInteger
from pytensor_jaxlink.graph.integers import entries_of as entries_of
from pytensor_jaxlink.graph.integers import new_integer as new_integer
from pytensor_jaxlink.graph.integers import symbolic_integer as symbolic_integer
from pytensor_jaxlink.graph.source import UNKNOWN as UNKNOWN
from pytensor_jaxlink.graph.source import has_user_line as has_user_line
from pytensor_jaxlink.graph.source import operation_with_place as operation_with_place
from pytensor_jaxlink.graph.source import serves as serves
from pytensor_jaxlink.graph.source import user_location as user_location
from pytensor_jaxlink.graph.types import ArrayType as ArrayType
from pytensor_jaxlink.graph.types import GraphNode as GraphNode
from pytensor_jaxlink.graph.types import GraphType as GraphType
from pytensor_jaxlink.graph.types import GraphVariable as GraphVariable
from pytensor_jaxlink.graph.types import axis_and_parts as axis_and_parts
from pytensor_jaxlink.graph.types import data_of as data_of
from pytensor_jaxlink.graph.types import dtype_of as dtype_of
from pytensor_jaxlink.graph.types import first_index as first_index
from pytensor_jaxlink.graph.types import indices_from as indices_from
from pytensor_jaxlink.graph.types import indices_of as indices_of
from pytensor_jaxlink.graph.types import inputs_of as inputs_of
from pytensor_jaxlink.graph.types import is_vector_of_places as is_vector_of_places
from pytensor_jaxlink.graph.types import leading_indices as leading_indices
from pytensor_jaxlink.graph.types import lengths_of as lengths_of
from pytensor_jaxlink.graph.types import ndim_of as ndim_of
from pytensor_jaxlink.graph.types import nodes_of as nodes_of
from pytensor_jaxlink.graph.types import outputs_of as outputs_of
from pytensor_jaxlink.graph.types import readers_of as readers_of
from pytensor_jaxlink.graph.types import variables_of as variables_of
from pytensor_jaxlink.graph.view import GraphView as GraphView
from pytensor_jaxlink.graph.view import as_kind as as_kind
from pytensor_jaxlink.graph.view import updates_of as updates_of
