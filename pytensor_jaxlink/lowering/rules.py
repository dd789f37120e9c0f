"""The rules of one function: which node has one, why another has none, and which have failed."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import ScalarType
from pytensor.scalar.math import PolyGamma
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg.decomposition.eigen import Eig, Eigh, Eigvalsh
from pytensor.tensor.linalg.decomposition.lu import LU
from pytensor.tensor.linalg.decomposition.qr import QR
from pytensor.tensor.linalg.decomposition.schur import Schur
from pytensor.tensor.linalg.solvers.linear_control import SolveSylvester
from pytensor.tensor.random.basic import ChoiceWithoutReplacement
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type_other import NoneTypeT

from pytensor_jaxlink.analysis import Obstacle
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.compat import core_node
from pytensor_jaxlink.errors import BrokenShapeError
from pytensor_jaxlink.graph import ArrayType, op_name
from pytensor_jaxlink.lowering.callbacks import HostCall
from pytensor_jaxlink.lowering.coercion import DTYPES_OF_JAX
from pytensor_jaxlink.lowering.derivatives import LowerGraph
from pytensor_jaxlink.lowering.overrides import override_of
from pytensor_jaxlink.lowering.probing import concrete_inputs
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.lowering.rule_errors import DEFAULTS, first_line, raised_by
from pytensor_jaxlink.lowering.samplers import sampler_of
from pytensor_jaxlink.lowering.scalars import scalar_function
from pytensor_jaxlink.ops import (
    Branch,
    NestedGraph,
    callback,
    can_be_static,
    data_inputs,
    inner_graphs,
    is_foreign_module,
    is_real_number,
    reads_values_of_elements,
    remedies,
    static_inputs,
)
from pytensor_jaxlink.remedies import Remedy, either


def has_jax_values(kind: Type) -> bool:
    """Return True if values of a PyTensor type can be arguments and results of JAX code."""
    if isinstance(kind, ArrayType | ScalarType):
        return kind.dtype in DTYPES_OF_JAX
    if isinstance(kind, SparseTensorType):
        return kind.dtype in DTYPES_OF_JAX and kind.format in ("csr", "csc")
    return isinstance(kind, RandomType | NoneTypeT)


@singledispatch
def not_right(op: Op, node: Apply) -> str | None:
    """Why PyTensor's JAX rule for a node would give other values than PyTensor, or None.

    Such a node runs on the host.
    """
    return None


@not_right.register(Schur)
def _not_right_schur(op: Schur, node: Apply) -> str | None:
    if jax.default_backend() != "cpu":
        return "JAX has Schur forms on CPUs only"
    return None if op.sort is None else "JAX does not sort the eigenvalues of a Schur form"


@not_right.register(SolveSylvester)
def _not_right_sylvester(op: SolveSylvester, node: Apply) -> str | None:
    return None if jax.default_backend() == "cpu" else "JAX solves it by a Schur form, on CPUs only"


@not_right.register(Eig)
def _not_right_eig(op: Eig, node: Apply) -> str | None:
    return "JAX has no such factorisation on TPUs" if jax.default_backend() == "tpu" else None


@not_right.register(QR)
def _not_right_qr(op: QR, node: Apply) -> str | None:
    if op.mode == "raw" and op.pivoting:
        return "JAX gives no reflectors of a factorisation with pivots"
    return None


_OF_REAL_NUMBERS = frozenset([
    "ArcTan2", "Erf", "GammaInc", "GammaIncC", "GammaL", "GammaLn", "GammaU", "Hyp2F1", "I0", "I1",
    "IntDiv", "Mod", "Owens_t", "Psi", "Sigmoid", "Softplus",
])  # fmt: skip


@not_right.register(Elemwise)
def _not_right_elemwise(op: Elemwise, node: Apply) -> str | None:
    of_complex = any(variable.type.dtype.startswith("complex") for variable in node.inputs)
    if of_complex and type(op.scalar_op).__name__ in _OF_REAL_NUMBERS:
        return "JAX has this function for real numbers only"
    if isinstance(op.scalar_op, PolyGamma):
        return "JAX's polygamma functions take no array of orders, and lose digits from order 10 on"
    return None


Reason = tuple[Code, str]
"""Why JAX cannot run a node: the code, and the words."""

# Our rules for these call PyTensor's, which may refuse a node.
_REFUSED_BY_SOME = Eigh, Eigvalsh, LU

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
            self._foreign[kind] = not self.has_own(node.op) and is_foreign_module(module)
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
        return "it multiplies two sparse matrices" if len(sparse) > 1 else not_right(node.op, node)

    def _reason_of_op(self, node: Apply) -> Reason | None:
        for kind in (type(node.op), type(getattr(node.op, "scalar_op", node.op))):
            if not kind.__module__.startswith("pytensor.") and (reason := override_of(kind)):
                return Code.NO_RULE, reason
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
                return self._reason_of_core(node)
            case op if self.has_own(op) and not isinstance(op, _REFUSED_BY_SOME):
                return None
        return _failure(node.op, lambda: jax_funcify(node.op, node=node))

    def _reason_of_core(self, node: Apply) -> Reason | None:
        core = core_node(node)
        if reads_values_of_elements(node):
            return Code.SIZES_OF_BATCH, f"{op_name(core.op)} needs sizes for each batch element"
        return self._reason_of_op(core)

    def _reason_of_scalar_op(self, node: Apply) -> Reason | None:
        """The same for all nodes of one Elemwise Op, of which graphs have thousands."""
        key = node.op, len(node.inputs)
        if key not in self._scalar_reasons:
            scalar_op = node.op.scalar_op
            own = has_entry(scalar_function, scalar_op) and scalar_function(scalar_op, node)
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
        if raised_by(error) in DEFAULTS:
            return code, f"{op_name(op)} has no JAX implementation"
        return code, first_line(error)
    return None


class Rules:
    """Finds the rules of the nodes of one function, and remembers which have failed.

    Methods may be passed as the questions that the analyses ask.

    Parameters
    ----------
    lower_graph
        Makes a JAX function of a PyTensor graph.
    callbacks
        Whether nodes without a working JAX implementation may be called from regions.
    """

    def __init__(self, lower_graph: LowerGraph, *, callbacks: bool) -> None:
        self.lower_graph, self._callbacks = lower_graph, callbacks
        self.host_calls: list[HostCall] = []
        self._not_called: set[object] = set()
        self._obstacles = Obstacles()
        self._failed: dict[object, Obstacle] = {}
        self._opaque: set[object] = set()
        self._sizes: dict[object, tuple[int, ...]] = {}
        self._probed: set[object] = set()

    def function(self, node: Apply, context: Context) -> JaxFunction:
        """The JAX function that runs ``node``, which has been found transpilable."""
        if self._obstacles.has_own(node.op):
            return jax_rule(node.op, node, context)
        return upstream_rule(node, context.static)

    def inner_graphs(self, node: Apply) -> tuple[NestedGraph, ...]:
        """The inner graphs of a node that one of our rules lowers."""
        if not (has_entry(inner_graphs, node.op) and self._obstacles.has_own(node.op)):
            return ()
        if self._opaque and _kind(node) in self._opaque:
            return ()
        return inner_graphs(node.op, node)

    def obstacle(self, node: Apply) -> Obstacle | None:
        """The obstacle that a node without a working JAX implementation meets, or None."""
        if self._failed and (failed := self._failed.get(_kind(node))) is not None:
            return failed
        return self._obstacles.of(node)

    def may_be_called(self, node: Apply) -> bool:
        """Return True if a region may call a node that has an obstacle."""
        return self._callbacks and not (self._not_called and _kind(node) in self._not_called)

    def take_broken_promise(self) -> BrokenShapeError | None:
        """That an Op did not return what was promised, where nobody could raise; told once."""
        broken = None
        for call in self.host_calls:
            broken, call.broken = broken or call.broken, None
        return broken

    def recorded_sizes(self, node: Apply) -> tuple[int, ...]:
        """The inputs that turned out to be sizes, or that the rule of another author takes so."""
        if self._obstacles.is_foreign(node) and (kind := _kind(node)) not in self._probed:
            self._probed.add(kind)
            if needed := concrete_inputs(node, _undeclared(node)):
                self._sizes[kind] = needed
        return self._sizes.get(_kind(node), ()) if self._sizes else ()

    def is_foreign(self, node: Apply) -> bool:
        """Return True if the JAX rule of a node is neither ours nor PyTensor's."""
        return self._obstacles.is_foreign(node)

    def failure(self, node: Apply, error: BaseException) -> Obstacle:
        """The obstacle where the JAX implementation of a node has failed."""
        reason = f"its JAX implementation failed: {first_line(error)}"
        if isinstance(node.op, Branch):
            return Obstacle(Code.SIDES_DIFFER, reason, Remedy.SAME_SHAPES.text())
        remedy = either(Remedy.CORRECT_RULE.text(op=op_name(node.op)), Remedy.STATIC_INPUTS.text())
        return Obstacle(Code.RULE_FAILED, reason, remedy)

    def record(self, node: Apply, error: BaseException) -> str:
        """Make more inputs static of nodes like ``node``, which failed, or keep them from JAX.

        Returns the change, in words.
        """
        kind = _kind(node)
        reason, known = first_line(error), self._sizes.get(kind, ())
        more = [position for position in _undeclared(node) if position not in known]
        if any(call.node is node for call in self.host_calls):
            self._not_called.add(kind)
            return f"runs on the host ({reason})"
        has_graphs = bool(self.inner_graphs(node))
        retry = isinstance(error, TypeError | IndexError) and not has_graphs
        if retry and more:
            self._sizes[kind] = (*known, *more)
            names = ", ".join(node.inputs[p].name or f"input {p}" for p in more)
            return f"needs {names} to be concrete ({reason})"
        if kind in self._failed or not has_graphs:
            self._opaque.add(kind)
        self._failed[kind] = self.failure(node, error)
        return f"runs on the host ({reason})"


def _undeclared(node: Apply) -> tuple[int, ...]:
    """The inputs that could be concrete, and that nobody has said to be: constants come last.

    A real number comes before the sizes, because it may take any value.
    """
    declared = {*static_inputs(node.op, node), *data_inputs(node.op, node)}

    def rank(position: int) -> tuple[bool, bool]:
        variable = node.inputs[position]
        return isinstance(variable, Constant), not is_real_number(variable)

    found = (
        position
        for position, variable in enumerate(node.inputs)
        if (isinstance(variable, Constant) or can_be_static(variable)) and position not in declared
    )
    return tuple(sorted(found, key=rank))


def _kind(node: Apply) -> tuple[object, ...]:
    """The key of the nodes that share a rule: a failure of one is a failure of all.

    A rule may take a constant where it takes no variable.
    """
    inputs = tuple((variable.type, isinstance(variable, Constant)) for variable in node.inputs)
    return node.op, inputs
