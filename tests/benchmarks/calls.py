"""What a call costs beyond the computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt

from tests.benchmarks.measure import Effort, Timing, interleave
from tests.benchmarks.report import Table, duration, times
from tests.helpers import black_box, sort_down

LENGTH = 10
REFERENCE = "jax.jit"


def adders(inputs: int) -> dict[str, Callable[..., Any]]:
    """The sum of some vectors, doubled: by a bare jitted function, and in both modes."""
    vectors = [pt.dvector() for _ in range(inputs)]
    total = reduce(add, vectors) * 2.0
    return {
        REFERENCE: jax.jit(lambda *values: reduce(add, values) * 2.0),
        "ours": pytensor.function(vectors, total, mode="JAXSELECTIVE"),
        '"JAX"': pytensor.function(vectors, total, mode="JAX"),
    }


def time_calls(
    functions: dict[str, Callable[..., Any]], arguments: Sequence[Any], effort: Effort
) -> Timing:
    """The functions on the same arguments."""
    return interleave({n: lambda f=f: f(*arguments) for n, f in functions.items()}, effort)


def at_an_offset(offset: int, start: float) -> np.ndarray[Any, Any]:
    """A vector that begins so many bytes after a multiple of 64.

    JAX on a CPU reads one where it lies if there are none, and copies it otherwise.
    """
    room = np.zeros(LENGTH * 8 + 128, "uint8")
    begin = -room.ctypes.data % 64 + offset
    vector = room[begin : begin + LENGTH * 8].view("float64")
    vector[...] = np.arange(LENGTH) + start
    return vector


def call_overhead(effort: Effort, inputs: Sequence[int] = range(1, 9)) -> Table:
    """A call with 1 to 8 inputs of 10 elements."""
    rows = []
    for count in inputs:
        functions = adders(count)
        copied, aligned = ([at_an_offset(n, float(k)) for k in range(count)] for n in (16, 0))
        row = [str(count)]
        for arguments in (copied, aligned, [*map(jax.device_put, copied)]):
            timing = time_calls(functions, arguments, effort)
            row.append(duration(timing.median(REFERENCE)))
            row += [times(timing.ratio(name, REFERENCE)) for name in ("ours", '"JAX"')]
        rows.append(tuple(row))
    kinds = ("NumPy", "aligned NumPy", "jax.Array")
    columns = [f"{kind}: {name}" for kind in kinds for name in functions]
    return Table(
        "Call overhead",
        f"The sum of 1 to 8 vectors of {LENGTH} elements. The bare jitted function's time, and "
        "ratios to it. JAX copies arrays of NumPy's, and reads those in place that begin at a "
        "multiple of 64 bytes (aligned).",
        ("inputs", *columns),
        tuple(rows),
    )


def other_calls() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Calls with other things than arrays, or that leave something: by hand, and ours."""
    x, factor, size, matrix = pt.dvector("x"), pt.dscalar("factor"), pt.lscalar("n"), pt.dmatrix()
    vector, square = jnp.arange(float(LENGTH)), jnp.ones((LENGTH, LENGTH))

    def ours(inputs: list[Any], outputs: Any, **options: Any) -> Callable[..., Any]:
        return pytensor.function(inputs, outputs, mode="JAXSELECTIVE", **options)

    by_hand = jax.jit(lambda x, factor: (x * factor).sum())
    scaled = ours([x, factor], (x * factor).sum())
    filled_by_hand = jax.jit(lambda x, n: jnp.zeros(n) + x[0], static_argnums=1)
    filled = ours([x, size], pt.zeros(size) + x[0])
    row_by_hand, row = jax.jit(lambda m, n: m[n]), ours([matrix, size], matrix[size])

    state = pytensor.shared(np.zeros(LENGTH))
    change = 0.2 * (x - state)
    step = ours([x], (change**2).sum(), updates={state: state + change})
    held = [jnp.zeros(LENGTH)]

    @jax.jit
    def step_by_hand(x: jax.Array, state: jax.Array) -> tuple[jax.Array, jax.Array]:
        change = 0.2 * (x - state)
        return (change**2).sum(), state + change

    def stepping() -> jax.Array:
        loss, held[0] = step_by_hand(vector, held[0])
        return loss

    return {
        "a number": (lambda: by_hand(vector, 0.5), lambda: scaled(vector, 0.5)),
        "keywords": (
            lambda: by_hand(x=vector, factor=0.5),
            lambda: scaled(x=vector, factor=0.5),
        ),
        "a length": (lambda: filled_by_hand(vector, LENGTH), lambda: filled(vector, LENGTH)),
        "an index": (lambda: row_by_hand(square, 3), lambda: row(square, 3)),
        "an update": (stepping, lambda: step(vector)),
    }


def calls_with_more(effort: Effort) -> Table:
    """Calls as users make them."""
    rows = []
    for name, (by_hand, ours) in other_calls().items():
        timing = interleave({REFERENCE: by_hand, "ours": ours}, effort)
        ratio = times(timing.ratio("ours", REFERENCE))
        rows.append((name, duration(timing.median(REFERENCE)), ratio))
    return Table(
        "Numbers, keywords and updates",
        f"Calls with a vector of {LENGTH} elements on the device, and with more: Python's number "
        "for a scalar, the same by keywords, a length (a static argument by hand), the index of a "
        "row (which we check, and JAX does not), and a shared vector that the call updates.",
        ("call", REFERENCE, "ours"),
        tuple(rows),
    )


def host_steps(size: int) -> tuple[dict[str, Callable[..., Any]], np.ndarray]:
    """A sort by NumPy between two computations, three ways, and an argument."""

    def before(x: jax.Array) -> jax.Array:
        return jnp.exp(-(x**2)) * jnp.tanh(x)

    def after(values: jax.Array) -> jax.Array:
        return jnp.cumsum(values * jnp.cos(values))

    def with_callback(x: jax.Array) -> jax.Array:
        values = before(x)
        kind = jax.ShapeDtypeStruct(values.shape, values.dtype)
        return after(jax.pure_callback(lambda v: sort_down(np.asarray(v)), kind, values))

    x = pt.dvector("x")
    values = black_box(sort_down)(pt.exp(-(x**2)) * pt.tanh(x))
    outputs = (values * pt.cos(values)).cumsum()
    first, second = jax.jit(before), jax.jit(after)
    functions = {
        "split by hand": lambda x: second(sort_down(np.asarray(first(x)))),
        "ours": pytensor.function([x], outputs, mode="JAXSELECTIVE"),
        "pure_callback": jax.jit(with_callback),
    }
    return functions, np.random.default_rng(0).normal(size=size)


def one_host_step(effort: Effort, sizes: Sequence[int] = (10, 1_000, 10_000)) -> Table:
    """A graph with one break."""
    rows = []
    for size in sizes:
        functions, argument = host_steps(size)
        timing = time_calls(functions, [jax.device_put(argument)], effort)
        rows.append(
            (
                f"{size:,}",
                duration(timing.median("split by hand")),
                times(timing.ratio("ours", "split by hand")),
                times(timing.ratio("pure_callback", "split by hand")),
                times(timing.ratio("pure_callback", "ours")),
            )
        )
    return Table(
        "One host step",
        "NumPy sorts between two computations: a program split by hand (jit, NumPy, jit), the "
        "graph under this mode, and one jit with a `jax.pure_callback`.",
        ("elements", "split by hand", "ours / by hand", "callback / by hand", "callback / ours"),
        tuple(rows),
    )
