"""From nodes to JAX.  The one layer that imports both PyTensor and JAX to compile."""

from pytensor_jaxlink.lowering import arange as _arange
from pytensor_jaxlink.lowering import array_rules as _array_rules
from pytensor_jaxlink.lowering import contractions as _contractions
from pytensor_jaxlink.lowering import convolutions as _convolutions
from pytensor_jaxlink.lowering import dynamic_slice_rules as _dynamic_slice_rules
from pytensor_jaxlink.lowering import elementwise as _elementwise
from pytensor_jaxlink.lowering import indexing as _indexing
from pytensor_jaxlink.lowering import inner_graph_rules as _inner_graph_rules
from pytensor_jaxlink.lowering import linalg as _linalg
from pytensor_jaxlink.lowering import loop_rules as _loop_rules
from pytensor_jaxlink.lowering import random as _random
from pytensor_jaxlink.lowering import resizing_rules as _resizing_rules
from pytensor_jaxlink.lowering import running as _running
from pytensor_jaxlink.lowering import shapes as _shapes
from pytensor_jaxlink.lowering import solvers as _solvers
from pytensor_jaxlink.lowering import sparse_rules as _sparse_rules
from pytensor_jaxlink.lowering import view_rules as _view_rules
from pytensor_jaxlink.lowering.build import Lowered as Lowered
from pytensor_jaxlink.lowering.build import ProgramBuilder as ProgramBuilder
from pytensor_jaxlink.lowering.build import lower as lower
from pytensor_jaxlink.lowering.checks import unread as unread
from pytensor_jaxlink.lowering.coercion import as_declared as as_declared
from pytensor_jaxlink.lowering.coercion import as_static as as_static
from pytensor_jaxlink.lowering.derivatives import LowerGraph as LowerGraph
from pytensor_jaxlink.lowering.inner_graph_rules import SidesDifferError as SidesDifferError
from pytensor_jaxlink.lowering.optimisation import optimiser_rules as _optimiser_rules
from pytensor_jaxlink.lowering.program import Program as Program
from pytensor_jaxlink.lowering.rules import Rules as Rules
from pytensor_jaxlink.lowering.samplers import is_known_draw as is_known_draw
from pytensor_jaxlink.lowering.special import scalar_ops as _special_scalar_ops

# Importing these modules registers their rules.
RULES = (
    _arange,
    _array_rules,
    _convolutions,
    _dynamic_slice_rules,
    _elementwise,
    _indexing,
    _inner_graph_rules,
    _linalg,
    _loop_rules,
    _optimiser_rules,
    _contractions,
    _random,
    _resizing_rules,
    _running,
    _shapes,
    _solvers,
    _sparse_rules,
    _special_scalar_ops,
    _view_rules,
)
