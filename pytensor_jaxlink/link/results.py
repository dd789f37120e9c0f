"""Arrays of JAX in PyTensor's graphs: results of our functions go where NumPy arrays go.

PyTensor dispatches on the class of what it is given.  JAX need not have been imported for that:
PyTensor asks us when it finds a class that nobody has registered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import shared_constructor
from pytensor.tensor import as_tensor_variable
from pytensor.tensor.basic import Alloc, AllocEmpty
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable
from pytensor.utils import add_lazy_dispatcher

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.compat import as_tensor_dispatcher, retry_with
from pytensor_jaxlink.errors import JAXLinkError


def accept_results() -> None:
    """Let PyTensor take arrays of JAX where it takes NumPy's."""
    for dispatcher, convert in ((as_tensor_dispatcher, _constant), (shared_constructor, _shared)):
        add_lazy_dispatcher(dispatcher).register_lazy(_for_arrays(convert))
    # These compare classes themselves: keys, lengths, sizes and axes.
    for owner, name in (
        (TensorVariable, "__getitem__"),
        (TensorType, "__init__"),
        (RandomVariable, "make_node"),
        (CAReduce, "__init__"),
    ):
        retry_with(in_numpy, owner, name)
    retry_with(_spread(2), Alloc, "make_node")
    retry_with(_spread(1), AllocEmpty, "make_node")


def _for_arrays(convert: Callable[..., Any]) -> Callable[[Any], Callable[..., Any] | None]:
    return lambda value: convert if _is_array(value) else None


def _is_array(value: object) -> bool:
    jax = sys.modules.get("jax")  # who has an array has imported it
    return isinstance(value, getattr(jax, "Array", ()))


def _constant(
    value: object, name: str | None = None, ndim: int | None = None, **options: object
) -> Any:
    return as_tensor_variable(_to_numpy(value), name=name, ndim=ndim, **options)


def _shared(value: object, *args: object, **options: object) -> Any:
    return shared_constructor(_to_numpy(value).copy(), *args, **options)


def _to_numpy(value: object) -> np.ndarray:
    if isinstance(value, sys.modules["jax"].core.Tracer):
        raise JAXLinkError(
            f"{value} is a value that JAX traces, and a PyTensor graph can only hold values that "
            "are known.  Make it an input of the graph, and call the function of "
            "`pytensor_jaxlink.jaxify` (or `f.jax_fn`) with it where JAX traces.",
            code=Code.TRACED_IN_GRAPH,
        )
    return np.asarray(value)


def in_numpy(values: list[object]) -> list[Any]:
    """The values, with NumPy arrays in the place of those of JAX; also in tuples and lists."""
    return [_to_numpy(value) if _is_array(value) else _parts_in_numpy(value) for value in values]


def _parts_in_numpy(value: Any) -> Any:
    if type(value) not in (tuple, list):
        return value
    # What comes out of a NumPy array one by one is a scalar of NumPy.
    parts = [_to_numpy(part)[()] if _is_array(part) else _parts_in_numpy(part) for part in value]
    changed = any(new is not old for new, old in zip(parts, value, strict=True))
    return type(value)(parts) if changed else value


def _spread(first: int) -> Callable[[list[Any]], list[Any]]:
    """A shape that was taken for one length, from position ``first`` on, as lengths."""

    def spread(values: list[Any]) -> list[Any]:
        lengths = values[first:]
        if len(lengths) == 1 and _is_array(lengths[0]) and lengths[0].ndim == 1:
            return [*values[:first], *_to_numpy(lengths[0])]
        return values

    return spread
