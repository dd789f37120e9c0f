"""What many tests share: functions in pairs, black boxes, and comparison with the Python linker."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.signal import convolve1d

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.analysis import Questions, binding_times, facts_of, input_binding_times
from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.link.options import Options

PYTHON = Mode("py", "fast_run")


def vector_of(dtype: str) -> Any:
    return pt.TensorType(dtype, shape=(None,))


def black_box(function: Any, dtype: str = "float64") -> Any:
    """An Op on vectors that only Python can run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTensor 3.3 has another name for as_op
        from pytensor.compile.ops import as_op

        return as_op(itypes=[vector_of(dtype)], otypes=[vector_of(dtype)])(function)


def sort_down(values: np.ndarray) -> np.ndarray:
    return -np.sort(-values)


def compile_both(inputs: Sequence[Any], outputs: Any, mode: Any = "JAXSELECTIVE") -> Any:
    """The function under ``mode``, and under PyTensor's Python linker."""
    return tuple(
        pytensor.function(inputs, outputs, mode=m, on_unused_input="ignore") for m in (mode, PYTHON)
    )


def as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


def assert_same(found: Any, expected: Any) -> None:
    """Values, shapes and dtypes are equal, to the precision of the dtype."""
    for one, other in zip(as_list(found), as_list(expected), strict=True):
        array = np.asarray(one)
        assert array.dtype == other.dtype
        assert array.shape == other.shape
        tolerance = 1e-5 if array.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(array, other, rtol=tolerance, atol=tolerance)


def assert_same_trees(one: Any, other: Any) -> None:
    """Two trees of JAX are equal: structure, dtypes and values."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for pair in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        left, right = (leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in pair)
        assert left.dtype == right.dtype
        if jax.dtypes.issubdtype(left.dtype, jax.dtypes.prng_key):
            left, right = jax.random.key_data(left), jax.random.key_data(right)
        np.testing.assert_array_equal(left, right)


def check_against_python(inputs: Sequence[Any], outputs: Any, *calls: Sequence[Any]) -> Any:
    """Compile, compare on each call, and return the function.  JAX has to finish each call."""
    function, reference = compile_both(inputs, outputs, JAXLinker(recompile_limit=1_000))
    for arguments in calls:
        assert_same(function(*arguments), reference(*arguments))
    assert function.stats.fallbacks == 0, function.explain()
    assert not any(function.stats.host_region_calls)
    return function


def analysed(inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """The view, facts and times of a graph without rewriting; nothing counts as untranspilable."""
    view = GraphView.of(FunctionGraph(list(inputs), list(outputs), clone=False))
    facts = facts_of(view, Questions(lambda node: None, lambda node: ()))
    return view, facts, binding_times(view, input_binding_times(view))


def compiled(inputs: Sequence[Any], outputs: Sequence[Any], **options: Any) -> Any:
    """A compiled graph, without rewriting."""
    from pytensor_jaxlink.link.compiler import CompiledGraph

    fgraph = FunctionGraph(list(inputs), list(outputs), clone=True)
    return CompiledGraph(fgraph, Options(**options))


def outcome(function: Any, *arguments: Any) -> Any:
    """What a call returns, or the class of what it raises."""
    try:
        return np.asarray(function(*arguments))
    except (ValueError, IndexError, AssertionError, ArithmeticError) as error:
        return type(error)


def assert_same_outcomes(function: Any, reference: Any, calls: Sequence[Sequence[Any]]) -> None:
    """Each call gives the same, or raises the same; some give something."""
    found = [outcome(function, *arguments) for arguments in calls]
    expected = [outcome(reference, *arguments) for arguments in calls]
    for one, other, arguments in zip(found, expected, calls, strict=True):
        if isinstance(other, type):
            assert one is other, arguments
        else:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=str(arguments))
    assert not all(isinstance(other, type) for other in expected)


def outer(selected: Any) -> Any:
    """A sum of products that needs the length: no rewrite makes it whole."""
    return convolve1d(selected, selected).sum()
