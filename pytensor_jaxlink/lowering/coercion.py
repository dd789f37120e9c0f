"""Values at the border between PyTensor's types and JAX's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes
from jax.typing import ArrayLike
from pytensor.graph.basic import Variable
from pytensor.graph.type import Type
from pytensor.scalar.basic import ScalarType

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.lowering.checks import refuted
from pytensor_jaxlink.ops import is_zero
from pytensor_jaxlink.size_functions import as_integer, is_open
from pytensor_jaxlink.sparse_values import SparseValue

_SHORTEST_RANGE = 2
"""The entries of the shortest constant that XLA takes for a range."""

Value = TypeVar("Value")

DTYPES_OF_JAX = frozenset([
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
])  # fmt: skip
"""The names of the dtypes that PyTensor and JAX share."""


_MOST_ENTRIES = (2**63 - 1) // 16
"""So many entries of any dtype have fewer bytes than an int64 can count."""


def canonical_dtype(dtype: np.dtype | str) -> np.dtype:
    """The dtype, or what stands for it while JAX is configured without 64-bit types."""
    return dtypes.canonicalize_dtype(dtype)


def as_dtype(value: ArrayLike, dtype: np.dtype | str) -> jax.Array:
    """A value as a JAX array of a dtype, rounded once.  Reals become integers as in `integer_of`.

    XLA turns a product with a converted boolean into a selection, in which NaN times False is 0; it
    leaves a product with a selection of 1 and 0 alone.
    """
    dtype, given = canonical_dtype(dtype), getattr(value, "dtype", None)
    if dtype.kind in "iu" and given is not None and jnp.issubdtype(given, np.inexact):
        return integer_of(jnp.real(value), dtype)
    if dtype == np.float16 and given in (np.float32, np.float64) and isinstance(value, jax.Array):
        return _half_of(value).astype(dtype)
    if given != np.dtype("bool") or dtype == np.dtype("bool"):
        return jnp.asarray(value, dtype=dtype)
    return jnp.where(value, jnp.ones((), dtype), jnp.zeros((), dtype))


def as_inexact(value: ArrayLike) -> jax.Array:
    """A value as a JAX array of real or complex numbers: integers of any type as float64.

    So does NumPy; JAX takes integers of 32 bits and less for float32, in which few of them fit.
    """
    array = jnp.asarray(value)
    return array if jnp.issubdtype(array.dtype, np.inexact) else as_dtype(array, "float64")


def as_double(value: ArrayLike) -> jax.Array:
    """A value as a JAX array of real or complex numbers in double precision.

    NumPy computes with matrices of any type so, and rounds the result to the type.
    """
    array = jnp.asarray(value)
    return as_dtype(array, np.promote_types(array.dtype, "float64"))


def _half_of(value: jax.Array) -> jax.Array:
    """A number rounded to what a float16 holds, in the dtype that it has.

    XLA rounds a float64 to float32 first, and on GPUs drops a conversion to float16 that is
    followed by one back.
    """
    limits = np.finfo(np.float16)
    half = jax.lax.reduce_precision(value, exponent_bits=limits.nexp, mantissa_bits=limits.nmant)
    # It takes denormal numbers for zero.  The difference is 0.0, and has the derivative.
    least, known = float(limits.smallest_subnormal), jax.lax.stop_gradient(value)
    fine = jnp.round(known / least) * least - (known - value)
    return jnp.where(jnp.abs(value) < limits.tiny, fine, half)


@contextmanager
def mixing() -> Iterator[None]:
    """Let rules mix types and ranks, also where JAX is configured to refuse that to its user."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def integer_of(value: jax.Array, dtype: np.dtype) -> jax.Array:
    """Numbers out of range as NumPy converts them on common processors; XLA goes to the nearest.

    They wrap from the integer type that the processor converts to.  What has no place in it,
    NaN and infinity included, becomes its smallest number.
    """
    dtype = canonical_dtype(dtype)  # the user may trace without 64-bit types
    is_short = dtype.itemsize < 4 or dtype == np.int32
    word = canonical_dtype("int32" if is_short else "int64")
    limit = float(2 ** (8 * word.itemsize - 1))
    beyond = (value >= limit) & (dtype.kind == "u" and dtype.itemsize == word.itemsize)
    value = jnp.where(beyond, value - limit, value)
    representable = (value >= -limit) & (value < limit)
    smallest = jnp.asarray(np.iinfo(word).min, word)
    whole = jnp.where(representable, value.astype(word), smallest)
    return jnp.where(beyond, whole ^ smallest, whole).astype(dtype)


