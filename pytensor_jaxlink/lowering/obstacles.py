"""Why a node has no JAX implementation, found without running it."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.raise_op import CheckAndRaise
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.decomposition.eigen import Eig, Eigh, Eigvalsh
from pytensor.tensor.linalg.decomposition.lu import LU, LUFactor
from pytensor.tensor.linalg.decomposition.schur import Schur
from pytensor.tensor.linalg.decomposition.svd import SVD
from pytensor.tensor.linalg.inverse import MatrixInverse, MatrixPinv
from pytensor.tensor.linalg.products import Expm
from pytensor.tensor.linalg.solvers.core import SolveBase
from pytensor.tensor.linalg.summary import SLogDet
from pytensor.tensor.random.basic import ChoiceWithoutReplacement
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.special import LogSoftmax, Softmax

from pytensor_jaxlink.analysis import Obstacle
from pytensor_jaxlink.catalogue import Code, without_codes
from pytensor_jaxlink.compat import core_node
from pytensor_jaxlink.graph import ArrayType, op_name
from pytensor_jaxlink.lowering.restrictions import has_jax_values, not_right
from pytensor_jaxlink.lowering.rule import jax_rule
from pytensor_jaxlink.lowering.samplers import sampler_of
from pytensor_jaxlink.lowering.scalars import scalar_function
from pytensor_jaxlink.ops import callback, data_inputs, remedies, static_inputs
from pytensor_jaxlink.remedies import either

Reason = tuple[Code, str]
"""Why JAX cannot run a node: the code, and the words."""

# Our rules for these call PyTensor's, so that one has to apply as well.
_WRAPPED = (
    CAReduce,
    Cholesky,
    Eig,
    Eigh,
    Eigvalsh,
    Expm,
    LU,
    LUFactor,
    LogSoftmax,
    MatrixInverse,
    MatrixPinv,
    SLogDet,
    SVD,
    Schur,
    Softmax,
    SolveBase,
)

_OF_ONE_PATTERN = ("AddSparseSparseData", "AddSSData")


class Obstacles:
    """The obstacles of nodes, and the authors of the rules of the others.

    Each question about a class or a node is answered once.
    """

    def __init__(self) -> None:
        self._own: dict[type[Op], bool] = {}
        self._foreign: dict[type[Op], bool] = {}
        self._found: dict[Apply, Obstacle | None] = {}
        self._scalar_reasons: dict[tuple[Op, int], Reason | None] = {}

    def of(self, node: Apply) -> Obstacle | None:
        """The obstacle that a node meets, or None."""
        if node not in self._found:
            reason = self._reason(node)
            self._found[node] = None if reason is None else _untranspilable(node, *reason)
        return self._found[node]

    def has_own(self, op: Op) -> bool:
        """Return True if our rule is at least as specific to the class of ``op`` as PyTensor's.

        Or if the Op is a check as PyTensor has it.
        """
        kind = type(op)
        if kind not in self._own:
            classes = kind.__mro__[:-1]
            own, upstream = (
                next((k for k, c in enumerate(classes) if c in registry), len(classes))
                for registry in (jax_rule.registry, jax_funcify.registry)
            )
            # A check that another author's rule drops would depend on what has been imported:
            # PyMC's samplers on JAX register one for every assertion.
            check = getattr(kind, "perform", None) is CheckAndRaise.perform
            self._own[kind] = check or (own < len(classes) and own <= upstream)
        return self._own[kind]

    def is_foreign(self, node: Apply) -> bool:
        """Return True if the JAX rule of a node is neither ours nor PyTensor's."""
        kind = type(node.op)
        if kind not in self._foreign:
            module = jax_funcify.dispatch(kind).__module__
            self._foreign[kind] = not self.has_own(node.op) and not module.startswith("pytensor.")
        return self._foreign[kind]

    def _reason(self, node: Apply) -> Reason | None:
        for variable in (*node.inputs, *node.outputs):
            if not has_jax_values(variable.type):
                return Code.NO_JAX_TYPE, f"values of {variable.type} have no JAX counterpart"
        if any(isinstance(v.type, SparseTensorType) for v in (*node.inputs, *node.outputs)):
            reason = self._reason_of_sparse(node)
            return None if reason is None else (Code.SPARSE, reason)
        return self._reason_of_op(node)

    def _reason_of_sparse(self, node: Apply) -> str | None:
        """PyTensor's own rules take sparse matrices of another form, and constants only."""
        if isinstance(node.op, Shape | Shape_i):
            return None
        sparse = [v for v in node.inputs if isinstance(v.type, SparseTensorType)]
        if not type(node.op).__module__.startswith("pytensor.sparse") or not self.has_own(node.op):
            return f"{op_name(node.op)} has no JAX implementation for sparse matrices"
        if len(sparse) > 1 and not isinstance(node.outputs[0].type, ArrayType):
            same_pattern = type(node.op).__name__ in _OF_ONE_PATTERN
            return None if same_pattern else "the pattern of its result depends on the data"
        return "it multiplies two sparse matrices" if len(sparse) > 1 else None

    def _reason_of_op(self, node: Apply) -> Reason | None:
        if (reason := not_right(node.op, node)) is not None:
            return Code.OTHER_VALUES, reason
        match node.op:
            case Elemwise():
                return self._reason_of_scalar_op(node)
            case ChoiceWithoutReplacement():
                return None
            case RandomVariable() as op:
                return (
                    None if sampler_of(op) else _failure(op, lambda: jax_sample_fn(op, node=node))
                )
            case Blockwise():
                return self._reason_of_core(core_node(node))
            case op if self.has_own(op) and not isinstance(op, _WRAPPED):
                return None
        return _failure(node.op, lambda: jax_funcify(node.op, node=node))

    def _reason_of_core(self, core: Apply) -> Reason | None:
        if static_inputs(core.op, core) or data_inputs(core.op, core):
            return Code.SIZES_OF_BATCH, f"{op_name(core.op)} needs sizes for each batch element"
        return self._reason_of_op(core)

    def _reason_of_scalar_op(self, node: Apply) -> Reason | None:
        """The same for all nodes of one Elemwise Op, of which graphs have thousands."""
        key = node.op, len(node.inputs)
        if key not in self._scalar_reasons:
            scalar_op = node.op.scalar_op
            own = (
                has_entry(scalar_function, scalar_op)
                and scalar_function(scalar_op, node) is not None
            )
            reason = None if own else _failure(node.op, lambda: jax_funcify(node.op, node=node))
            self._scalar_reasons[key] = reason
        return self._scalar_reasons[key]


