"""PyMC's samplers on JAX.  PyMC is no dependency: the extra ``pymc`` installs it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats

from pytensor_jaxlink import JAXFunction, JAXLinker, NotJittableError
from pytensor_jaxlink.compat import CHOOSES_PROCESSES
from pytensor_jaxlink.generators import held_key
from pytensor_jaxlink.link.maker import JAXFunctionMaker
from pytensor_jaxlink.link.step_methods import (
    WITH_ARRAYS,
    WITH_COMPILE_KWARGS,
    WITH_MODE,
    numpy_mode,
)
from pytensor_jaxlink.pymc import jax_function, jax_samplers

NOT_INSTALLED = "needs the extra pymc: pip install 'pytensor_jaxlink[pymc]'"
SAMPLERS = ("numpyro", "blackjax", "nutpie")
OPTIONS: dict[str, Any] = {
    # By default a chain takes a device, and these tests run where JAX has one.
    "numpyro": {"nuts": {"chain_method": "vectorized"}},
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
        with pytest.raises(NotJittableError, match="unique"):
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


DEFAULTS: dict[str, Any] = {
    "draws": 400,
    "tune": 400,
    "chains": 2,
    "cores": 1,
    "random_seed": 3,
    "progressbar": False,
    "compute_convergence_checks": False,
}
OURS: dict[str, Any] = {"compile_kwargs": {"mode": "JAXSELECTIVE"}}


def sample(pm: Any, model: Any, sampler: str | None, **options: Any) -> Any:
    options = DEFAULTS | OPTIONS.get(sampler or "", {}) | options
    with model:
        trace = pm.sample(nuts_sampler=sampler, **options)
    return {name: np.asarray(trace.posterior[name]) for name in trace.posterior.data_vars}


def plain(pm: Any) -> Any:
    with pm.Model() as model:
        level, scale = pm.Normal("level", 0, 5), pm.HalfNormal("scale", 2)
        pm.Normal("y", level, scale, observed=DATA)
    return model


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[JAXFunction]:
    """The functions of ours that are made."""
    functions: list[JAXFunction] = []
    create = JAXFunctionMaker.create

    def note(maker: JAXFunctionMaker, *args: Any, **options: Any) -> Any:
        functions.append(create(maker, *args, **options))
        return functions[-1]

    monkeypatch.setattr(JAXFunctionMaker, "create", note)
    return functions


class TestOurModeIsWhatRuns:
    """What PyMC decides by the class of a linker."""

    @pytest.mark.parametrize("build", [plain, masked, black_box])
    def test_sampling(self, pm: Any, build: Callable[[Any], Any], made: list[JAXFunction]) -> None:
        short = {"draws": 60, "tune": 60} | OURS
        found = sample(pm, build(pm), None, **short)
        assert max(f.stats.calls for f in made) > 240  # at least one for each draw
        other = sample(pm, build(pm), None, **short, cores=2)
        for name, values in found.items():
            np.testing.assert_array_equal(other[name], values)

    def test_processes_are_not_forked(self, pm: Any) -> None:
        parallel = import_module("pymc.sampling.parallel")
        for mode in ("JAXSELECTIVE", "JAX"):
            context = parallel._initialize_multiprocessing_context(None, mode=mode)
            assert context.get_start_method() == "forkserver"
        context = parallel._initialize_multiprocessing_context("fork", mode="FAST_COMPILE")
        assert context.get_start_method() == "fork"

    def test_nor_with_the_mode_by_default(self, pm: Any) -> None:
        """A forked process has none of JAX's threads, so our functions would run on the host."""
        for module in ("pymc.sampling.parallel", "pymc.sampling.mcmc", "pymc.smc.sampling"):
            choose = getattr(import_module(module), CHOOSES_PROCESSES)
            assert choose("fork").get_start_method() == "fork"
            with pytensor.config.change_flags(mode="JAXSELECTIVE"):
                assert choose(None).get_start_method() == "forkserver"
                named = [choose(None, mode=mode) for mode in ("FAST_COMPILE", "NUMBA")]
                assert len({context.get_start_method() for context in named}) == 1

    @pytest.mark.parametrize("kind", ["NUTS", "Metropolis", "Slice", "compound"])
    def test_nor_with_the_mode_in_a_step_method(
        self, pm: Any, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`pm.sample(step=pm.NUTS(compile_kwargs=...))` names no mode itself."""
        parallel = import_module("pymc.sampling.parallel")
        methods: list[str] = []

        class Started(Exception):
            pass

        def start(*args: Any, **options: Any) -> None:
            methods.append(next(a.get_start_method() for a in args if hasattr(a, "Process")))
            raise Started

        monkeypatch.setattr(parallel, "ProcessAdapter", start)
        options: dict[str, Any] = {"chains": 2, "cores": 2, "draws": 5, "tune": 5}
        for mode in ("JAXSELECTIVE", "FAST_COMPILE"):
            with plain(pm):
                chosen = {"compile_kwargs": {"mode": mode}}
                step = getattr(pm, "Metropolis" if kind == "compound" else kind)(**chosen)
                if kind == "compound":
                    step = pm.CompoundStep([step])
                for context in (None, "fork"):
                    with pytest.raises(Started):
                        pm.sample(**options, step=step, mp_ctx=context, progressbar=False)
        unchanged = multiprocessing.get_context().get_start_method()
        assert methods == ["forkserver", "fork", unchanged, "fork"]

    def test_draws_of_a_frozen_model_compile_once(self, pm: Any, made: list[JAXFunction]) -> None:
        freeze_model = import_module("pymc.model.transform.optimization").freeze_model
        draws = []
        with freeze_model(plain(pm)):
            for seed in (1, 2, 1):
                prior = pm.sample_prior_predictive(30, random_seed=seed, **OURS).prior["level"]
                draws.append(np.asarray(prior))
        assert len(made) == 1
        assert sum(made[0].stats.compilations) == 1
        np.testing.assert_array_equal(draws[0], draws[2])
        assert not np.array_equal(draws[0], draws[1])
        # 200 draws are 200 calls: none of them makes the state of a generator, which takes longer.
        keys = [held_key(container.storage[0]) for container in made[0].input_storage]
        assert keys
        assert all(key is not None for key in keys)

    def test_simulators(self, pm: Any, made: list[JAXFunction]) -> None:
        with pm.Model():
            level = pm.Normal("level", 0, 5)
            pm.Simulator("s", simulated, params=(level,), epsilon=1, observed=DATA)
            options = {"draws": 100, "chains": 2, "cores": 1, "random_seed": 1}
            trace = pm.sample_smc(
                **options, progressbar=False, compute_convergence_checks=False, **OURS
            )
        assert any(f.stats.calls > 100 for f in made)
        assert abs(float(trace.posterior["level"].mean()) - DATA.mean()) < 1

    def test_nutpie_in_the_block(self, pm: Any, made: list[JAXFunction]) -> None:
        pytest.importorskip("nutpie", reason=NOT_INSTALLED)
        with jax_samplers():
            found = sample(pm, masked(pm), "nutpie", **OURS)
        assert made
        assert np.isfinite(found["level"]).all()


def simulated(rng: np.random.Generator, level: float, size: Any = None) -> Any:
    return rng.normal(level, 1.5, size=40)


OPTIMISERS = "pymc.tuning.scipy_interface"
"""A module that PyMC has from 6.4 on."""


class TestArraysOfSamplers:
    """PyMC's own samplers compute in Python, with NumPy arrays; users' functions stay the same."""

    def test_the_places_are_there(self, pm: Any) -> None:
        for module, path in (*WITH_MODE, *WITH_COMPILE_KWARGS, *WITH_ARRAYS):
            if module == OPTIMISERS and find_spec(module) is None:
                continue
            found: Any = import_module(module)
            for name in path.split("."):
                found = getattr(found, name)
            assert hasattr(found, "__wrapped__"), f"{module}.{path}"

    def test_samplers_get_numpy_arrays(self, pm: Any, made: list[JAXFunction]) -> None:
        with pm.Model():
            level = pm.Normal("level", 0, 5)
            coin, die = pm.Bernoulli("coin", 0.4), pm.Categorical("die", [0.2, 0.3, 0.5])
            pm.Normal("y", level + coin + die, 1, observed=DATA)
            for step in (pm.NUTS, pm.HamiltonianMC, pm.Metropolis, pm.Slice, pm.DEMetropolisZ):
                step([level], **OURS)
            for step in (pm.BinaryMetropolis, pm.BinaryGibbsMetropolis):
                step([coin], **OURS)
            pm.CategoricalGibbsMetropolis([die], **OURS)
            if find_spec(OPTIMISERS) is not None:
                import_module(OPTIMISERS).scipy_optimize_funcs_from_loss(
                    (level - 1) ** 2, [level], {"level": np.zeros(())}, use_grad=True, **OURS
                )
        assert len(made) == 8 + (find_spec(OPTIMISERS) is not None)
        assert {type(output) for f in made for output in outputs_of(f)} == {np.ndarray}

    def test_also_with_the_mode_by_default(self, pm: Any) -> None:
        with pytensor.config.change_flags(mode="JAXSELECTIVE"), plain(pm):
            density: Any = pm.NUTS()._logp_dlogp_func._pytensor_function
            ratio = pm.Metropolis(blocked=True).delta_logp
        assert isinstance(density, JAXFunction)
        for f in (density, ratio):
            assert {type(output) for output in outputs_of(f)} == {np.ndarray}

    @pytest.mark.parametrize("init", ["advi", "advi+adapt_diag", "scaling"])
    def test_results_as_variances(self, pm: Any, init: str) -> None:
        options = DEFAULTS | {"draws": 10, "tune": 10, "chains": 1}
        with pytensor.config.change_flags(mode="JAXSELECTIVE"), plain(pm):
            if init == "scaling":
                step = pm.NUTS(scaling=jax.numpy.ones(2), is_cov=True)
                trace = pm.sample(step=step, **options)
            else:
                trace = pm.sample(init=init, n_init=50, **options)
        assert np.isfinite(trace.posterior["level"]).all()

    def test_functions_of_users_give_what_they_promise(self, pm: Any) -> None:
        freeze_model = import_module("pymc.model.transform.optimization").freeze_model
        with freeze_model(plain(pm)) as model:
            point = model.initial_point()
            for _ in range(2):  # also after a step method has compiled the same density
                assert isinstance(model.compile_logp(**OURS["compile_kwargs"])(point), jax.Array)
                assert isinstance(model.compile_dlogp(mode="JAXSELECTIVE")(point), jax.Array)
                pm.NUTS(**OURS)
        with pm.Model() as coins:
            coin = pm.Bernoulli("coin", 0.4)
        with freeze_model(coins) as model:
            pm.BinaryMetropolis([model["coin"]], **OURS)
            found = model.compile_logp(mode="JAXSELECTIVE")(model.initial_point())
            assert isinstance(found, jax.Array)
        assert isinstance(pm.draw(coin, mode="JAXSELECTIVE"), jax.Array)

    def test_other_modes_and_options_are_kept(self) -> None:
        for mode in ("NUMBA", "FAST_COMPILE", None):
            assert numpy_mode(mode) is mode
        linker = JAXLinker(recompile_limit=3)
        for given in (linker, Mode(linker=linker, optimizer="fast_run")):
            found: Any = numpy_mode(given)
            assert found.linker.options == replace(linker.options, outputs="numpy")
        assert linker.options.outputs == "jax"
        without: Any = numpy_mode(get_mode("JAXSELECTIVE").excluding("jaxlink_masks"))
        assert "jaxlink_masks" in without.provided_optimizer.exclude

    def test_extra_values_change_between_steps(self, pm: Any) -> None:
        """A compound step: each one reads the values of the other's variables."""
        with pm.Model():
            level = pm.Normal("level", 0, 5)
            coin = pm.Bernoulli("coin", 0.5)
            pm.Normal("y", level + 4 * coin, 1, observed=DATA)
            steps = [pm.NUTS([level], **OURS), pm.Metropolis([coin], **OURS)]
            trace = pm.sample(step=steps, **DEFAULTS | {"draws": 300, "tune": 300})
        mean = (trace.posterior["level"] + 4 * trace.posterior["coin"]).mean()
        assert abs(float(mean) - DATA.mean()) < 0.3


def outputs_of(function: JAXFunction) -> list[Any]:
    """The outputs of a function for zeros."""
    kinds: list[Any] = [cell.type for cell in function.input_storage if cell.required]
    found = function(*(np.zeros([n or 1 for n in kind.shape], kind.dtype) for kind in kinds))
    return found if isinstance(found, list) else [found]


class TestOurModeByDefault:
    """``config.mode``, so that everything that PyMC computes is a result of ours."""

    def test_results_go_into_models(self, pm: Any) -> None:
        with pytensor.config.change_flags(mode="JAXSELECTIVE"):
            shape = pt.as_tensor(np.zeros((2, 3))).shape.eval()
            [draw] = pm.draw([pm.Normal.dist(0, 1, shape=tuple(shape))])
            assert isinstance(draw, jax.Array)
            with pm.Model() as model:
                data = pm.Data("data", draw)
                level = pm.Normal("level", mu=draw, sigma=abs(draw), shape=tuple(shape))
                pm.Normal("y", level[draw > 0] + draw[draw > 0], 1, observed=draw[draw > 0])
                pm.Deterministic("d", level + data)
            point = model.initial_point()
            assert np.isfinite(model.compile_logp()(point))
            model.set_data("data", draw * 2)

    def test_gaussian_processes(self, pm: Any) -> None:
        with pytensor.config.change_flags(mode="JAXSELECTIVE"), pm.Model() as model:
            gp = pm.gp.HSGP(m=[5], c=2.0, cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
            f = gp.prior("f", X=np.linspace(0, 1, 8)[:, None])
            pm.Normal("y", f, 1, observed=np.zeros(8))
            assert np.isfinite(model.compile_logp()(model.initial_point()))


def test_a_linker_as_the_mode(pm: Any) -> None:
    linker = JAXLinker(outputs="numpy")
    with pm.Model() as model:
        level = pm.Normal("level")
        assert pm.sample_prior_predictive(5, compile_kwargs={"mode": linker}).prior["level"].size
        assert isinstance(pm.draw(level, mode=linker), np.ndarray)
        point = model.initial_point()
        for compiled in (model.compile_logp(mode=linker), model.compile_dlogp(mode=linker)):
            assert type(compiled.f) is JAXFunction
            assert np.isfinite(compiled(point))


@pytest.mark.parametrize("sampler", ["numpyro", "blackjax"])
def test_samplers_follow_float_x(pm: Any, sampler: str) -> None:
    pytest.importorskip(sampler, reason=NOT_INSTALLED)
    jax.numpy.ones(2).block_until_ready()  # JAX has started, with one device
    with pytensor.config.change_flags(floatX="float32"):
        with pm.Model() as model:
            level = pm.Normal("level", 0, 5)
            pm.Normal("y", level, 1, observed=DATA.astype("float32"))
        with jax_samplers():
            found = sample(pm, model, sampler, draws=50, tune=50)
    assert found["level"].dtype == "float32"
    assert jax.config.jax_enable_x64
    assert abs(found["level"].mean() - DATA.mean()) < 0.5


def test_blackjax_shows_its_progress(pm: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("blackjax", reason=NOT_INSTALLED)
    with jax_samplers():
        for shown in (True, False):
            sample(pm, plain(pm), "blackjax", draws=20, tune=20, progressbar=shown)
            assert ("100%" in capsys.readouterr().out) == shown


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


def test_interpolated_densities_need_no_host(pm: Any) -> None:
    points = np.linspace(0, 3, 10)
    with pm.Model() as model:
        level = pm.Interpolated("level", points, np.exp(-((points - 1) ** 2)))
        pm.Normal("y", level, 1, observed=[1.0, 2.0])
    for graph in (model.logp(), model.dlogp()):
        ours, reference = (
            model.compile_fn(graph, inputs=model.value_vars, point_fn=False, mode=mode)
            for mode in ("JAXSELECTIVE", "FAST_COMPILE")
        )
        assert ours.explain().graph_break_count == 0
        for value in (-40.0, -0.3, 0.0, 2.0, np.nan):
            np.testing.assert_allclose(ours(value), reference(value), rtol=1e-10)
    drawn = pm.draw(level, 500, random_seed=3, mode="JAXSELECTIVE")
    reference = pm.draw(level, 500, random_seed=3, mode="FAST_COMPILE")
    assert stats.ks_2samp(drawn, reference).pvalue > 1e-3


def test_numba_in_nutpie_is_left_alone(pm: Any) -> None:
    pytest.importorskip("nutpie", reason=NOT_INSTALLED)
    with pm.Model() as model:
        pm.Normal("level", 2, 1)
    with jax_samplers():
        found = sample(pm, model, "nutpie", compile_kwargs={"backend": "numba"})
    assert abs(found["level"].mean() - 2) < 0.5
