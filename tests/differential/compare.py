"""One random graph in every way, beside PyTensor's Python linker."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytensor
import scipy.sparse
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink import NotJittableError
from pytensor_jaxlink.ops import has_effects
from tests.differential.failures import FailuresError, is_a_failure_of_pytensor
from tests.differential.grammar import Graph
from tests.differential.options import (
    OPTIONS,
    OWN,
    PYTHON,
    PYTHON_IN_OUR_ORDER,
    TRANSFORMATIONS,
    UNCHECKED,
    Way,
    counted_reference,
    has_branch,
    has_range_of_reals,
    is_refused,
    lazy_reference,
    noisy_reference,
    ordered_reference,
    patient_references,
    reference,
    unassumed,
    unrewritten,
    ways,
)
from tests.differential.rounding import (
    FACTOR,
    LARGE,
    RUNS,
    SIGNS,
    SMALL,
    float_types,
    largest,
    nudged,
    rounding_of,
    scale,
    with_another_sign,
)
from tests.differential.transformed import transformed
from tests.edges.compare import in_either_dtype
from tests.edges.known import known
from tests.helpers import as_list


@dataclass
class Found:
    """What one graph showed: differences in words, and for each option its comparisons."""

    by_text: dict[str, list[str]] = field(default_factory=dict)
    """The options under which each difference shows."""
    values: Counter[str] = field(default_factory=Counter)
    exceptions: Counter[str] = field(default_factory=Counter)
    rounded: int = 0
    """Differences that rounding explains: as large ones come from changed last digits."""
    refused: int = 0
    """Whether PyTensor refuses the graph."""

    def note(self, option: str, text: str) -> None:
        """Note a difference."""
        self.by_text.setdefault(text, []).append(option)

    @property
    def differences(self) -> list[str]:
        """The differences, each with its options."""
        return [f"{', '.join(options)}: {text}" for text, options in self.by_text.items()]


@dataclass
class Run:
    """What calls gave, each a list of arrays or an exception, and what shared variables hold."""

    calls: list[Any]
    states: list[Any]


def compare(graph: Graph, options: Sequence[str] = OPTIONS) -> Found:
    """Run a graph in the ways that are named, and compare each with the Python linker."""
    found = Found()
    # Some rewrites of PyTensor fail on unsigned sizes.
    flags = {"floatX": graph.float_type, "on_opt_error": "ignore"}
    with warnings.catch_warnings(), pytensor.config.change_flags(**flags):
        warnings.simplefilter("ignore")  # divisions by zero and the like, the same in both
        try:
            python = reference(graph)
        except Exception:  # PyTensor itself refuses the graph: there is nothing to compare with
            found.refused = 1
            return found
        expected = _run(python, graph)
        if _changes_types(graph, expected):
            found.refused = 1
            return found
        judge = Judge(graph, PYTHON, expected, found)
        try:
            for way in ways(graph, options):
                if isinstance(way, Way):
                    judge.look_at(way)
                else:
                    found.note(way[0], f"{way[1]!r} when it is saved or loaded")
            if "unrewritten" in options:
                _look_at_unrewritten(graph, found)
            names = [option for option in options if option in TRANSFORMATIONS]
            for option, difference in transformed(graph, names):
                found.values[option] += 1
                if difference:
                    found.note(option, difference)
        except Exception as error:
            # PyTensor's rewrites fail on some inner graphs, too: then each call does, in Python.
            fails = all(isinstance(outcome, Exception) for outcome in expected.calls)
            if isinstance(error, AssertionError) and (fails or is_refused(graph)):
                found.refused = 1
            else:
                found.note("default", f"{error!r} when it is built")
        finally:
            graph.reset()
    return found


def _look_at_unrewritten(graph: Graph, found: Found) -> None:
    mode = Mode("py", None)
    expected = _run(reference(graph, mode), graph)
    if not _changes_types(graph, expected):
        Judge(graph, mode, expected, found).look_at(unrewritten(graph))


def _run(
    way: Way, graph: Graph, change: Callable[[Any], Any] = deepcopy, skip: Collection[int] = ()
) -> Run:
    """Call a function with all arguments; they and the shared variables may be changed before."""
    graph.reset(change)
    results: list[Any] = []
    for number, values in enumerate(graph.calls):
        if number in skip:
            results.append(None)
            continue
        given = [change(each) for each in values]
        try:
            outputs = as_list(way.function(*given))
            if way.option in OWN:
                _write_into(given)
            results.append([_array(each) for each in outputs])
        except Exception as error:
            results.append(error)
    return Run(results, [_array(each) for each in way.states()])


def _write_into(values: Sequence[Any]) -> None:
    """Write into the arguments of a call that has returned: its results stay what they are."""
    for value in values:
        array = value.data if scipy.sparse.issparse(value) else value
        if isinstance(array, np.ndarray) and array.flags.writeable:
            array.fill(1)


def _changes_types(graph: Graph, expected: Run) -> bool:
    """Whether PyTensor left a value of another type in a shared variable (known_differences.md)."""
    pairs = zip(graph.initial, expected.states, strict=True)
    return any(one.dtype != two.dtype for one, two in pairs if hasattr(one, "dtype"))


def _array(value: Any) -> Any:
    return value if scipy.sparse.issparse(value) else np.asarray(value)


def _is_untraced(way: Way, outcome: Any) -> bool:
    """Return True if the user's `jax.jit` says that it cannot trace a call."""
    return way.option == "traced" and isinstance(outcome, NotJittableError)


