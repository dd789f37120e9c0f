"""Conditions that are checked after a region has run, and the entries that it computes.

JAX cannot raise from inside a compiled region.  A rule hands a condition to `require`; the region
returns the conjunction of them as one boolean, and where that is false the function is evaluated
again by PyTensor's own implementation, which raises what it raises.

Where the user traces, nobody can look at a condition, and `require` drops it.  Assumptions, of
rewrites and of rules, stay (`collect`): where one is false, the graph has a value, and the region
another one.  Real results are NaN then.

The entries of arrays are counted while JAX traces, those of inner graphs too: once for each step of
a loop, and for both sides of a branch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import REFUTED, NotJittableError
from pytensor_jaxlink.size_functions import is_open, work_of

_KNOWN = (bool, np.bool_, np.ndarray)

_WINDOW = 32
"""Entries; XLA makes no tree of so few."""


class _Collectors(threading.local):
    def __init__(self) -> None:
        self.stack: list[list[jax.Array]] = []
        self.read, self.refuted, self.differentiable = True, False, False


_collectors = _Collectors()


@contextmanager
def collecting() -> Iterator[list[jax.Array]]:
    """Collect the conditions required inside the block."""
    conditions: list[jax.Array] = []
    if not _collectors.stack:
        _collectors.refuted = False
    _collectors.stack.append(conditions)
    try:
        yield conditions
    finally:
        _collectors.stack.pop()


@contextmanager
def in_this_block(state: threading.local, name: str, value: object) -> Iterator[None]:
    """Give an attribute of a thread's state another value inside the block."""
    before = getattr(state, name)
    setattr(state, name, value)
    try:
        yield
    finally:
        setattr(state, name, before)


def unread() -> AbstractContextManager[None]:
    """Nobody will look at the conditions that are required inside the block.

    So it is where the user traces: JAX has no place for them in what it makes of the function.
    """
    return in_this_block(_collectors, "read", False)


def are_read() -> bool:
    """Return True if conditions are checked after the region has run."""
    return _collectors.read


def differentiable() -> AbstractContextManager[None]:
    """JAX may differentiate the code that is traced inside the block, whoever reads conditions."""
    return in_this_block(_collectors, "differentiable", True)


def is_differentiable() -> bool:
    """Return True if JAX may differentiate the code: where the user traces it, too."""
    return _collectors.differentiable or not are_read()


def refute(error: Exception) -> None:
    """State a condition that is false for the shapes that JAX traces.

    It is read after the call, as one that is false for some values: no failure of JAX, so other
    shapes keep their region.  Where nobody reads it, this ends the trace.

    Raises
    ------
    Exception
        The one that is given, where nobody reads conditions.
    """
    if not are_read():
        raise error
    require(jnp.array(False))
    _collectors.refuted = True


def refuted(error: Exception) -> Exception:
    """The error, marked as one of the arguments: PyTensor finishes the call, and JAX was right."""
    setattr(error, REFUTED, True)
    return error


def unknown_size(said: str) -> NotJittableError:
    """The error of an assumption that is false for the shapes alone, where nobody reads it."""
    text = f"JAX traces a size that it must know for these shapes: {said}"
    return NotJittableError(text, code=Code.TRACED_SIZE)


def is_refuted() -> bool:
    """Return True after `refute`, in the outermost block that collects."""
    return _collectors.refuted


def unnamed_failure() -> Exception:
    """The error of a false condition that has no other."""
    return ValueError("a condition of the graph is false for these shapes and sizes")


def require(condition: ArrayLike, error: Callable[[], Exception] = unnamed_failure) -> None:
    """State that a boolean array must be true everywhere, or PyTensor may raise.

    What is known while JAX traces is checked at once: a false condition then ends the trace.  Where
    nobody reads conditions, the user sees the error that ends it.
    """
    if are_read() or isinstance(condition, _KNOWN):
        collect(condition, error)


def collect(condition: ArrayLike, error: Callable[[], Exception] = unnamed_failure) -> None:
    """State an assumption of ours, or a condition that an inner block has collected."""
    if is_false(condition):
        # It may be an assumption: no failure of JAX.
        raise refuted(unnamed_failure() if are_read() else error())
    if _collectors.stack and not isinstance(condition, _KNOWN):
        _collectors.stack[-1].append(everywhere(jnp.asarray(condition)))


def is_false(condition: ArrayLike) -> bool:
    """Return True for a condition that is known while JAX traces, and false somewhere."""
    return isinstance(condition, _KNOWN) and not np.all(condition)


def everywhere(condition: jax.Array) -> jax.Array:
    """Return true if a boolean array is true in every entry.

    XLA's CPU compiler makes a reduction of one array a tree, with one kernel for each factor of 32
    in its length and one for the condition, and a kernel takes 10 ms to compile.  A reduction of
    several arrays becomes one kernel, and the condition a part of it.  So the array is reduced
    twice at once; the second result is always true.  It must be another function of the entries,
    or XLA finds that one reduction is enough.
    """
    is_small = not is_open(size := np.size(condition)) and size <= _WINDOW
    if is_small or jax.default_backend() != "cpu":
        return jnp.all(condition)
    start, axes = np.bool_(True), tuple(range(np.ndim(condition)))
    every, true = jax.lax.reduce((condition, condition), (start, start), _both, axes)
    return every & true


def _both(
    one: tuple[jax.Array, jax.Array], two: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    return one[0] & two[0], one[1] | two[1]


def conjunction(conditions: list[jax.Array]) -> tuple[jax.Array, ...]:
    """The conditions as no value, where there are none, or one."""
    return (one_condition(conditions),) if conditions else ()


def one_condition(conditions: list[jax.Array]) -> jax.Array:
    """The conditions as one value, also where there are none: for functions with fixed results."""
    return reduce(jnp.logical_and, conditions or [jnp.asarray(True)])


class _Work(threading.local):
    """The entries that have been computed in a thread, and how often a block is run."""

    def __init__(self) -> None:
        self.entries, self.times = 0, 1


_work = _Work()


@contextmanager
def counting() -> Iterator[_Work]:
    """Count what is computed in the block, from 0 on."""
    with in_this_block(_work, "entries", 0), in_this_block(_work, "times", 1):
        yield _work


def repeated(times: object) -> AbstractContextManager[None]:
    """The block is the body of a loop; once for a number of steps that is not known."""
    known = max(times, 1) if isinstance(times, int) else 1
    return in_this_block(_work, "times", _work.times * known)


def count(values: Iterable[object]) -> None:
    """Count some values; one that is no array is one entry."""
    _work.entries += _work.times * sum(work_of(getattr(value, "shape", ())) for value in values)
