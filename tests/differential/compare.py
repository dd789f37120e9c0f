"""One random graph under our linker and under PyTensor's Python linker."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor

from tests.differential.grammar import arguments, random_graph
from tests.helpers import PYTHON, as_list

CALLS = 3


def differences(
    seed: int, choose: Callable[[int], int] | None = None, *, loops: bool = False
) -> list[str]:
    """What differs, in words; nothing for a graph that both run alike (or refuse alike)."""
    pool, outputs = random_graph(seed, choose, loops=loops)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # divisions by zero and the like, the same in both
        try:
            reference = pytensor.function(
                pool.inputs, outputs, mode=PYTHON, on_unused_input="ignore"
            )
        except Exception:  # PyTensor itself refuses the graph: there is nothing to compare with
            return []
        try:
            function = pytensor.function(
                pool.inputs, outputs, mode="JAXSELECTIVE", on_unused_input="ignore"
            )
        except Exception as error:
            return [f"seed {seed}: {error!r} when it is compiled"]
        found = []
        for call in range(CALLS):
            values = arguments(pool)
            expected = _outcome(reference, values)
            if _is_a_failure_of_pytensor(expected):
                continue
            if not isinstance(expected, Exception):
                # Some `perform` methods return another dtype than they declare; we never do.
                expected = [
                    value.astype(output.type.dtype)
                    for value, output in zip(expected, outputs, strict=True)
                ]
            difference = _compare(_outcome(function, values), expected)
            found += [f"seed {seed}, call {call}: {difference}"] if difference else []
    found += [
        f"seed {seed}: learned {lesson}"
        for lesson in function.explain().learned
        if "its two sides give arrays of different shapes" not in lesson  # JAX alone can tell
    ]
    return found


def _is_a_failure_of_pytensor(outcome: Any) -> bool:
    """Whether PyTensor fails to evaluate a graph that has a value."""
    return (
        # A rewrite to work in place asks NumPy for a conversion that it refuses.
        type(outcome).__name__ == "UFuncTypeError"
        # `numpy.vectorize`, which Blockwise uses, cannot take an empty batch.
        or "vectorize with zero size" in str(outcome)
    )


def _outcome(function: Any, values: list[Any]) -> list[Any] | Exception:
    try:
        return as_list(function(*values))
    except Exception as error:
        return error


def _compare(found: list[Any] | Exception, expected: list[Any] | Exception) -> str | None:
    if isinstance(expected, Exception) or isinstance(found, Exception):
        same = type(found) is type(expected)
        return None if same else f"{found!r} where Python gives {expected!r}"
    for position, (one, other) in enumerate(zip(found, expected, strict=True)):
        array = np.asarray(one)
        if array.dtype != other.dtype or array.shape != other.shape:
            return (
                f"output {position} is {array.dtype}{array.shape} where Python gives "
                f"{other.dtype}{other.shape}"
            )
        if not np.allclose(array, other, **_tolerance(other), equal_nan=True):
            return f"output {position} is {array} where Python gives {other}"
    return None


def _tolerance(array: Any) -> dict[str, float]:
    # A float64 output may have passed through float32; what is checked here is not rounding.
    return {"rtol": 1e-4, "atol": 1e-5} if array.dtype.kind == "f" else {"rtol": 0, "atol": 0}