def as_size(value: object) -> int:
    """A size, refused where it is negative (JAX would clip some of them to zero)."""
    size = as_integer(value)
    if isinstance(size, int) and size < 0:
        raise ValueError(f"negative dimensions are not allowed, and a size is {size}")
    return size


def as_sizes(values: Iterable[object], dtype: str) -> tuple[int, ...]:
    """The lengths of an array that is made of them."""
    sizes = tuple(map(as_size, values))
    check_bytes(sizes, dtype)
    return sizes


def check_bytes(lengths: Sequence[int], dtype: str | np.dtype) -> None:
    """Raise `ValueError`, as NumPy does, for an array of more bytes than an int64 can count.

    XLA raises another error, or (with JAX 0.10) ends the process.
    """
    size = prod(lengths)
    if isinstance(size, int) and size > _MOST_ENTRIES and size * np.dtype(dtype).itemsize >= 2**63:
        raise ValueError(f"array is too big: its lengths are {tuple(lengths)}")


def check_broadcast(variables: Sequence[Variable], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise `ValueError`, as PyTensor does, where lengths differ, or 1 would have to be stretched.

    PyTensor broadcasts by type, NumPy and JAX by value.  JAX's own error is a `TypeError`, which
    would not tell a side of a branch that must not be taken from a rule that fails.
    """
    for axis in range(-max(map(len, shapes), default=0), 0):
        lengths = [
            shape[axis]
            for shape, variable in zip(shapes, variables, strict=True)
            if len(shape) >= -axis and not variable.type.broadcastable[len(shape) + axis]
        ]
        known = {length for length in lengths if isinstance(length, int)}
        is_open = any(not isinstance(length, int) for length in lengths)
        if len(known) > 1 or (1 in known and is_open):
            raise ValueError(
                f"the inputs have different lengths along axis {axis}: {lengths}; a length of 1 "
                "that the type does not declare is not broadcast"
            )


def check_equal_lengths(*lengths: object) -> None:
    """Raise `ValueError`, as NumPy does, where lengths that have to be equal are known to differ.

    JAX's own error is a `TypeError`, as in `check_broadcast`.  PyTensor decides what it is: SciPy
    stretches a matrix of one number.
    """
    known = {length for length in lengths if isinstance(length, int)}
    if len(known) > 1:
        text = f"lengths that have to be equal are {', '.join(map(str, sorted(known)))}"
        raise refuted(ValueError(text))


def as_static(value: object, kind: Type) -> object:
    """A concrete value as the NumPy value that PyTensor's type declares.

    Raises
    ------
    TypeError
        If an integer is declared and the value is not one: 2.0 is, as in PyTensor.
    """
    if value is None or not isinstance(kind, ArrayType | ScalarType):
        return value  # a shared variable without a value: NumPy would make NaN of it
    dtype = np.dtype(kind.dtype)
    if type(value) is np.ndarray and value.dtype == dtype and kind.ndim:
        return value
    array = np.asarray(value)
    if dtype == np.uint64 and array.dtype.kind == "f":
        # NumPy makes reals of integers of which some need a sign and others all 64 bits.
        numbers = np.asarray(value, dtype=object)
        if all(isinstance(number, int | np.integer) for number in numbers.flat):
            array = numbers.astype(dtype)
    if array.dtype != dtype:
        if is_open(array):
            return array
        with np.errstate(invalid="ignore"):  # NaN as an integer
            given, array = array, array.astype(dtype)
        is_exact = given.dtype.kind in "biu" or np.array_equal(array, given)
        if dtype.kind in "iu" and not is_exact:
            text = f"{value!r} is not an integer, and {kind} is declared"
            raise TypeError(Code.CALL_OF_PURE.mark(text))
    return array if isinstance(kind, ArrayType) else array[()]


def as_jax(value: Value) -> Value | jax.Array:
    """A NumPy value as a JAX array: rules that are not ours call the methods of one."""
    return jnp.asarray(value) if isinstance(value, np.ndarray | np.generic) else value


def of_code(value: object, kind: Any) -> object:
    """A known value as a value of the code: open sizes are numbers that it computes.

    XLA takes ``[-0.0, 1.0, 2.0]`` for a range, which begins with 0.0 (docs/upstream.md), but not
    where it sees no vector.
    """
    if not is_open(value):
        if not isinstance(value, np.ndarray) or not _is_range_from_negative_zero(value):
            return value
        return jnp.reshape(hidden(jnp.asarray(value.reshape(-1, 1))), value.shape)
    sizes = np.asarray(value, dtype=object)
    parts = [jnp.asarray(size, dtype=canonical_dtype(kind.dtype)) for size in sizes.flat]
    return jnp.stack(parts).reshape(sizes.shape)


def _is_range_from_negative_zero(value: np.ndarray) -> bool:
    """Return True for one in a row, a column or the like too: XLA drops dimensions of length 1."""
    size, longest = value.size, max(value.shape, default=1)
    if value.dtype.kind not in "fc" or not _SHORTEST_RANGE <= size == longest:
        return False
    first = value.flat[0]
    begins = first == 0 and bool(np.signbit(first.real))
    return begins and np.array_equal(value.ravel(), np.arange(size))


def as_declared(value: object, kind: Any) -> object:
    """A traced (or constant) value with exactly the dtype that the graph declares.

    JAX's weak types and Python scalars make results drift from the declared dtype; here they stop.
    """
    if isinstance(value, SparseValue):
        return value.with_data(as_dtype(value.data, kind.dtype))
    if not isinstance(kind, ArrayType | ScalarType):
        return value
    if isinstance(value, bool | int | float):
        value = np.asarray(value)  # and so stays concrete where JAX traces
    # Some Ops declare reals and give complex numbers (eigenvectors of a Hermitian matrix); a cast
    # would drop half of the result.
    stays = jnp.iscomplexobj(value) and not kind.dtype.startswith("complex")
    if isinstance(value, np.ndarray | np.generic):
        return value if stays or value.dtype == kind.dtype else value.astype(kind.dtype)
    given: Any = value
    array = jnp.asarray(given) if stays else as_dtype(given, kind.dtype)
    if array.ndim != kind.ndim:
        raise TypeError(
            f"the JAX rule returned an array with {array.ndim} dimensions where the graph "
            f"declares {kind.ndim}"
        )
    check_bytes(array.shape, array.dtype)
    return array


def sum_of_few(
    total: Callable[[jax.Array], jax.Array], axis: Sequence[int] | None
) -> Callable[[jax.Array], jax.Array]:
    """The sum, also of a single -0.0, and of nothing where it is added to -0.0.

    Both are 0.0 + -0.0, for which XLA takes -0.0.
    """

    def summed(array: jax.Array) -> jax.Array:
        found = total(array)
        sizes = [np.shape(array)[k] for k in (range(np.ndim(array)) if axis is None else axis)]
        if any(isinstance(size, int) and size == 0 for size in sizes):
            return hidden(found)
        is_one = all(isinstance(size, int) and size == 1 for size in sizes)
        return plus_zero(found) if is_one else found

    return summed


def hidden(values: Value) -> Value:
    """Values of which XLA does not see that they are known."""
    return jax.lax.optimization_barrier(values)


def with_positive_zeros(update: Callable[..., jax.Array], always: bool) -> Callable[..., jax.Array]:
    """An update that adds to zeros, which are 0.0 afterwards too: XLA takes ``0.0 + y`` for y.

    If it does not always add to zeros, it does where they are known while JAX traces.
    """

    def updated(array: jax.Array, values: ArrayLike, *place: ArrayLike) -> jax.Array:
        if always or _is_known_zero(array):
            values = plus_zero(jnp.asarray(values))
        return update(array, values, *place)

    return updated


def with_known_zeros(add: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """A sum of terms that an inner graph may know while JAX traces, to be zeros."""

    def added(*values: object) -> jax.Array:
        found = add(*values)
        return plus_zero(found) if any(map(_is_known_zero, values)) else found

    return added


def _is_known_zero(value: object) -> bool:
    """Return True for zeros that are concrete, none of them -0.0."""
    if not isinstance(value, np.ndarray | np.generic):
        return False
    return not np.any(value) and not np.any(np.signbit(np.real(value)))


def given_to_graph(values: Sequence[Value], variables: Sequence[Variable]) -> list[Value]:
    """The inputs of an inner graph; XLA would take ``0.0 + y`` there for y if it saw the zeros."""
    return [
        hidden(value) if isinstance(value, jax.Array) and is_zero(variable) else value
        for value, variable in zip(values, variables, strict=True)
    ]


def plus_zero(value: jax.Array) -> jax.Array:
    """The sum of 0.0 and a value: 0.0 for -0.0, which XLA leaves as it is."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return jax.lax.complex(_real_plus_zero(value.real), _real_plus_zero(value.imag))
    return _real_plus_zero(value)


@jax.custom_jvp
def _real_plus_zero(value: jax.Array) -> jax.Array:
    return jnp.where(value == 0, jnp.zeros((), value.dtype), value)


@_real_plus_zero.defjvp
def _derivative_of_plus_zero(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    return _real_plus_zero(*primals), tangents[0]
