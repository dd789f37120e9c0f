"""Messages name the user's file and line, and the user's variable."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.ops import wrap_py
from pytensor.raise_op import Assert
from pytensor.xtensor import xtensor

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, RecompileLimitError, explain, frames
from pytensor_jaxlink.frames import distance
from tests.helpers import outer, sort_down

X = np.array([0.3, -0.9, 0.1])
MODES = [{}, {"jit": False}, {"outputs": "numpy"}, {"host_ops": "callback"}]


def here() -> str:
    caller = inspect.currentframe().f_back
    return f"{__file__}:{caller.f_lineno}"


def notes_of(run: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        run()
    return "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("options", MODES)
class TestErrorsInsideRegions:
    def test_shapes(self, options: Any) -> None:
        x, y = pt.dvectors("x", "y")
        mu, line = x + y, here()
        mu.name = "mu"
        f = pytensor.function([x, y], (mu * 2).sum(), mode=JAXLinker(**options))
        f(X, X)
        notes = notes_of(lambda: f(X, np.ones(4)), ValueError)
        assert f"while computing (x + y), written at {line}, part of mu" in notes

    def test_indices(self, options: Any) -> None:
        x, i = pt.dvector("x"), pt.lvector("i")
        taken, line = x[i], here()
        f = pytensor.function([x, i], pt.exp(taken), mode=JAXLinker(**options))
        f(X, [0])
        notes = notes_of(lambda: f(X, [9]), IndexError)
        assert f"while computing x[i], written at {line}" in notes

    def test_assertions(self, options: Any) -> None:
        x = pt.dvector("x")
        checked, line = Assert("negative")(x, x.sum() > 0), here()
        f = pytensor.function([x], pt.exp(checked), mode=JAXLinker(**options))
        f(X + 1)
        notes = notes_of(lambda: f(X - 1), AssertionError)
        assert f"while computing assert(x, sum(x) > 0), written at {line}" in notes

    def test_loops(self, options: Any) -> None:
        rows, i = pt.dmatrix("rows"), pt.lvector("i")
        line = here().replace(f":{here().split(':')[-1]}", "")
        total = pytensor.scan(lambda row: row[i].sum(), sequences=[rows], return_updates=False)
        f = pytensor.function([rows, i], total, mode=JAXLinker(**options))
        f(np.ones((2, 3)), [0])
        notes = notes_of(lambda: f(np.ones((2, 3)), [9]), IndexError)
        assert f"while computing scan(rows, i), written at {line}:" in notes


def test_named_dimensions() -> None:
    x = xtensor("x", dims=("a",), dtype="float64")
    positive, line = x.isel(a=(x > 0).values.nonzero()[0]), here()
    for explanation in (
        pytensor.function([x], positive, mode="JAXSELECTIVE").explain(),
        explain(positive),
    ):
        assert explanation.breaks
        assert {cut.where for cut in explanation.breaks} == {line}


def test_inner_graphs() -> None:
    positive = wrap_py([pt.dscalar], [pt.dscalar])(abs)
    x = pt.dvector("x")
    first = int(here().split(":")[-1])
    sums = pytensor.scan(lambda e: positive(e) + 1, sequences=[x], return_updates=False)
    mode = JAXLinker(host_ops="callback")
    [called] = pytensor.function([x], sums, mode=mode).explain().callbacks
    assert called.where == f"{__file__}:{first + 1}"


class TestWarnings:
    def test_the_line_of_the_call(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        size, line = pt.maximum(n, 1), here()
        f = pytensor.function([x, n], x[size::-2] * 2, mode=JAXLinker(recompile_limit=1))
        f(X, 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, expected = f(X, 3), here()
        [warning] = caught
        assert f"{warning.filename}:{warning.lineno}" == expected
        assert issubclass(warning.category, JAXLinkWarning)
        text = str(warning.message)
        assert f"the value of maximum(n, 1) ({line}) was 2, 3, ..." in text

    def test_what_is_computed_before(self) -> None:
        x = pt.dvector("x")
        size, line = x.argmax() + 1, here()
        mode = JAXLinker(recompile_limit=1, on_recompile_limit="error")
        f = pytensor.function([x], outer(x[:size]), mode=mode)
        f(np.array([1.0, 2.0, 3.0]))
        with pytest.raises(RecompileLimitError) as caught:
            f(np.array([1.0, 3.0, 2.0]))
        assert f"the value of (1 + argmax(x)) ({line}) was 3, 2, ..." in str(caught.value)


SOURCE = """
import pytensor, pytensor.tensor as pt
x = pt.dvector("x")
y = pt.unique(x) * 2
explanation = pytensor.function([x], y, mode="JAXSELECTIVE").explain()
"""


@pytest.mark.parametrize(
    "name",
    [
        "<stdin>",
        "<python-input-3>",
        "<ipython-input-3-5b>",
        "/tmp/ipykernel_31/1842.py",
        "<doctest model[0]>",
        "/home/you/model.py",
    ],
)
def test_interactive_sources(name: str) -> None:
    found: dict[str, Any] = {}
    exec(compile(SOURCE, name, "exec"), found)
    [cut] = found["explanation"].breaks
    assert cut.where == f"{name}:4"


def test_the_users_files() -> None:
    assert distance(__file__) == 0
    assert distance(pytest.__file__) == 1
    for file in (inspect.__file__, pytensor.__file__, frames.__file__, "<string>"):
        assert distance(file) is None


class TestPyMC:
    """Models: the line where a variable was written, and its name."""

    def test_conditions_are_no_names(self) -> None:
        """PyMC's rewrites name a density after the condition of its parameters."""
        x, d = pt.dvector("x"), pt.dvector("d")
        density = pt.switch(x[0] > 0, -(x * d), -np.inf)
        density.name = "sigma > 0"
        joint = density.sum() + x.sum()
        joint.name = "joint"
        f = pytensor.function([x, d], joint, mode="JAXSELECTIVE")
        with pytest.raises(ValueError, match="could not be broadcast") as raised:
            f(X, X[:-1])
        assert raised.value.__notes__[-1].endswith(", part of joint")

    def test_variables(self) -> None:
        pm = pytest.importorskip("pymc")
        down = wrap_py([pt.dvector], [pt.dvector])(sort_down)
        with pm.Model() as model:
            z = pm.Normal("z", shape=3)
            down_z, line = down(z), here()
            w = pm.Deterministic("w", down_z)
            pm.Normal("o", mu=w, observed=X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            draw = pytensor.function([], model["w"], mode="JAXSELECTIVE")
        [cut] = draw.explain().breaks
        assert cut.where == line
        assert cut.part_of == "w"
        assert f"  where: {line}, part of w" in str(draw.explain())

    def test_named_dimensions(self) -> None:
        pm = pytest.importorskip("pymc")
        pmd = pytest.importorskip("pymc.dims")
        with warnings.catch_warnings(), pm.Model(coords={"a": range(3)}) as model:
            warnings.simplefilter("ignore")
            x = pmd.Normal("x", dims="a")
            line = here().rsplit(":", 1)[0]
            pmd.Deterministic("y", pmd.math.exp(x))
            f = pytensor.function([], model["y"], mode="JAXSELECTIVE")
        for cut in f.explain().breaks:
            assert cut.where.startswith(f"{line}:")