def has_entry(table: Any, op: object) -> bool:
    """Return True if a table of `singledispatch` has an entry for the class of an Op."""
    return table.dispatch(type(op)) is not table.dispatch(object)


def _remedies(node: Apply) -> tuple[str, ...]:
    """The remedies, without a JAX implementation where the linker would not look for one."""
    if not_right(node.op, node) is not None:
        return callback(node)
    foreign = any(not has_jax_values(v.type) for v in (*node.inputs, *node.outputs))
    if foreign and not has_entry(remedies, node.op):
        return ()
    return remedies(node.op, node)


def _untranspilable(node: Apply, code: Code, reason: str) -> Obstacle:
    return Obstacle(code, reason, either(*_remedies(node)))


def _failure(op: Op, find_rule: Callable[[], object]) -> Reason | None:
    """Why a rule does not apply.  Rules say it in many ways."""
    try:
        find_rule()
    except Exception as error:
        if isinstance(op, FromFunctionOp):
            reason = f"`{op_name(op)}` is a Python function that JAX cannot trace"
            return Code.PYTHON_FUNCTION, reason
        code = Code.NO_SAMPLER if isinstance(op, RandomVariable) else Code.NO_RULE
        if _raised_by(error) in _DEFAULTS:
            return code, f"{op_name(op)} has no JAX implementation"
        return code, first_line(error)
    return None


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, without codes of ours."""
    return without_codes(str(error).strip() or type(error).__name__).splitlines()[0]


_DEFAULTS = frozenset(table.dispatch(object).__code__ for table in (jax_funcify, jax_sample_fn))
"""The code of the entries that PyTensor's tables have for every class: they say that none is there.

An entry for a class may fail too: its rule needs another package, or other inputs.
"""


def _raised_by(error: BaseException) -> CodeType | None:
    """The code of the function that raised an exception."""
    trace, code = error.__traceback__, None
    while trace is not None:
        trace, code = trace.tb_next, trace.tb_frame.f_code
    return code
