"""The properties of an Op, a Type or another part of a graph: open tables.

Most classes of PyTensor keep what their constructor was given under the same name; those that do
not are described in `pytensor_jaxlink.artifact.graph.ops`.  An Op of your own needs an entry here
only if neither holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache, singledispatch
from typing import Any

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy

POSITIONAL = "*"
"""The key of the arguments of a constructor that takes any number of them."""

_MISSING = object()
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@singledispatch
def properties_of(part: Any) -> dict[str, Any]:
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
    >>> from pytensor_jaxlink.artifact.graph import properties_of
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


@singledispatch
def build_part(kind: Any, properties: dict[str, Any]) -> Any:
    """An Op (or a Type) of a class from what `properties_of` gave; the default calls the class.

    Registered for a class, as `properties_of` is; called as ``build(kind, properties)``.
    """
    return kind(*properties.pop(POSITIONAL, ()), **properties)


def constructor_arguments(part: Any) -> dict[str, Any]:
    """The arguments that make an equal object, by the names of the constructor's parameters."""
    found: dict[str, Any] = {}
    for name, default in _parameters(type(part)):
        value = getattr(part, name.removeprefix(POSITIONAL), _MISSING)
        if value is _MISSING:
            value = getattr(part, f"_{name}", default)
        if value is inspect.Parameter.empty:
            kind = type(part)
            raise ArtifactError(
                f"{part} ({kind.__module__}.{kind.__qualname__}) has no attribute {name!r}, which "
                "its constructor needs, so it cannot be saved as it is. "
                f"{Remedy.PROPERTIES.text()}.",
                code=Code.CONSTRUCTOR,
            )
        if not _is_default(value, default):
            found[POSITIONAL if name.startswith(POSITIONAL) else name] = value
    return found


@cache
def _parameters(kind: type) -> tuple[tuple[str, Any], ...]:
    """The names and defaults of what a constructor takes, those it hands on included."""
    return tuple(_find_parameters(kind))


def _find_parameters(kind: type) -> Iterator[tuple[str, Any]]:
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


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return type(value) is type(default) and isinstance(value, bool | int | str) and value == default
