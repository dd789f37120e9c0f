"""``x[()]``, an index that takes nothing, which PyTensor's rewrites remove and `save` keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.scan.utils import until

from pytensor_jaxlink import JAXLinker, load, save
from tests.helpers import black_box, sort_down


def _loop(step: Callable[..., Any], **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)[()]


GRAPHS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "an input": lambda x, m, n: x[()] * 2,
    "a length": lambda x, m, n: pt.zeros(x[()].shape[()][0]) + 1,
    "a range": lambda x, m, n: pt.arange(n)[()] * 2,
    "a unit matrix": lambda x, m, n: pt.eye(n)[()] * 2,
    "the sum of a range": lambda x, m, n: pt.arange(n)[()].sum(),
    "a mask": lambda x, m, n: x[()][(x > 0)[()]][()] * 2,
    "an update": lambda x, m, n: pt.set_subtensor(x[()], x * 2),
    "an increment": lambda x, m, n: pt.inc_subtensor(m[()], 1.0)[()],
    "parts": lambda x, m, n: m[()][:n][()].sum(axis=0),
    "a gradient": lambda x, m, n: pytensor.grad((x[()] ** 2)[:n][()].sum(), x),
    "a reshape": lambda x, m, n: m[()].reshape((-1,))[()],
    "a trace": lambda x, m, n: _loop(lambda t, a: a + t, sequences=[x[()]], outputs_info=[x[0]]),
    "its last entry": lambda x, m, n: _loop(
        lambda t, a: a + t, sequences=[x[::-1][()]], outputs_info=[x[0]]
    )[-1],
    "until": lambda x, m, n: _loop(
        lambda a: (a * 1.5, until(a > n)), outputs_info=[x[-1] + 9], n_steps=9
    ),
    "a host step": lambda x, m, n: black_box(sort_down)(x[()])[()],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_an_index_that_takes_nothing(name: str, tmp_path: Path) -> None:
    x, m, n = inputs = [pt.dvector("x"), pt.dmatrix("m"), pt.lscalar("n")]
    graph = GRAPHS[name](x, m, n)
    reference = pytensor.function(inputs, graph, mode=Mode("py", None), on_unused_input="ignore")
    functions = [
        pytensor.function(inputs, graph, mode=mode, on_unused_input="ignore")
        for mode in ("JAXSELECTIVE", Mode(JAXLinker(), None))
    ]
    functions[0](np.arange(3) - 1.5, np.arange(6.0).reshape(3, 2), np.array(2))
    save(functions[0], tmp_path / "f.jaxlink")
    if name != "a host step":
        functions.append(load(tmp_path / "f.jaxlink"))
    for k in (3, 4, 5):
        given = np.arange(k) - 1.5, np.arange(k * 2.0).reshape(k, 2), np.array(2)
        expected = reference(*given)
        for f in functions:
            np.testing.assert_allclose(f(*given), expected, rtol=1e-13)
