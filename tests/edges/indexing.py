"""Edge values for every form of indexing, and for the Ops that take integers.

Indices of each integer type: negative, out of range, empty, on axes longer than the type counts.
They are given as constants, as inputs and as values that are computed from data.  `python -m
tests.edges indexing` compares all of them with the Python linker; the tests a part.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.utils import MethodNotDefined

from pytensor_jaxlink import JAXLinker
from tests.differential.failures import is_a_failure_of_pytensor
from tests.differential.options import PYTHON
from tests.edges.compare import difference, in_either_dtype, outcomes
from tests.helpers import PYTHON as ORDERED

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SOURCES = ("input", "constant", "computed")
LENGTHS = (5, 200, 40_000)

Build = Callable[..., Any]
"""The output of a graph, of its inputs."""


@dataclass(frozen=True)
class Case:
    """A graph and the calls in which it is compared.

    Attributes
    ----------
    op
        The name that the table of known differences uses.
    build
        Makes the output.
    inputs
        The inputs.
    calls
        Their values.
    options
        Of the linker.
    rounding
        The part of a result's largest entry that may be rounding; 0 where each entry has its own.
    signs_of_zero
        Whether they are compared.
    """

    op: str
    build: Build
    inputs: tuple[Variable, ...]
    calls: tuple[tuple[Any, ...], ...]
    options: tuple[tuple[str, Any], ...] = ()
    rounding: float = 0
    signs_of_zero: bool = True

    def differences(self) -> Iterator[str]:
        """The differences from the Python linker, in words."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = self.build(*self.inputs)
            except NO_GRAPH:
                return
            outputs = list(made) if isinstance(made, Sequence) else [made]
            options = {"recompile_limit": 1_000} | dict(self.options)
            reference = self._compiled(outputs, PYTHON)
            if isinstance(reference, type):
                return  # PyTensor's rewrites fail
            function = self._compiled(outputs, JAXLinker(**options))
            expected = [self._expected(reference, outputs, call) for call in self.calls]
            # What raises goes last, and is no reason to leave a region for good.
            order = sorted(range(len(expected)), key=lambda k: isinstance(expected[k], type))
            for k in order:
                if expected[k] is None or (
                    options.get("checks") == "ignore" and isinstance(expected[k], type)
                ):
                    continue
                raised: list[Any] = []
                found = outcomes(
                    lambda *values, raised=raised: _noted(function, raised, values), *self.calls[k]
                )
                if isinstance(expected[k], type) and (
                    # Each of several operations raises; rewrites decide which of them is first.
                    any(map(is_a_failure_of_pytensor, raised))
                    or (isinstance(found, type) and found is self._in_order(outputs, k))
                ):
                    continue
                for one, other in _pairs(expected[k], found, outputs):
                    text = difference(
                        self.op,
                        self.calls[k],
                        one,
                        other,
                        of_largest=self.rounding,
                        signs_of_zero=self.signs_of_zero,
                    )
                    if text is not None:
                        yield text

    def _in_order(self, outputs: list[Any], k: int) -> Any:
        """What a call gives in Python with all rewrites."""
        return outcomes(self._compiled(outputs, ORDERED), *self.calls[k])

    def _expected(self, reference: Any, outputs: list[Any], call: tuple[Any, ...]) -> Any:
        """What Python gives; nothing where PyTensor fails."""
        found: list[Any] = []
        expected = outcomes(lambda *values: _noted(reference, found, values), *call)
        if any(map(is_a_failure_of_pytensor, found)):
            return None
        if not isinstance(expected, type) and any(each.dtype == object for each in expected):
            return None
        return expected

    def _compiled(self, outputs: Any, mode: Any) -> Any:
        """The function, or the class of what PyTensor raises."""
        try:
            return pytensor.function(
                list(self.inputs), outputs, mode=mode, on_unused_input="ignore"
            )
        except AssertionError as error:
            return type(error)


