"""The properties of an Op, a Type or another part of a graph: open tables, and their entries.

Most classes of PyTensor keep what their constructor was given under the same name; those that do
not have an entry below.  An Op of your own needs one only if neither holds.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, singledispatch
from importlib import import_module
from typing import Any

import numpy as np
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import io_toposort
from pytensor.link.jax.ops import JAXOp
from pytensor.printing import Print
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.trees import a_class

POSITIONAL = "*"
"""The key of the arguments of a constructor that takes any number of them."""

Properties = dict[str, Any]
"""The keyword arguments of a constructor."""

_MISSING = object()
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@singledispatch
def properties_of(part: object) -> Properties:
    """The keyword arguments that make an Op (or a Type) again.

    Values may be plain Python data, arrays, Ops, Types, classes, and an `InnerGraph`.  The default
    looks for attributes with the names of the constructor's parameters; what is at its default is
    left out, so that a version which adds or renames it can still load the file.

    Raises
    ------
    ArtifactError
        If a parameter has neither an attribute nor a default.

    Examples
    --------
    An Op that keeps its properties under other names than its constructor has:

    >>> from pytensor.graph.op import Op
    >>> from pytensor_jaxlink.artifact.graphs import properties_of
    >>> class Shift(Op):
    ...     def __init__(self, by):
    ...         self.distance = by
    ...     def perform(self, node, inputs, outputs):
    ...         outputs[0][0] = inputs[0] + self.distance
    >>> @properties_of.register(Shift)
    ... def _(op):
    ...     return {"by": op.distance}
    >>> properties_of(Shift(3))
    {'by': 3}
    """
    return constructor_arguments(part)


def rule_for(table: Any, kind: type) -> Callable[..., Any]:
    """The entry of a `singledispatch` for a class, or for the nearest class it is derived from.

    `singledispatch` looks also for abstract classes that a class is not derived from.  PyTensor's
    Ops and Types are such, and a question to one of them goes through all that are derived from it:
    a tenth of a second for the classes of a model.
    """
    registered = table.registry
    return next(registered[each] for each in kind.__mro__ if each in registered)


@singledispatch
def build_part(kind: Callable[..., object], properties: Properties) -> object:
    """An Op (or a Type) of a class from what `properties_of` gave; the default calls the class.

    Registered for a class, as `properties_of` is; called as ``build(kind, properties)``.
    """
    return kind(*properties.pop(POSITIONAL, ()), **properties)


def constructor_arguments(part: object) -> Properties:
    """The arguments that make an equal object, by the names of the constructor's parameters."""
    found: Properties = {}
    for name, default in _parameters(type(part)):
        value = getattr(part, name.removeprefix(POSITIONAL), _MISSING)
        if value is _MISSING:
            value = getattr(part, f"_{name}", default)
        if value is inspect.Parameter.empty:
            raise ArtifactError(
                f"{part}, {a_class(part)}, has no attribute {name!r}, which "
                "its constructor needs, so it cannot be saved as it is. "
                f"{Remedy.PROPERTIES.text()}.",
                code=Code.CONSTRUCTOR,
            )
        if not _is_default(value, default):
            found[POSITIONAL if name.startswith(POSITIONAL) else name] = value
    return found


@cache
def _parameters(kind: type) -> tuple[tuple[str, object], ...]:
    """The names and defaults of what a constructor takes, those it hands on included."""
    return tuple(_find_parameters(kind))


def _find_parameters(kind: type) -> Iterator[tuple[str, object]]:
    seen: set[str] = set()
    for each in kind.__mro__:
        if "__init__" not in vars(each) or each is object:
            continue
        parameters = list(inspect.signature(each.__init__).parameters.values())[1:]
        for parameter in parameters:
            if parameter.kind is parameter.VAR_POSITIONAL and parameter.name != "args":
                yield POSITIONAL + parameter.name, ()
            if parameter.kind not in _VARIABLE and parameter.name not in seen:
                seen.add(parameter.name)
                yield parameter.name, parameter.default
        if not any(parameter.kind in _VARIABLE for parameter in parameters):
            return


def _is_default(value: object, default: object) -> bool:
    if value is default:
        return True
    return type(value) is type(default) and isinstance(value, bool | int | str) and value == default


