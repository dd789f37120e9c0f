"""PyMC's samplers on JAX.  PyMC is no dependency: the extra ``pymc`` installs it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pytensor_jaxlink import NotJittableError
from pytensor_jaxlink.pymc import jax_function, jax_samplers

NOT_INSTALLED = "needs the extra pymc: pip install 'pytensor_jaxlink[pymc]'"
SAMPLERS = ("numpyro", "blackjax", "nutpie")
OPTIONS: dict[str, Any] = {
    # By default a chain takes a device, and these tests run where JAX has one.
    "blackjax": {"nuts_sampler_kwargs": {"chain_method": "vectorized"}},
    "numpyro": {"nuts_sampler_kwargs": {"chain_method": "vectorized"}},
}
# The packages under test warn about each other.
pytestmark = pytest.mark.filterwarnings("ignore")

DATA = np.random.default_rng(1).normal(2.0, 1.5, 40)


class LogLikelihood(Op):
    """A black box: nothing but NumPy."""

    __props__ = ()

    def make_node(self, theta: Any) -> Apply:
        return Apply(self, [theta], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        mean, scale = inputs[0]
        value = (-0.5 * ((DATA - mean) / np.exp(scale)) ** 2 - scale).sum()
        output_storage[0][0] = np.asarray(value)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        return [cotangents[0] * Slope()(inputs[0])]


class Slope(Op):
    """Its gradient, without `infer_shape`, as people write it."""

    __props__ = ()

    def make_node(self, theta: Any) -> Apply:
        return Apply(self, [theta], [pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        mean, scale = inputs[0]
        rest = (DATA - mean) / np.exp(scale)
        output_storage[0][0] = np.array([(rest / np.exp(scale)).sum(), (rest**2 - 1).sum()])


class TestFunctions:
    def test_shared_variables_are_constants(self) -> None:
        x, scale = pt.dvector("x"), pytensor.shared(2.0)
        function = jax_function([x], [x * scale, x.sum()])
        scale.set_value(3.0)
        np.testing.assert_allclose(function(np.ones(2))[0], [2.0, 2.0])

    def test_what_jax_cannot_trace(self) -> None:
        x = pt.dvector("x")
        with pytest.raises(NotJittableError, match="Unique"):
            jax_function([x], [pt.unique(x)])
        rng = pytensor.shared(np.random.default_rng(1))
        with pytest.raises(ValueError, match="these outputs draw random numbers"):
            jax_function([x], [pt.random.normal(x, rng=rng)])


@pytest.fixture
def pm() -> Any:
    return pytest.importorskip("pymc", reason=NOT_INSTALLED)


def black_box(pm: Any) -> Any:
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 3, shape=2)
        pm.Potential("likelihood", LogLikelihood()(theta))
    return model


def masked(pm: Any) -> Any:
    """Masks of data and of parameters, and a size."""
    with pm.Model() as model:
        values = pm.Data("values", np.where(np.arange(40) % 3 == 0, -99.0, DATA))
        length = pm.Data("length", np.asarray(30))
        level = pm.Normal("level", 0, 5)
        steps = pm.Normal("steps", 0, 1, shape=3)
        observed = values[:length]
        mean = level + steps[steps > 0].sum()
        density = pm.logp(pm.Normal.dist(mean, 1.5), observed[observed > -50])
        pm.Potential("likelihood", density.sum())
    return model


def sample(pm: Any, model: Any, sampler: str, **options: Any) -> Any:
    options |= OPTIONS.get(sampler, {})
    with model:
        trace = pm.sample(
            draws=400,
            tune=400,
            chains=2,
            cores=1,
            random_seed=3,
            progressbar=False,
            compute_convergence_checks=False,
            nuts_sampler=sampler,
            **options,
        )
    return {name: np.asarray(trace.posterior[name]) for name in trace.posterior.data_vars}


_references: dict[str, Any] = {}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("build", [black_box, masked])
def test_posteriors_agree(pm: Any, build: Callable[[Any], Any], sampler: str) -> None:
    pytest.importorskip(sampler, reason=NOT_INSTALLED)
    model = build(pm)
    if build.__name__ not in _references:
        mode = {"mode": "JAXSELECTIVE"}
        _references[build.__name__] = sample(pm, model, "pymc", compile_kwargs=mode)
    options = {"compile_kwargs": {"backend": "jax"}} if sampler == "nutpie" else {}
    with jax_samplers():
        found = sample(pm, model, sampler, **options)
    for name, expected in _references[build.__name__].items():
        spread = expected.std((0, 1))
        # Five standard errors of the difference, if 1 draw in 8 counts.
        tolerance = 5 * spread * np.sqrt(2 * 8 / 800)
        assert np.all(np.abs(found[name].mean((0, 1)) - expected.mean((0, 1))) < tolerance)
        np.testing.assert_allclose(found[name].std((0, 1)), spread, rtol=0.35)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sizes_change_between_calls(pm: Any, sampler: str) -> None:
    pytest.importorskip(sampler, reason=NOT_INSTALLED)
    with pm.Model() as model:
        count = pm.Data("count", np.asarray(3))
        level = pm.Normal("level", 0, 1)
        pm.Potential("likelihood", -(((pt.arange(count) - level) ** 2).sum()))
    options = {"compile_kwargs": {"backend": "jax"}} if sampler == "nutpie" else {}
    for size in (3, 7):
        with jax_samplers():
            model.set_data("count", np.asarray(size))
            mean = sample(pm, model, sampler, **options)["level"].mean()
        # Normal: precision 1 + 2 n, mean 2 sum(k) / (1 + 2 n).
        expected, deviation = size * (size - 1) / (1 + 2 * size), (1 + 2 * size) ** -0.5
        assert abs(mean - expected) < 5 * deviation * np.sqrt(8 / 800)


def test_what_is_replaced_comes_back(pm: Any) -> None:
    pytest.importorskip("nutpie", reason=NOT_INSTALLED)
    places = [
        (import_module("pymc.sampling.jax"), "get_jaxified_graph"),
        (import_module("pymc.sampling.jax"), "_blackjax_inference_loop"),
        (import_module("nutpie.compile_pymc"), "_make_functions"),
    ]
    before = [getattr(*place) for place in places]

    def fail() -> None:
        with jax_samplers():
            with jax_samplers():
                assert getattr(*places[0]) is jax_function
            assert getattr(*places[0]) is jax_function
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [getattr(*place) for place in places] == before


def test_numba_in_nutpie_is_left_alone(pm: Any) -> None:
    pytest.importorskip("nutpie", reason=NOT_INSTALLED)
    with pm.Model() as model:
        pm.Normal("level", 2, 1)
    with jax_samplers():
        found = sample(pm, model, "nutpie", compile_kwargs={"backend": "numba"})
    assert abs(found["level"].mean() - 2) < 0.5
