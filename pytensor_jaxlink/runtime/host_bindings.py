"""The functions that the source of a plan calls for values that the host reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import FAILED_ON_HOST, NotJittableError
from pytensor_jaxlink.generators import generator_of_key
from pytensor_jaxlink.plan import CutOff, Plan
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.devices import to_numpy
from pytensor_jaxlink.runtime.keys import as_key
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.typed_jax import ARRAY, Tracer, device_put
from pytensor_jaxlink.runtime.waiting import waited_for
from pytensor_jaxlink.sparse_values import to_scipy


def fetching(ready: Runnable) -> Callable[[object, int], object]:
    """The function that gives a value as the host reads it."""
    plan, stats = ready.plan, ready.stats
    special = plan.generators | plan.sparse

    def host(value: object, number: int) -> object:
        if type(value) is ARRAY and number not in special:
            return to_numpy(value, stats)
        if number in plan.generators:
            return as_generator(value)
        if number in plan.sparse:
            return as_matrix(value)
        if isinstance(value, Tracer):
            raise not_static(plan, number)
        return value

    return host


def cutting(ready: Runnable, step: CutOff) -> Callable[[Any, tuple[Any, ...]], object]:
    """Indexes a result.

    By NumPy, because JAX compiles a program for each length.  A new length took it 70 ms on an
    H100, and NumPy 3 ms for 8 MB and 90 ms for 80 MB, to the host and back.  On a CPU, where
    nothing moves, it was 130 ms against 8 ms for 8 MB.
    """
    plan, stats, number = ready.plan, ready.stats, step.arguments[0]
    where = plan.lines.get(step.results[0])

    def cut(value: Any, key: tuple[Any, ...]) -> object:
        if isinstance(value, Tracer):
            raise not_static(plan, number)
        try:
            part = to_numpy(value, stats)[key]
        except Exception as error:  # as PyTensor raises it, of a mask that does not fit
            if where is not None:
                error.add_note(f"while running {step.operation} on the host, written at {where}")
            setattr(error, FAILED_ON_HOST, True)
            raise
        if type(value) is ARRAY and value.committed and len(value.sharding.device_set) == 1:
            return device_put(part.copy(), value.sharding)
        return part

    return cut


def as_generator(value: object) -> object:
    """A generator, of a key that JAX may still be computing."""
    if isinstance(value, np.random.Generator):
        return value
    key = as_key(value)
    if type(key) is ARRAY:
        # A generator belongs to no device, so that functions on different devices share it.
        key = waited_for(key) if key.committed else key
    return generator_of_key(key)


def as_matrix(value: object) -> object:
    """A matrix of SciPy, of arrays that JAX may still be computing."""
    if any(isinstance(part, Tracer) for part in jax.tree.leaves(value)):
        raise NotJittableError(
            "JAX traces a sparse matrix, and functions return matrices of SciPy. "
            f"{Remedy.RETURN_ARRAYS_OF_MATRIX.text()}"
        )
    return to_scipy(value)


def not_static(plan: Plan, number: int) -> NotJittableError:
    """The error for a value that JAX traces and the host needs."""
    name = plan.names[number]
    if number in plan.inputs:
        position = plan.inputs.index(number)
        return NotJittableError(
            f"JAX traces argument {position}, {name!r}, and the function needs its value "
            f"while it is traced. {Remedy.STATIC_ARGUMENT.text()}.",
            code=Code.TRACED_SIZE,
        )
    return NotJittableError(
        f"the value of {name} is computed by JAX and needed on the host, so the function "
        "cannot run inside one jax.jit (or vmap, or grad). f.explain() says where and why."
    )