# -- graphs inside Ops -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class InnerGraph:
    """The graph between some inputs and outputs."""

    inputs: list[Variable]
    outputs: list[Variable]
    nodes: list[Apply]

    @classmethod
    def of(cls, op: HasInnerGraph) -> InnerGraph:
        """The graph inside an Op."""
        # Before PyTensor 3.1 there are two: one that is changed when a function is linked, and one
        # that is not, by which Ops are compared.
        fgraph = getattr(op, "_frozen_fgraph", op.fgraph)
        if isinstance(fgraph, FunctionGraph):
            return cls.between(fgraph.inputs, fgraph.outputs)
        nodes = dict.fromkeys(fgraph.toposort())  # equal nodes are one, and may be listed twice
        return cls(list(fgraph.inputs), list(fgraph.outputs), list(nodes))

    @classmethod
    def between(cls, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> InnerGraph:
        """The graph between variables."""
        return cls(list(inputs), list(outputs), list(io_toposort(inputs, outputs)))


def op_of_jax(graph: InnerGraph) -> JAXOp | None:
    """An Op of a graph, or of a graph inside, that wraps a function of JAX; None without one."""
    for node in graph.nodes:
        if isinstance(node.op, JAXOp):
            return node.op
        found = op_of_jax(InnerGraph.of(node.op)) if isinstance(node.op, HasInnerGraph) else None
        if found is not None:
            return found
    return None


# -- scalar Ops and what maps them over arrays -----------------------------------------------------


@properties_of.register(ScalarOp)
def _scalar(op: ScalarOp) -> Properties:
    found = constructor_arguments(op)
    if "output_types_preference" not in vars(op):
        found.pop("output_types_preference", None)  # the class has it
    return found


@properties_of.register(Elemwise)
def _elemwise(op: Elemwise) -> Properties:
    found: Properties = {"scalar_op": op.scalar_op}
    if op.inplace_pattern:
        found["inplace_pattern"] = dict(op.inplace_pattern)
    if op.name is not None:
        found["name"] = op.name
    if op.nfunc_spec != getattr(op.scalar_op, "nfunc_spec", None):
        found["nfunc_spec"] = op.nfunc_spec and tuple(op.nfunc_spec)
    return found


@properties_of.register(Blockwise)
def _blockwise(op: Blockwise) -> Properties:
    found: Properties = {"core_op": op.core_op, "signature": op.signature}
    if op.name is not None:
        found["name"] = op.name
    if op.destroy_map:
        found["destroy_map"] = op.destroy_map
    spec = getattr(op, "gufunc_spec", None)
    if spec is not None:
        found["gufunc_spec"] = tuple(spec)
    return found


@build_part.register(Elemwise)
@build_part.register(Blockwise)
def _build_mapped(kind: type[Elemwise | Blockwise], properties: Properties) -> Op:
    for name in ("nfunc_spec", "gufunc_spec"):
        _check_function(properties.get(name))
    return kind(**properties)


def _check_function(spec: Sequence[object] | None) -> None:
    """Refuse names that lead elsewhere than to NumPy's and SciPy's universal functions.

    PyTensor imports what the name says and calls it.
    """
    if spec is None:
        return
    found = re.fullmatch(r"(?:(numpy|scipy\.special)\.)?([a-z0-9_]+)", str(spec[0]))
    function = getattr(import_module(found[1] or "numpy"), found[2], None) if found else None
    if not isinstance(function, np.ufunc):
        raise ArtifactError(
            f"{spec[0]!r} is not a universal function of NumPy or SciPy", code=Code.DAMAGED
        )


# -- types -----------------------------------------------------------------------------------------


@properties_of.register(TensorType)
def _tensor(kind: TensorType) -> Properties:
    found = constructor_arguments(kind)
    found.pop("broadcastable", None)  # another, older way to give the shape
    return found


# -- others ----------------------------------------------------------------------------------------


@properties_of.register(RandomVariable)
def _random_variable(op: RandomVariable) -> Properties:
    found = constructor_arguments(op)
    # The number of dimensions follows from the signature; PyTensor warns when it is given.
    return {
        name: value
        for name, value in found.items()
        if name not in ("ndim_supp", "ndims_params") and value != getattr(type(op), name, None)
    }


@properties_of.register(FromFunctionOp)
def _from_function(op: FromFunctionOp) -> Properties:
    own = vars(op)
    return {
        "fn": own["_FromFunctionOp__fn"],
        "itypes": op.itypes,
        "otypes": op.otypes,
        "infer_shape": own["_FromFunctionOp__infer_shape"],
    }


@properties_of.register(Print)
def _print(op: Print) -> Properties:
    default = inspect.signature(Print.__init__).parameters["global_fn"].default
    found = constructor_arguments(op)
    if op.global_fn is default:
        found.pop("global_fn", None)
    return found


@build_part.register(RandomVariable)
@build_part.register(Print)
def _build_caller(kind: type[RandomVariable | Print], properties: Properties) -> Op:
    """An Op that calls attributes of a value by their names: no special methods."""
    for name in (properties.get("name"), *properties.get("attrs", ())):
        if str(name).startswith("_") and name != "__str__":
            raise ArtifactError(f"{name!r} is no public attribute", code=Code.DAMAGED)
    return kind(**properties)
