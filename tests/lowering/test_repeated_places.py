"""Values that are set at repeated places, as where the order of writing is not NumPy's."""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.lowering.repeated_places import last_of_each_place
from tests.helpers import assert_same, compile_both

M, X, V = pt.dmatrix("m"), pt.dvector("x"), pt.dvector("v")
ROW, COLUMN = pt.lvector("row"), pt.lvector("column")
PLACES = np.array([0, 2, 0, -4, 1, 2])
COLUMNS = np.array([1, -1, 1, 1, 0, 2])
ARRAY = np.arange(12.0).reshape(4, 3)
ROWS = np.arange(100.0, 118.0).reshape(6, 3)

FORMS: dict[str, tuple[tuple[Any, ...], np.ndarray]] = {
    "rows": ((PLACES,), ROWS),
    "columns": ((slice(None), COLUMNS), ROWS.reshape(3, 6)[[0, 1, 2, 0]]),
    "a row for all": ((PLACES,), ROWS[0]),
    "entries": ((PLACES, COLUMNS), ROWS[:, 0]),
    "one of each": ((PLACES, 1), ROWS[:, 0]),
    "a grid": ((PLACES[:, None], COLUMNS), np.arange(36.0).reshape(6, 6)),
    "stretched over a grid": ((PLACES[:, None], COLUMNS), ROWS[:, 0]),
    "a number": ((PLACES, COLUMNS), np.array(5.0)),
    "places that differ": ((np.array([3, -4, 1]),), ROWS[:3]),
    "one place": ((np.array([3]),), ROWS[:1]),
}


@pytest.fixture
def _written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace what GPUs run."""
    monkeypatch.setattr("pytensor_jaxlink.lowering.repeated_places.on_cpus_alone", lambda: False)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *given, cpu, default: default(*given))


@pytest.mark.usefixtures("_written_at_once")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", FORMS)
def test_the_order_does_not_count(name: str, known: bool) -> None:
    index, values = FORMS[name]
    expected = ARRAY.copy()
    expected[index] = values
    with jax.enable_x64(True):
        given = [i if known or isinstance(i, slice) else jnp.asarray(i) for i in index]
        last = np.asarray(last_of_each_place(jnp.asarray(ARRAY), jnp.asarray(values), given))
    # From the end: the first value of each place is written last.
    selected = np.broadcast_to(last, ARRAY[index].shape)
    numbers = np.arange(ARRAY.size).reshape(ARRAY.shape)[index].ravel()
    found = ARRAY.ravel().copy()
    for number, value in reversed(list(zip(numbers, selected.ravel(), strict=True))):
        found[number] = value
    np.testing.assert_array_equal(found.reshape(ARRAY.shape), expected)


@pytest.mark.usefixtures("_written_at_once")
def test_functions() -> None:
    set_here = pt.set_subtensor(M[ROW, COLUMN], V)
    outputs = [
        set_here,
        pt.set_subtensor(M[ROW], V[:, None] * 2),
        pt.inc_subtensor(M[ROW, COLUMN], V, ignore_duplicates=True),
        pt.inc_subtensor(M[ROW, COLUMN], V),
        *pt.grad((set_here**2).sum(), [M, V]),
    ]
    f, reference = compile_both([M, ROW, COLUMN, V], outputs)
    for count in (6, 0, 2, 3):  # PyTensor 3.0 refuses one value
        given = ARRAY, PLACES[:count], COLUMNS[:count], np.arange(1.0, count + 1)
        assert_same(f(*given), reference(*given))


@pytest.mark.usefixtures("_written_at_once")
def test_nothing_is_added_where_places_differ() -> None:
    def count(index: Any) -> int:
        return len(jax.make_jaxpr(lambda v: last_of_each_place(ARRAY, v, index))(ROWS[:3]).eqns)

    assert count([np.array([0, 3, 1])]) == 0
    assert count([np.array([0, 3, 3])]) > 0


def test_code_for_a_platform() -> None:
    f = pytensor.function([V, ROW, X], pt.set_subtensor(X[ROW], V), mode="JAXSELECTIVE")
    kinds = [jax.ShapeDtypeStruct((3,), dtype) for dtype in ("float64", "int64", "float64")]

    def scatters(platform: str) -> int:
        exported = jax.export.export(jax.jit(f.jax_fn), platforms=(platform,))(*kinds)
        return exported.mlir_module().count('"stablehlo.scatter"(')

    with jax.enable_x64(True):
        assert scatters("cuda") == 2 * scatters("cpu") == 2