def _is_nan(outcome: Any) -> bool:
    """Return True if a call gave real numbers, and each of them is NaN."""
    if not isinstance(outcome, list):
        return False
    reals = [value for value in map(dense, outcome) if value.dtype.kind in "fc" and value.size]
    return bool(reals) and all(np.isnan(value).all() for value in reals)


class Judge:
    """Compares what the ways give with what is expected."""

    def __init__(self, graph: Graph, mode: Mode, expected: Run, found: Found) -> None:
        self._graph, self._mode, self._expected, self._found = graph, mode, expected, found
        ends = [*graph.outputs, *(update for _, update in graph.updates)]
        self._others: Iterator[tuple[Run, bool]] | None = None
        self._made: list[tuple[Run, bool]] = []
        self._lazy: Run | None = None
        self._instead: Run | None = None
        self._ordered: Run | None = None
        self._reordered: Run | None = None
        self._patiently: list[Run] | None = None
        self._effects = has_effects(FunctionGraph(outputs=ends, clone=True))
        types = {"float64", *float_types(ends)}
        self._rounding = rounding_of(ends)
        # XLA takes what is smaller for zero; it may have passed through a narrow type.
        self._tiny = max(float(np.finfo(name).tiny) for name in types - {"float16"})

    def look_at(self, way: Way) -> None:
        """Run the graph in one way, and note how it differs."""
        failing = {
            number
            for number, outcome in enumerate(self._expected.calls)
            if is_a_failure_of_pytensor(outcome)
            or (way.option in UNCHECKED and isinstance(outcome, Exception))
        }
        self._instead = None
        run, untraced = self._traced_run(way, failing)
        if untraced:
            python = reference(self._graph, self._mode)
            self._instead = _run(python, self._graph, skip=untraced | failing)
        for number, found in enumerate(run.calls):
            if number not in failing | untraced:
                expected = self._expected_of(number, run)
                self._look_at_call(way.option, number, found, expected)
        left_out = any(map(is_a_failure_of_pytensor, self._expected.calls))
        if not left_out:
            ends = self._instead or self._expected
            for place, (one, other) in enumerate(zip(run.states, ends.states, strict=True)):
                if one is not None and one.dtype != object:
                    self._look_at_value(
                        way.option, f"{self._graph.shared[place]}", one, other,
                        lambda run, place=place: run.states[place],
                    )  # fmt: skip
        # Rules refuse what does not suit a function; the outcomes of its calls are compared above.
        strange = any(step.production.startswith("public.") for step in self._graph.steps)
        if way.option == "default" and not strange:
            for failure in way.function.explain().failures:
                # JAX alone can tell that two sides differ in shape.
                if "its two sides give arrays of different shapes" not in failure:
                    self._found.note("default", f"recorded {failure}")

    def _traced_run(self, way: Way, failing: Collection[int]) -> tuple[Run, set[int]]:
        """The calls, and which of them nobody can answer where the user holds the `jax.jit`."""
        run = _run(way, self._graph, skip=failing)
        untraced = {number for number, found in enumerate(run.calls) if _is_untraced(way, found)}
        if way.option == "traced" and any(map(_is_nan, run.calls)):
            untraced |= unassumed(self._graph)
            run = _run(way, self._graph, skip={*failing, *untraced})
        return run, untraced

    def _look_at_call(self, option: str, number: int, found: Any, expected: Any) -> None:
        if isinstance(expected, Exception) or isinstance(found, Exception):
            self._found.exceptions[option] += 1
            same_class = type(found) is type(expected)
            if option == "compiled" or self._effects:  # nothing runs again for the very class
                same_class = isinstance(found, type(expected)) or self._is_of_another(number, found)
            if not same_class and isinstance(expected, Exception):
                # In Python that of a fused operation may come first, which has a value here.
                first = self._in_order().calls[number]
                same_class = (
                    type(found) is type(first)
                    or self._is_of_taken_side(number, found)
                    or (
                        (is_a_failure_of_pytensor(first) or isinstance(first, ZeroDivisionError))
                        and self._is_of_another(number, found)
                    )
                )
            if not same_class:
                text = f"{_text(found)} where Python gives {_text(expected)}"
                self._found.note(option, f"call {number}: {text}")
            return
        self._found.values[option] += 1
        triples = zip(found, expected, self._graph.outputs, strict=True)
        for place, (one, other, output) in enumerate(triples):
            self._look_at_value(
                option, f"call {number}, output {place}", one,
                in_either_dtype(other, one, output.type.dtype),
                lambda run, number=number, place=place: run.calls[number][place],
            )  # fmt: skip

    def _look_at_value(self, option: str, where: str, one: Any, other: Any, at: Any) -> None:
        if type(one) is not type(other) or one.dtype != other.dtype:
            self._found.note(option, f"{where} is {_text(one)} where Python gives {_text(other)}")
            return
        one, other = dense(one), dense(other)
        if one.shape == other.shape and (
            same(one, other, self._rounding, self._tiny) or known("*", (), other, one) is not None
        ):
            return
        if self._is_rounding(one, other, at):
            self._found.rounded += 1
            return
        self._found.note(option, f"{where} is {_text(one)} where Python gives {_text(other)}")

    def _is_rounding(self, one: Any, other: Any, at: Any) -> bool:
        """Whether the Python linker differs as much when last digits change.

        A zero may have the other sign where its entry changes, or where PyTensor's rewrites decide:
        -sum(x) of nothing is -0.0, and sum(-x) is 0.0.
        """
        difference, is_explained = largest(one, other), False
        signs = with_another_sign(one, other) if one.shape == other.shape else np.zeros((), bool)
        if signs.any():
            signs = signs & ~self._changed_by_rewrites(other, at)
        for run, whole in self._noisy():
            try:
                changed = dense(at(run)).astype(other.dtype)
            except (TypeError, AttributeError):  # with noise it raises
                return not whole
            if one.shape not in (other.shape, changed.shape):
                continue  # a size that is computed from real numbers
            if one.shape == other.shape == changed.shape:
                signs = signs & (changed == other) & ~with_another_sign(changed, other)
            most = max(LARGE * scale(other), SMALL * _root_of_epsilon(other))
            if one.shape == other.shape and whole and difference > most:
                continue
            is_explained |= difference <= FACTOR * largest(changed, other)
            if is_explained and not signs.any():
                return True
        return False

    def _changed_by_rewrites(self, other: Any, at: Any) -> Any:
        """Where a zero has the other sign in Python once the linker's exclusions are left out."""
        if self._reordered is None:
            self._reordered = _run(reference(self._graph, PYTHON_IN_OUR_ORDER), self._graph)
        try:
            reordered = dense(at(self._reordered)).astype(other.dtype)
        except (TypeError, AttributeError):  # it raises
            return np.zeros(other.shape, bool)
        return with_another_sign(reordered, other)

    def _expected_of(self, number: int, run: Run) -> Any:
        """What is expected; where Python need not have raised, its value.

        It raises in the side of a branch that is not taken, without rewrites in an operation of
        whose result only the shape is read, and where the inferred length of a range of real
        numbers is not its length.  From then on shared variables may differ.
        """
        expected, found = self._expected.calls[number], run.calls[number]
        has_value = not isinstance(found, Exception)
        if self._instead is None and isinstance(expected, Exception) and has_value:
            is_known = known("IfElse", (), type(expected), found) is not None
            if is_known and not isinstance(self._lazily().calls[number], Exception):
                self._instead = self._lazily()
            elif not isinstance(self._in_order().calls[number], Exception):
                self._instead = self._without_the_raised(ordered_reference(self._graph), run)
            elif has_range_of_reals(self._graph):
                self._instead = self._without_the_raised(counted_reference(self._graph), run)
        instead = self._instead and self._instead.calls[number]
        return expected if instead is None else instead

    def _without_the_raised(self, way: Way, run: Run) -> Run:
        raised = {k for k, each in enumerate(run.calls) if isinstance(each, Exception)}
        return _run(way, self._graph, skip=raised)

    def _lazily(self) -> Run:
        if self._lazy is None:
            self._lazy = _run(lazy_reference(self._graph, self._mode), self._graph)
        return self._lazy

    def _is_of_taken_side(self, number: int, found: Any) -> bool:
        """Whether PyTensor raises it, too, if it runs one side of a branch and no other."""
        return has_branch(self._graph) and type(found) is type(self._lazily().calls[number])

    def _is_of_another(self, number: int, found: Any) -> bool:
        """Whether another operation of the call raises it in Python: here it may come first."""
        if not isinstance(found, Exception):
            return False
        if self._patiently is None:
            ways = patient_references(self._graph)
            self._patiently = [_run(way, self._graph) for way in ways]
        failures = [run.calls[number] for run in self._patiently]
        raised = [e for each in failures if isinstance(each, FailuresError) for e in each.raised]
        return type(found) in map(type, raised)

    def _in_order(self) -> Run:
        if self._ordered is None:
            self._ordered = _run(ordered_reference(self._graph), self._graph)
        return self._ordered

    def _noisy(self) -> Iterator[tuple[Run, bool | None]]:
        """Runs with noise, and whether that is in whole numbers too."""
        yield from self._made
        if self._others is None:
            self._others = self._with_noise()
        for run in self._others:
            self._made.append(run)
            yield run

    def _with_noise(self) -> Iterator[tuple[Run, bool | None]]:
        way, seed = noisy_reference(self._graph, self._mode)
        rng = np.random.default_rng(0)
        quiet = [(number, None) for number in range(len(SIGNS))]
        for number, whole in [*quiet, *((number, number % 2 == 1) for number in range(RUNS))]:
            seed(number, whole)
            yield _run(way, self._graph, partial(nudged, rng=rng, whole=whole)), whole


def same(found: Any, expected: Any, rounding: float, tiny: float = 0.0) -> bool:
    """Values to rounding, NaN, infinities and signs of zero."""
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(found, expected))
    limits = np.finfo(expected.dtype)
    is_half = expected.dtype == np.float16  # XLA takes smaller numbers for zero, but not of this
    tiny = max(tiny, float(limits.smallest_subnormal if is_half else limits.tiny))
    if not np.allclose(found, expected, rtol=rounding, atol=tiny, equal_nan=True):
        return False
    zero = (expected == 0) & (found == 0)
    return bool(np.all(np.signbit(found.real[zero]) == np.signbit(expected.real[zero])))


def dense(value: Any) -> Any:
    """The value as an array; of a sparse matrix all its entries."""
    return value.toarray() if scipy.sparse.issparse(value) else np.asarray(value)


def _root_of_epsilon(value: Any) -> float:
    return float(np.finfo(value.dtype).eps) ** 0.5 if value.dtype.kind in "fc" else 0.0


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, Exception):
        return f"{type(value).__name__}({str(value)[:300]})"
    return f"{value.dtype}{value.shape} {dense(value).tolist()}"[:400]