NO_GRAPH = (
    AttributeError, IndexError, MethodNotDefined, NotImplementedError, OverflowError, TypeError,
    ValueError,
)  # fmt: skip
"""What PyTensor raises for what it has no graph for."""


def _noted(function: Any, raised: list[Any], values: tuple[Any, ...]) -> Any:
    """The results of a call; what it raises is noted."""
    try:
        return function(*values)
    except Exception as error:
        raised.append(error)
        raise


def _pairs(expected: Any, found: Any, outputs: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The values of each output; the exceptions where a call raises."""
    if isinstance(expected, type) or isinstance(found, type):
        yield expected, found
        return
    for one, other, output in zip(expected, found, outputs, strict=True):
        yield in_either_dtype(one, other, output.type.dtype), other


# -- indices ---------------------------------------------------------------------------------------


def numbers(dtype: str, length: int) -> list[int]:
    """Scalar indices of a type on an axis of a length, at its border and that of the type."""
    limits = np.iinfo(dtype)
    wanted = {0, 1, -1, length - 1, length, -length, -length - 1, 127, 128, -128, 255, 32_767}
    wanted |= {-32_768, int(limits.min), int(limits.max)}
    return sorted(n for n in wanted if limits.min <= n <= limits.max)


def vectors(dtype: str, length: int) -> list[np.ndarray]:
    """Vectors of indices: empty, repeated, negative, out of range."""
    inside = [n for n in numbers(dtype, length) if -length <= n < length]
    outside = [n for n in numbers(dtype, length) if not -length <= n < length]
    lists = [[], inside, [*inside, *inside[::-1]], *([inside[-1], n] for n in outside)]
    return [np.array(entries, dtype) for entries in lists]


@dataclass(frozen=True)
class Form:
    """An array and how one index of it, or two, are used.

    Attributes
    ----------
    ndim
        The number of dimensions of the array.
    index
        The index, of a scalar, a vector, a matrix or a mask.
    """

    ndim: int
    index: Callable[[Any], Any]


SCALAR_FORMS = {
    "x[i]": Form(1, lambda i: i),
    "m[i]": Form(2, lambda i: i),
    "m[:, i]": Form(2, lambda i: (slice(None), i)),
    "m[i, 1:]": Form(2, lambda i: (i, slice(1, None))),
    "m[::-1, i]": Form(2, lambda i: (slice(None, None, -1), i)),
    "m[i, -1]": Form(2, lambda i: (i, -1)),
    "m[i, i]": Form(2, lambda i: (i, i)),
    "m[i, [0, -1]]": Form(2, lambda i: (i, [0, -1])),
    "x[i:]": Form(1, lambda i: slice(i, None)),
    "x[:i]": Form(1, lambda i: slice(None, i)),
    "x[i:i + 2]": Form(1, lambda i: slice(i, i + 2)),
    "x[i::-1]": Form(1, lambda i: slice(i, None, -1)),
    "x[::i]": Form(1, lambda i: slice(None, None, i)),
    "m[i:, i:]": Form(2, lambda i: (slice(i, None), slice(i, None))),
}

VECTOR_FORMS = {
    "x[v]": Form(1, lambda v: v),
    "m[v]": Form(2, lambda v: v),
    "m[:, v]": Form(2, lambda v: (slice(None), v)),
    "m[v, v]": Form(2, lambda v: (v, v)),
    "m[v, 1]": Form(2, lambda v: (v, 1)),
    "m[v, 1:]": Form(2, lambda v: (v, slice(1, None))),
    "m[v[:, None], v]": Form(2, lambda v: (v[:, None], v)),
    "x[matrix]": Form(1, lambda v: pt.stack([v, v[::-1]])),
    "x[None, v]": Form(1, lambda v: (None, v)),
}

MASK_FORMS = {
    "x[b]": Form(1, lambda b: b),
    "m[b]": Form(2, lambda b: b),
    "m[:, b]": Form(2, lambda b: (slice(None), b)),
    "m[b, 1]": Form(2, lambda b: (b, 1)),
    "m[b, 1:]": Form(2, lambda b: (b, slice(1, None))),
    "m[b, b]": Form(2, lambda b: (b, b)),
    "m[b[:, None] & b]": Form(2, lambda b: b[:, None] & b),
    "x[nonzero(b)]": Form(1, lambda b: pt.nonzero(b)),
}

USES: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda x, i: x[i],
    "sum": lambda x, i: pt.exp(-x[i] * 1e-3).sum(),
    "set": lambda x, i: pt.set_subtensor(x[i], x[i] * 2 + 1),
    "set to a number": lambda x, i: pt.set_subtensor(x[i], -1.5),
    "inc": lambda x, i: pt.inc_subtensor(x[i], x[i] * 2 + 1),
    "inc once": lambda x, i: pt.inc_subtensor(x[i], 2.0, ignore_duplicates=True),
    "gradient": lambda x, i: pytensor.grad((x[i] ** 2).sum(), x),
}


def array(ndim: int, length: int) -> np.ndarray:
    """An array of a length in all dimensions, or in the first one where that would be large."""
    shape = {1: (length,), 2: (length, length if length < 1_000 else 3)}[ndim]
    return np.arange(np.prod(shape), dtype="float64").reshape(shape)


def variable(ndim: int) -> Any:
    return pt.tensor("x", shape=(None,) * ndim, dtype="float64")


def indexing(
    name: str, form: Form, use: str, dtype: str, source: str, length: int, values: Sequence[Any]
) -> Iterator[Case]:
    """A form of indexing in a use, for indices of a type from a source."""
    x, data = variable(form.ndim), array(form.ndim, length)

    def build(x: Any, index: Any) -> Any:
        return USES[use](x, form.index(index))

    op = f"{use} {name} {source}"
    if source == "constant":
        # Those that do not raise share a function.
        groups: list[list[Any]] = [[]]
        for value in values:
            fixed = pt.constant(np.asarray(value, dtype))
            if np.all(np.abs(np.asarray(value) + 0.5) < length):
                groups[0].append(fixed)
            else:
                groups.append([fixed])
        for group in groups:
            yield Case(op, lambda x, g=group: _flat([build(x, i) for i in g]), (x,), ((data,),))
        return
    ndim = np.ndim(values[0])
    if source == "input":
        index: Any = pt.tensor("i", shape=(None,) * ndim, dtype=dtype)
        calls = [np.asarray(value, dtype) for value in values]
        yield Case(op, build, (x, index), tuple((data, value) for value in calls))
        return
    # Real numbers are data, and so is an integer that is computed from some of them.
    index = pt.tensor("i", shape=(None,) * max(ndim, 1), dtype="float64")
    calls = [np.atleast_1d(np.asarray(v, "float64")) for v in values if _is_exact(v)]

    def computed(x: Any, index: Any) -> Any:
        return build(x, pt.cast(index if ndim else index[0], dtype))

    yield Case(op, computed, (x, index), tuple((data, value) for value in calls))


def _flat(parts: list[Any]) -> Any:
    """Arrays as one vector."""
    return pt.concatenate([pt.flatten(part) for part in parts])


def _is_exact(value: Any) -> bool:
    return bool(np.all(np.abs(np.asarray(value, "float64")) < 2**53))


def masks(length: int) -> list[np.ndarray]:
    """Masks that fit, and some that do not."""
    some = np.arange(length) % 3 == 1
    found = [some, ~some, np.zeros(length, "bool"), np.ones(length, "bool")]
    return [*found, *(np.ones(n, "bool") for n in (0, 1, length - 1, length + 1))]


def all_indexing(
    dtypes: Sequence[str] = INTEGERS, lengths: Sequence[int] = LENGTHS
) -> Iterator[Case]:
    """Each form in each use."""
    for dtype, source, length, use in product(dtypes, SOURCES, lengths, USES):
        for forms, values in (
            (SCALAR_FORMS, numbers(dtype, length)),
            (VECTOR_FORMS, vectors(dtype, length)),
        ):
            for name, form in forms.items():
                yield from indexing(name, form, use, dtype, source, length, values)
    for source, length, use in product(("input", "computed"), (5, 200), USES):
        for name, form in MASK_FORMS.items():
            yield from indexing(name, form, use, "bool", source, length, masks(length))


# -- slices ----------------------------------------------------------------------------------------


def slices(
    bounds: Sequence[int | None], steps: Sequence[int | None], length: int
) -> Iterator[Case]:
    """All slices with literal bounds, several in one graph; those that raise have their own."""
    x, data = variable(1), array(1, length)
    chosen = [slice(*parts) for parts in product(bounds, bounds, steps)]
    for use, used in USES.items():

        def build(x: Any, used: Any = used) -> Any:
            return _flat([used(x, part) for part in chosen])

        yield Case(f"{use} of slices", build, (x,), ((data,), (data[:0],), (data[:1],)))


def bounds_that_vary(dtype: str, source: str, length: int) -> Iterator[Case]:
    """Slices whose bounds and steps are computed or given."""
    for use, parts in product(("get", "sum", "set", "inc", "gradient"), (2, 3)):
        values = [n for n in numbers(dtype, length) if abs(n) < 2**53]
        steps = [n for n in (1, 2, -1, -3) if n >= np.iinfo(dtype).min] if parts == 3 else [1]
        few = values[:: max(1, len(values) // 5)]
        calls = [np.array(v, dtype) for v in product(few, few, steps)]

        def build(x: Any, v: Any, use: str = use, parts: int = parts) -> Any:
            v = pt.cast(v, dtype)
            return USES[use](x, slice(*(v[k] for k in range(parts))))

        kind = dtype if source == "input" else "float64"
        index = pt.tensor("v", shape=(None,), dtype=kind)
        data = array(1, length)
        yield Case(
            f"{use} of a slice from {source}",
            build,
            (variable(1), index),
            tuple((data, call.astype(kind)) for call in calls),
        )


# -- values that do not fit ------------------------------------------------------------------------


def written() -> Iterator[Case]:
    """Values of each length set into parts of each length, known and computed."""
    x, m, y, w = pt.dvector("x"), pt.dmatrix("m"), pt.dvector("y"), pt.dmatrix("w")
    late = (x > 0).sum()
    parts: dict[str, Any] = {
        "literal": slice(5, None),
        "backward": slice(2, 5, -1),
        "prefix": slice(late),
        "suffix": slice(late, None),
        "window": slice(late, late + 2),
        "mask": x > 0,
        "places": pt.nonzero(x > 0),
        "vector": pt.nonzero(x > 0)[0],
    }
    vectors_of = [np.ones(n) for n in range(4)]
    xs = [np.array(v, "float64") for v in ([-1, -1, -1], [1, -1, 1], [1, 1, 1, 1, 1, 1, 1], [])]
    rows = [np.ones(shape) for shape in ((1, 3), (3, 1), (2, 3), (1, 1), (0, 3), (2, 1), (0, 1))]
    for (name, part), write in product(parts.items(), (pt.set_subtensor, pt.inc_subtensor)):
        op = f"{write.__name__} of a {name}"
        yield Case(
            op,
            lambda x, y, part=part, write=write: write(x[part], y),
            (x, y),
            tuple(product(xs, vectors_of)),
        )
        yield Case(
            op,
            lambda x, m, w, part=part, write=write: write(m[part], w),
            (x, m, w),
            tuple((v, np.ones((len(v), 3)), row) for v, row in product(xs, rows)),
        )


def converted() -> Iterator[Case]:
    """Reals and complex numbers set into integers, of which some have no place for them."""
    limits = [2.0**bits for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64)]
    reals = np.array([0.5, -0.5, -1.5, 300.0, -300.0, 1e30, np.nan, np.inf, -np.inf, *limits])
    i, numbers = pt.lvector("i"), np.arange(len(reals))
    for dtype, given in product(INTEGERS, ("float32", "float64", "complex128")):
        x, y = pt.vector("x", dtype=dtype), pt.vector("y", dtype=given)
        calls = [(np.ones(len(reals), dtype), np.roll(reals, k).astype(given)) for k in (0, 5)]
        yield Case(
            "IncSubtensor", lambda x, y: pt.set_subtensor(x[:9], y[:9]), (x, y), tuple(calls)
        )
        yield Case(
            "AdvancedIncSubtensor",
            lambda x, y, i: pt.set_subtensor(x[i], y),
            (x, y, i),
            tuple((*call, numbers[::-1]) for call in calls),
        )


# -- Ops that take integers ------------------------------------------------------------------------


def _takers() -> dict[str, tuple[Build, Any, Any]]:
    """Each Op of an array and an index, the array, and the indices to try."""
    x, m = np.arange(200.0) * 3 % 7, np.arange(600.0).reshape(200, 3)
    few, pair = (0, 1, 3, -1, -3, 200, 127, -128), ([1, 2], [0, 3], [-1, 4], [], [3, 0])
    places = ([0, 1, -1], [199, 127, 0], [-128, 100, 1], [], [200])
    return {
        "take": (lambda x, i: pt.take(x, i), x, places),
        "take of columns": (lambda x, i: pt.take(x, i, axis=1), m, ([0, 2, -1], [3], [])),
        "take that wraps": (lambda x, i: pt.take(x, i, mode="wrap"), x, places),
        "take that clips": (lambda x, i: pt.take(x, i, mode="clip"), x, places),
        "take_along_axis": (lambda x, i: pt.take_along_axis(x, i, axis=0), x, places),
        "split": (lambda x, i: pt.split(x, i, n_splits=2)[0], x[:3], pair),
        "repeat": (lambda x, i: pt.repeat(x, i), x[:4], few[:5]),
        "repeat each": (lambda x, i: pt.repeat(x, i), x[:2], (*pair, [1], [1, 2, 3])),
        "tile": (lambda x, i: pt.tile(x, (i,)), x[:4], few[:5]),
        "diag": (lambda x, i: pt.diag(x) + 0 * i, x[:3], few[:2]),
        "roll": (lambda x, i: pt.roll(x, i), x, few),
        "roll of rows": (lambda x, i: pt.roll(x, i, axis=0), m, few),
        "searchsorted": (lambda x, i: pt.searchsorted(pt.sort(i), x), x[:9], places[:3]),
        "searchsorted of integers": (lambda x, i: pt.searchsorted(x, i), np.sort(x), places),
        "eye": (lambda x, i: pt.eye(4, k=i) + x[0], x, few),
        "eye of a size": (lambda x, i: pt.eye(i) + x[0], x, few),
        "tri": (lambda x, i: pt.tri(4, 3, i) + x[0], x, few),
        "triu": (lambda x, i: pt.triu(x, i), m[:4], few),
        "arange": (lambda x, i: pt.arange(i) + x[0], x, few),
        "arange backward": (lambda x, i: pt.arange(5, i, -2) + x[0], x, few),
        "arange up to its type": (lambda x, i: pt.arange(0, i + i, i) + x[0], x, few),
        "alloc": (lambda x, i: pt.alloc(x[0], i, 2), x, few),
        "reshape": (lambda x, i: x.reshape((i, 2)), x, (100, -1, 3)),
        "unravel_index": (lambda x, i: pt.unravel_index(i, (20, 10))[1] + x[0], x, places),
        "ravel_multi_index": (
            lambda x, i: pt.ravel_multi_index((i, i), (20, 30)) + x[0],
            x,
            ([0, 1, 19], [20], [-1], []),
        ),
        "bincount": (lambda x, i: pt.bincount(i) + x[0], x, ([0, 1, 100, 1], [3], [-1], [])),
        "bincount of weights": (
            lambda x, i: pt.bincount(i, weights=x[: i.shape[0]], minlength=4),
            x,
            ([0, 1, 100, 1], [3], [-1]),
        ),
        "one hot": (
            lambda x, i: pt.extra_ops.to_one_hot(i, 5) + x[0],
            x,
            ([0, 1, 4], [5], [-1], []),
        ),
        "choose": (lambda x, i: pt.choose(i, x), m[:3], ([0, 1, 2], [2, 2, 0], [3, 0, 0])),
        "pad": (lambda x, i: pt.pad(x, (i, 1)), x[:3], (0, 2, 127)),
        "delete by hand": (lambda x, i: pt.concatenate([x[:i], x[i + 1 :]]), x, few),
        "fill_diagonal_offset": (
            lambda x, i: pt.extra_ops.fill_diagonal_offset(x, 5.0, i),
            m[:4],
            (0, 1, -1, 2, -3, 4, -5, 6, 127, -128),
        ),
        "n steps": (
            lambda x, i: pytensor.scan(
                lambda y: y * 1.5, outputs_info=x[1], n_steps=i, return_updates=False
            )[-1],
            x,
            (1, 3, 127),
        ),
        "range and its entries": (lambda x, i: pt.arange(300)[i] + x[0], x, few),
        "in a loop": (
            lambda x, i: pytensor.scan(lambda t, x: x[t], i, non_sequences=x, return_updates=False),
            x,
            places,
        ),
        "windows in a loop": (
            lambda x, i: pytensor.scan(
                lambda t, x: x[t : t + 2].sum(), i, non_sequences=x, return_updates=False
            ),
            x,
            places,
        ),
        "written in a loop": (
            lambda x, i: pytensor.scan(
                lambda t, y: pt.inc_subtensor(y[t], 1.0), i, outputs_info=x, return_updates=False
            )[-1],
            x,
            places[:4],
        ),
        "gradient through a loop": (
            lambda x, i: pytensor.grad(
                pytensor.scan(
                    lambda t, x: x[t] ** 2 * x[t - 1],
                    i,
                    non_sequences=x,
                    return_updates=False,
                ).sum(),
                x,
            ),
            x,
            places[:3],
        ),
    }


def takers(dtypes: Sequence[str] = INTEGERS, sources: Sequence[str] = SOURCES) -> Iterator[Case]:
    """Each Op that takes integers, with integers of each type."""
    for (name, (build, data, values)), dtype, source in product(_takers().items(), dtypes, sources):
        least = np.iinfo(dtype).min
        most = np.iinfo(dtype).max
        fitting = [v for v in values if all(least <= n <= most for n in np.atleast_1d(v))]
        if not fitting:
            continue
        x = variable(np.ndim(data))
        op = f"{name} {source}"
        if source == "constant":
            for value in fitting:
                fixed = pt.constant(np.array(value, dtype))
                yield Case(op, lambda x, b=build, i=fixed: b(x, i), (x,), ((data,),))
            continue
        kind = dtype if source == "input" else "float64"
        index: Any = pt.tensor("i", shape=(None,) * max(np.ndim(fitting[0]), 1), dtype=kind)

        def made(x: Any, i: Any, b: Build = build, d: str = dtype, v: Any = fitting) -> Any:
            return b(x, pt.cast(i if np.ndim(v[0]) else i[0], d))

        calls = tuple((data, np.atleast_1d(np.array(v, kind))) for v in fitting)
        yield Case(op, made, (x, index), calls)


# -- all of it -------------------------------------------------------------------------------------

BOUNDS = (None, 0, 1, 4, 5, 6, -1, -5, -6, 200, -200)
STEPS = (None, 1, 2, 7, -1, -2, -7)


def cases() -> Iterator[Case]:
    """The whole table."""
    yield from all_indexing()
    yield from slices(BOUNDS, STEPS, 5)
    for dtype, source, length in product(INTEGERS, ("input", "computed"), (5, 200)):
        yield from bounds_that_vary(dtype, source, length)
    yield from written()
    yield from converted()
    yield from takers()


def run() -> list[str]:
    """All differences of the table that are not known."""
    return [text for case in cases() for text in case.differences()]
