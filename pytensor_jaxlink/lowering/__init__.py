"""From nodes to JAX.  The one layer that imports both PyTensor and JAX to compile."""

from pytensor_jaxlink.lowering import arrays as _arrays
from pytensor_jaxlink.lowering import elementwise as _elementwise
from pytensor_jaxlink.lowering import fitting as _fitting
from pytensor_jaxlink.lowering import indexing as _indexing
from pytensor_jaxlink.lowering import inner as _inner
from pytensor_jaxlink.lowering import linalg as _linalg
from pytensor_jaxlink.lowering import loops as _loops
from pytensor_jaxlink.lowering import random as _random
from pytensor_jaxlink.lowering import shapes as _shapes
from pytensor_jaxlink.lowering import solvers as _solvers
from pytensor_jaxlink.lowering import sparse as _sparse
from pytensor_jaxlink.lowering import windows as _windows
from pytensor_jaxlink.lowering.build import Lowered as Lowered
from pytensor_jaxlink.lowering.build import lower as lower
from pytensor_jaxlink.lowering.checks import unread as unread
from pytensor_jaxlink.lowering.optimisers import rules as _optimisers
from pytensor_jaxlink.lowering.program import Program as Program
from pytensor_jaxlink.lowering.program import ProgramBuilder as ProgramBuilder
from pytensor_jaxlink.lowering.rule import Rules as Rules
from pytensor_jaxlink.lowering.special import rules as _special

# Importing these modules registers their rules.
RULES = (
    _arrays,
    _elementwise,
    _fitting,
    _indexing,
    _inner,
    _linalg,
    _loops,
    _optimisers,
    _random,
    _shapes,
    _solvers,
    _sparse,
    _special,
    _windows,
)
