"""Cases on two processes of four simulated devices each.

Each process runs all of this.  Arrays lie on the devices of both.
"""

from __future__ import annotations

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from tests.devices.models import KINDS, ROWS, W, X, Y, mesh_of, over, regression, spread
from tests.helpers import black_box, sort_down

sort = black_box(sort_down)
MODE = "JAXSELECTIVE"
BIG = np.arange(float(ROWS))


def case_there_are_two() -> None:
    assert (jax.process_count(), len(jax.devices()), len(jax.local_devices())) == (2, 8, 4)


def case_log_likelihood_and_gradient() -> None:
    inputs, outputs = regression()
    alone = pytensor.function(inputs, outputs, mode=MODE)(X, Y, W)
    for kind in KINDS:
        f = pytensor.function(inputs, outputs, mode=MODE)
        rows = over(mesh_of(kind), "data")
        for found, expected in zip(f(spread(X, rows), spread(Y, rows), W), alone, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert (f.stats.arrays_gathered, f.stats.bytes_to_host) == (0, 0)


def case_states() -> None:
    x = pt.dvector("x")
    for kind in KINDS:
        rows = over(mesh_of(kind), "data")
        for size in (ROWS, ROWS * 200):
            state = pytensor.shared(np.zeros(size), "state")
            update = {state: state + x.sum()}
            f = pytensor.function([x], state.sum(), updates=update, mode=MODE)
            state.set_value(spread(np.zeros(size), rows))
            for _ in range(10):
                total = f(spread(BIG, rows))
                assert state.get_value(return_internal_type=True).sharding == rows
            assert total == 9 * size * BIG.sum()


def case_host_steps_gather_from_both() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], sort(x + BIG) * BIG, mode=MODE)
    for kind in KINDS:
        found = f(spread(Y, over(mesh_of(kind), "data")))
        np.testing.assert_array_equal(found, -np.sort(-(Y + BIG)) * BIG)
    assert (f.stats.arrays_gathered, f.stats.bytes_to_host) == (2, 2 * BIG.nbytes)


def case_loop_host_executed() -> None:
    rows = pt.dmatrix("rows")
    states = pytensor.scan(
        lambda a, s: sort(s) + a,
        sequences=[rows],
        outputs_info=[pt.zeros(rows.shape[1])],
        return_updates=False,
    )
    f = pytensor.function([rows], states[-1], mode=MODE)
    found = f(spread(X[:16], over(mesh_of(KINDS[0]), "data")))
    np.testing.assert_allclose(found, f(X[:16]), rtol=1e-12)


def case_false_checks_raise_in_both() -> None:
    x, k = pt.dvector("x"), pt.lvector("k")
    f = pytensor.function([x, k], x[k], mode=MODE)
    with pytest.raises(IndexError, match=f"index {ROWS} is out of bounds for axis 0 with size"):
        f(spread(Y, over(mesh_of(KINDS[0]), "data")), np.array([ROWS]))


def case_results_as_numpy() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x * 2, mode=JAXLinker(outputs="numpy"))
    found = f(spread(Y, over(mesh_of(KINDS[0]), "data")))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, Y * 2)


def case_devices_of_the_other_process() -> None:
    [other] = [d for d in jax.devices() if d.process_index != jax.process_index()][:1]
    with pytest.raises(ValueError, match="another process") as found:
        JAXLinker(device=other)
    assert str(found.value) == f"JAXLinker: device={other!r} belongs to another process [PJL612]"
