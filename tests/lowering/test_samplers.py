"""Each sampler draws from its distribution: SciPy's distribution functions, at a fixed seed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import explicit_graph_inputs
from pytensor.tensor.random.basic import ChoiceWithoutReplacement
from pytensor.tensor.random.op import RandomVariable
from scipy import stats

from pytensor_jaxlink.lowering import rejection, samplers
from tests.edges.compare import outcome
from tests.helpers import PYTHON

COUNT = 20_000
LIMIT = 1e-3  # a right sampler fails one test in a thousand seeds; the seed is fixed

CONTINUOUS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "pytensor.BetaRV": ((2.0, 3.0), stats.beta(2, 3)),
    "pytensor.CauchyRV": ((1.0, 2.0), stats.cauchy(1, 2)),
    "pytensor.ExponentialRV": ((2.0,), stats.expon(scale=2)),
    "pytensor.GammaRV": ((2.5, 1.5), stats.gamma(2.5, scale=1.5)),
    "pytensor.GumbelRV": ((1.0, 2.0), stats.gumbel_r(1, 2)),
    "pytensor.LaplaceRV": ((1.0, 2.0), stats.laplace(1, 2)),
    "pytensor.LogisticRV": ((1.0, 2.0), stats.logistic(1, 2)),
    "pytensor.NormalRV": ((1.0, 2.0), stats.norm(1, 2)),
    "pytensor.ParetoRV": ((2.0, 1.5), stats.pareto(2, scale=1.5)),
    "pytensor.StudentTRV": ((3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "pytensor.UniformRV": ((-1.0, 2.0), stats.uniform(-1, 3)),
    "pytensor.GenGammaRV": ((2.0, 3.0, 1.5), stats.gengamma(2 / 3, 3, scale=1.5)),
    "pytensor.HalfCauchyRV": ((1.0, 2.0), stats.halfcauchy(1, 2)),
    "pytensor.HalfNormalRV": ((1.0, 2.0), stats.halfnorm(1, 2)),
    "pytensor.InvGammaRV": ((2.0, 3.0), stats.invgamma(2, scale=3)),
    "pytensor.LogNormalRV": ((0.5, 1.5), stats.lognorm(1.5, scale=np.exp(0.5))),
    "pytensor.TriangularRV": ((-1.0, 0.5, 2.0), stats.triang(0.5, -1, 3)),
    "pytensor.TruncExponentialRV": ((2.0, 1.0, 3.0), stats.truncexpon(2, 1, 3)),
    "pytensor.VonMisesRV": ((0.0, 2.0), stats.vonmises(2)),
    "pytensor.WaldRV": ((1.5, 2.0), stats.invgauss(0.75, scale=2)),
    "pytensor.WeibullRV": ((1.7,), stats.weibull_min(1.7)),
    "pymc.BetaClippedRV": ((2.0, 3.0), stats.beta(2, 3)),
    "pymc.InterpolatedRV": (
        ([0.0, 1.0, 3.0], [0.0, 2 / 3, 0.0], [0.0, 1 / 3, 1.0]),
        stats.triang(1 / 3, 0, 3),
    ),
    "pymc.MoyalRV": ((1.0, 2.0), stats.moyal(1, 2)),
    "pymc.RiceRV": ((2.0, 1.5), stats.rice(2, scale=1.5)),
    "pymc.SkewNormalRV": ((1.0, 2.0, 3.0), stats.skewnorm(3, 1, 2)),
    "pymc.SkewStudentTRV": ((2.0, 3.0, 1.0, 2.0), stats.jf_skew_t(2, 3, 1, 2)),
    "pymc.TruncatedNormalRV": ((0.5, 1.5, -1.0, 2.0), stats.truncnorm(-1, 1, 0.5, 1.5)),
    "pymc.WaldRV": ((1.5, 2.0, 0.5), stats.invgauss(0.75, 0.5, 2)),
}
TAILS = {
    (0.0, 1.0, 6.0, np.inf): stats.truncnorm(6, np.inf),
    (0.0, 1.0, -np.inf, -5.0): stats.truncnorm(-np.inf, -5),
    (0.0, 1.0, 20.0, 21.0): stats.truncnorm(20, 21),
    (0.0, 1.0, -1.0, 30.0): stats.truncnorm(-1, 30),
}
DISCRETE = {
    "pytensor.BernoulliRV": ((0.3,), stats.bernoulli(0.3)),
    "pytensor.PoissonRV": ((3.0,), stats.poisson(3)),
    "pytensor.BetaBinomialRV": ((10, 2.0, 3.0), stats.betabinom(10, 2, 3)),
    "pytensor.BinomialRV": ((10, 0.3), stats.binom(10, 0.3)),
    "pytensor.GeometricRV": ((0.3,), stats.geom(0.3)),
    "pytensor.HyperGeometricRV": ((20, 30, 15), stats.hypergeom(50, 20, 15)),
    "pytensor.IntegersRV": ((-2, 6), stats.randint(-2, 6)),
    "pytensor.NegBinomialRV": ((5.0, 0.4), stats.nbinom(5, 0.4)),
    "pymc.DiscreteUniformRV": ((-2, 5), stats.randint(-2, 6)),
}
COUNTS = [
    ("pytensor.PoissonRV", (rate,), stats.poisson(rate)) for rate in (0.0, 0.01, 9.99, 10.0, 300.0)
] + [
    ("pytensor.BinomialRV", (count, chance), stats.binom(count, chance))
    for count, chance in (
        (0, 0.5),
        (7, 0.0),
        (7, 1.0),
        (40, 0.9),
        (30, 0.5),
        (600, 0.02),
        (99, 0.8),
    )
]
OTHERS = {
    "pytensor.CategoricalRV",
    "pytensor.DirichletRV",
    "pytensor.MultinomialRV",
    "pymc.MatrixNormalRV",
}


def draws(name: str, parameters: Any, shape: tuple[int, ...] = (COUNT,), seed: int = 7) -> Any:
    kind = "int64" if name in DISCRETE else "float64"
    key = jax.random.key_data(jax.random.key(seed))
    with jax.enable_x64(True):
        sampler = samplers.SAMPLERS[name]
        sample = jax.jit(lambda key: sampler(samplers.Draw(key, shape, kind), *parameters))
        return np.asarray(sample(key))


def frequencies_agree(found: Any, chances: Any) -> bool:
    expected = np.asarray(chances) * len(found)
    counts = np.bincount(found.astype(int), minlength=len(expected))
    common = expected > 5
    assert counts[~common].sum() <= 10 + 3 * expected[~common].sum()
    counts, expected = counts[common], expected[common]
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > LIMIT


def test_every_sampler_is_tested() -> None:
    assert {*CONTINUOUS, *DISCRETE, *OTHERS} == set(samplers.SAMPLERS)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    parameters, distribution = CONTINUOUS[name]
    assert stats.kstest(draws(name, parameters), distribution.cdf).pvalue > LIMIT


@pytest.mark.parametrize("bounds", TAILS)
def test_truncated_normal_in_the_tails(bounds: Any) -> None:
    found = draws("pymc.TruncatedNormalRV", bounds)
    assert stats.kstest(found, TAILS[bounds].cdf).pvalue > LIMIT


def test_pymcs_beta_draws_neither_0_nor_1() -> None:
    found = draws("pymc.BetaClippedRV", (1e-3, 1e-3))
    assert found.min() > 0
    assert found.max() < 1
    assert np.log(found).min() > -np.inf


@pytest.mark.parametrize("kappa", [1e-3, 50.0, 1e7])
def test_von_mises_wide_and_narrow(kappa: float) -> None:
    found = draws("pytensor.VonMisesRV", (0.0, kappa))
    assert stats.kstest(found, stats.vonmises(kappa).cdf).pvalue > LIMIT


@pytest.mark.parametrize(
    ("mu", "kappa"),
    [(np.inf, 0.0), (np.nan, 0.0), (np.inf, 1e9), (-np.inf, 1e9), (1e300, 1e9), (50.0, 1e9)],
)
def test_von_mises_far_away(mu: float, kappa: float) -> None:
    found = draws("pytensor.VonMisesRV", (mu, kappa))
    expected = np.random.default_rng(3).vonmises(mu, kappa, size=COUNT)
    if kappa:  # the draws differ in the last digits
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    else:
        assert stats.ks_2samp(found, expected).pvalue > LIMIT


@pytest.mark.parametrize("mean", [2.0, 1e-300, np.inf])
def test_wald_of_an_infinite_scale(mean: float) -> None:
    found = draws("pytensor.WaldRV", (mean, np.inf))
    expected = np.random.default_rng(3).wald(mean, np.inf, size=COUNT)
    np.testing.assert_array_equal(np.unique(found), np.unique(expected))


@pytest.mark.parametrize("draw", [pt.random.invgamma, pt.random.gengamma])
def test_reciprocals_in_the_type_of_a_parameter(draw: Any) -> None:
    first, other = pt.dscalar(), pt.fscalar()
    out = draw(first, other, size=(3,), rng=pytensor.shared(np.random.default_rng(3)))
    found, expected = (
        pytensor.function([first, other], out, mode=mode)(1e20, 3.0)
        for mode in ("JAXSELECTIVE", PYTHON)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    parameters, distribution = DISCRETE[name]
    found = draws(name, parameters)
    low, high = (int(min(bound, 1000)) for bound in distribution.support())
    assert frequencies_agree(found - low, distribution.pmf(np.arange(low, high + 1)))


@pytest.mark.parametrize(("name", "parameters", "distribution"), COUNTS)
def test_counts_with_small_and_large_means(name: str, parameters: Any, distribution: Any) -> None:
    found = draws(name, parameters)
    if distribution.var() == 0:
        assert (found == distribution.mean()).all()
    else:
        low = int(distribution.ppf(1e-9))
        chances = distribution.pmf(np.arange(low, int(distribution.isf(1e-9)) + 1))
        assert frequencies_agree(found - low, chances)


MIXED = {
    "PoissonRV": ([(0.0,), (0.3,), (9.99,), (10.0,), (300.0,)], stats.poisson),
    "BinomialRV": ([(7, 0.0), (7, 1.0), (10, 0.3), (40, 0.9), (600, 0.02), (99, 0.5)], stats.binom),
}


@pytest.mark.parametrize("name", MIXED)
def test_counts_with_small_and_large_means_in_one_array(name: str) -> None:
    cases, family = MIXED[name]
    columns = [np.array(column) for column in zip(*cases, strict=True)]
    found = draws(f"pytensor.{name}", columns, (COUNT, len(cases)))
    for case, counts in zip(cases, found.T, strict=True):
        distribution = family(*case)
        if distribution.var() == 0:
            assert (counts == distribution.mean()).all()
        else:
            low = int(distribution.ppf(1e-9))
            chances = distribution.pmf(np.arange(low, int(distribution.isf(1e-9)) + 1))
            assert frequencies_agree(counts - low, chances)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 1000])
@pytest.mark.parametrize("given", [2.0, "one for each"])
def test_every_entry_has_a_draw_of_its_own(count: int, given: Any) -> None:
    """They are drawn in parts of 32, of which the last may be shorter."""
    alpha = np.linspace(1, 9, count) if given == "one for each" else given
    found = draws("pytensor.GammaRV", (alpha, 1.0), (count,))
    assert found.shape == (count,)
    assert (found > 0).all()
    assert len({*found}) == count


def test_entries_that_are_not_drawn_keep_their_place() -> None:
    alphas = np.full(100, 2.0)
    alphas[[3, 40, 99]] = np.nan, np.inf, np.nan
    found = draws("pytensor.GammaRV", (alphas, 1.0), (100,))
    assert np.isnan(found[[3, 99]]).all()
    assert np.isinf(found[40])
    assert np.isfinite(np.delete(found, [3, 40, 99])).all()


@pytest.mark.parametrize("name", ["pytensor.GammaRV", "pytensor.VonMisesRV"])
def test_draws_in_rounds_for_all_entries(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As on devices that are no CPU."""
    monkeypatch.setattr(rejection, "_in_parts", lambda count: False)
    parameters, distribution = CONTINUOUS[name]
    assert stats.kstest(draws(name, parameters), distribution.cdf).pvalue > LIMIT


@pytest.mark.parametrize("rate", [1e6, 1e12])
def test_large_counts_are_nearly_normal(rate: float) -> None:
    for name, parameters, scale in (
        ("pytensor.PoissonRV", (rate,), rate**0.5),
        ("pytensor.BinomialRV", (2 * rate, 0.5), (rate / 2) ** 0.5),
    ):
        found = (draws(name, parameters) - rate) / scale
        assert stats.kstest(found, stats.norm.cdf).pvalue > LIMIT


@pytest.mark.parametrize("alpha", [0.03, 1.0, 1e4])
def test_gamma_with_small_and_large_concentrations(alpha: float) -> None:
    distribution = stats.gamma(alpha)
    for given in (alpha, jnp.float32(alpha).astype("float64")):  # known while JAX traces, or not
        found = distribution.cdf(draws("pytensor.GammaRV", (given, 1.0)))
        assert stats.kstest(found, stats.uniform.cdf).pvalue > LIMIT


def test_gammas_with_small_and_large_concentrations_in_one_array() -> None:
    alphas = np.array([0.0, 0.03, 0.3, 0.99, 1.0, 5.0, 1e4])
    found = draws("pytensor.GammaRV", (alphas, 2.0), (COUNT, len(alphas)))
    assert (found[:, 0] == 0).all()
    for alpha, drawn in zip(alphas[1:], found.T[1:], strict=True):
        shares = stats.gamma(alpha, scale=2.0).cdf(drawn)
        assert stats.kstest(shares, stats.uniform.cdf).pvalue > LIMIT


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.5, 0.5), (1e-2, 3.0), (3.0, 0.1), (1.0, 1.0), (1e5, 2e5)]
)
def test_beta_with_small_and_large_concentrations(alpha: float, beta: float) -> None:
    distribution = stats.beta(alpha, beta)
    rest = distribution.sf(1 - 2**-53)  # what is drawn as 1
    for given in (alpha, np.full(COUNT, alpha)):
        found = draws("pytensor.BetaRV", (given, beta))
        assert abs((found == 1).mean() - rest) < 0.02
        shares = distribution.cdf(found[found < 1])
        assert stats.kstest(shares, stats.uniform(0, 1 - rest).cdf).pvalue > LIMIT


def test_beta_with_tiny_concentrations() -> None:
    found = draws("pytensor.BetaRV", (1e-3, 2e-3))
    assert np.isfinite(found).all()
    assert abs((found > 0.5).mean() - 1 / 3) < 0.02


def test_dirichlet() -> None:
    alpha = np.array([0.5, 1.0, 3.0])
    found = draws("pytensor.DirichletRV", (alpha,))
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)
    for column, each in enumerate(alpha):
        distribution = stats.beta(each, alpha.sum() - each)
        assert stats.kstest(found[:, column], distribution.cdf).pvalue > LIMIT


@pytest.mark.parametrize("name", ["GammaRV", "PoissonRV", "BinomialRV", "VonMisesRV", "BetaRV"])
@pytest.mark.parametrize("value", [np.nan, -1.0, np.inf, -np.inf])
def test_every_loop_ends(name: str, value: float) -> None:
    count = {"PoissonRV": 1}.get(name, 2)
    draws(f"pytensor.{name}", (value,) * count, (3,))


HYPERGEOMETRIC = [
    (5, 7, 9), (0, 20, 15), (20, 0, 15), (20, 30, 0), (20, 30, 50), (11, 500, 11), (500, 11, 499),
    (10**8, 3, 10**7), (400, 500, 880), (3 * 10**8, 5 * 10**8, 4 * 10**8), (10**8, 10**8, 12),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int64"])
def test_hypergeometric_of_narrow_integers(dtype: str) -> None:
    """In `int8` the sum of 100 and 100 is negative, and so is the largest population."""
    counts = (1, 1, 1) if dtype == "bool" else (100, 100, 90)
    given = [pt.scalar(dtype=dtype) for _ in counts]
    rng = pytensor.shared(np.random.default_rng(3))
    outputs = [
        pt.random.hypergeometric(*parameters, size=(2000,), rng=rng)
        for parameters in (given, [np.asarray(count, dtype) for count in counts])
    ]
    f = pytensor.function(given, outputs, mode="JAXSELECTIVE")
    drawn = f(*(np.asarray(count, dtype) for count in counts))
    assert f.stats.fallbacks == 0
    for found in map(np.asarray, drawn):
        np.testing.assert_allclose(found.mean(), counts[2] / 2, rtol=0.1)


def test_hypergeometric_without_64_bit_types() -> None:
    """In 32 bits the logarithm of a large chance has no digits after the point."""
    counts = (10**8, 10**8, 50)
    with jax.enable_x64(False):
        key = jnp.asarray([3, 4], "uint32")
        found = jax.jit(lambda key: rejection.hypergeometric(key, (COUNT,), *counts))(key)
    chances = stats.hypergeom(2 * 10**8, 10**8, 50).pmf(np.arange(51))
    assert frequencies_agree(np.asarray(found, int), chances)


def test_hypergeometric_in_one_array() -> None:
    """From a few on the time does not depend on how many are drawn."""
    columns = [np.array(column) for column in zip(*HYPERGEOMETRIC, strict=True)]
    found = draws("pytensor.HyperGeometricRV", columns, (COUNT, len(HYPERGEOMETRIC)))
    for (good, bad, drawn), counts in zip(HYPERGEOMETRIC, found.T, strict=True):
        distribution = stats.hypergeom(good + bad, good, drawn)
        least, most = max(drawn - bad, 0), min(drawn, good)
        assert ((counts >= least) & (counts <= most)).all()
        if most - least > 10_000:
            theirs = np.random.default_rng(3).hypergeometric(good, bad, drawn, size=COUNT)
            assert stats.ks_2samp(counts, theirs).pvalue > LIMIT
        elif most > least:
            assert frequencies_agree(counts - least, distribution.pmf(np.arange(least, most + 1)))


def test_categorical() -> None:
    chances = np.array([0.2, 0.3, 0.0, 0.5])
    assert frequencies_agree(draws("pytensor.CategoricalRV", (chances,)), chances)


def test_categorical_that_does_not_sum_to_one() -> None:
    found = draws("pytensor.CategoricalRV", (np.array([0.2, 0.3]),))
    assert frequencies_agree(found, [0.2, 0.3, 0.5])  # as PyTensor draws


@pytest.mark.parametrize("chances", [None, np.array([0.5, 0.3, 0.2, 0.0])])
def test_choice_without_replacement(chances: Any) -> None:
    p = None if chances is None else np.broadcast_to(chances, (COUNT // 4, 4))
    op = ChoiceWithoutReplacement(
        signature="(a),(1)->(s)" if p is None else "(a),(a),(1)->(s)", dtype="int64"
    )
    batch = np.broadcast_to(np.arange(4), (COUNT // 4, 4))
    given = (batch, np.array([2])) if p is None else (batch, p, np.array([2]))
    rng = pytensor.shared(np.random.default_rng(3))
    out = op.make_node(rng, None, *given).outputs[1]
    found = pytensor.function([], out, mode="JAXSELECTIVE")()
    weights = np.full(4, 0.25) if chances is None else chances
    pairs = weights[:, None] * weights / (1 - weights[:, None]) * (1 - np.eye(4))
    assert found.shape == (COUNT // 4, 2)
    assert frequencies_agree(found[:, 0] * 4 + found[:, 1], pairs.ravel())


def test_multinomial_that_does_not_sum_to_one() -> None:
    found = draws("pytensor.MultinomialRV", (np.array(5), np.array([0.2, 0.2])))
    assert frequencies_agree(found[:, 0], stats.binom(5, 0.2).pmf(np.arange(6)))


def test_multinomial() -> None:
    chances = np.array([0.2, 0.3, 0.0, 0.5])
    found = draws("pytensor.MultinomialRV", (np.array([5, 50]), chances), (COUNT, 2))
    assert (found.sum(-1) == [5, 50]).all()
    assert (found[..., 2] == 0).all()
    for column in (0, 1, 3):
        counts = found[:, 1, column]
        assert frequencies_agree(counts, stats.binom(50, chances[column]).pmf(np.arange(51)))


def test_matrix_normal() -> None:
    rows, columns = np.array([[1.0, 0.0], [0.5, 2.0]]), np.array([[1.0, 0.0], [-0.3, 0.7]])
    found = draws("pymc.MatrixNormalRV", (np.ones((2, 2)), rows, columns))
    covariance = np.kron(rows @ rows.T, columns @ columns.T)
    np.testing.assert_allclose(found.mean(0), 1.0, atol=0.1)
    np.testing.assert_allclose(np.cov(found.reshape(COUNT, 4).T), covariance, atol=0.15)


BAD = {
    "normal": (lambda rng: pt.random.normal(0, pt.dscalar("s"), size=(3,), rng=rng), -1.0),
    "gamma": (lambda rng: pt.random.gamma(pt.dscalar("s"), scale=1.0, rng=rng), -1.0),
    "beta": (lambda rng: pt.random.beta(pt.dscalar("s"), 1.0, rng=rng), 0.0),
    "poisson": (lambda rng: pt.random.poisson(pt.dscalar("s"), rng=rng), -1.0),
    "binomial": (lambda rng: pt.random.binomial(3, pt.dscalar("s"), rng=rng), 1.5),
    "weibull": (lambda rng: pt.random.weibull(pt.dscalar("s"), rng=rng), -1.0),
    "exponential": (lambda rng: pt.random.exponential(pt.dscalar("s"), rng=rng), -1.0),
    "triangular": (lambda rng: pt.random.triangular(pt.dscalar("s"), 1.0, 2.0, rng=rng), 3.0),
    "vonmises": (lambda rng: pt.random.vonmises(0.0, pt.dscalar("s"), rng=rng), -1.0),
}


@pytest.mark.parametrize("name", BAD)
def test_parameters_out_of_the_domain_raise_what_numpy_raises(name: str) -> None:
    graph, value = BAD[name]
    out = graph(pytensor.shared(np.random.default_rng(3)))
    [parameter] = explicit_graph_inputs([out])
    f, reference = (
        pytensor.function([parameter], out, mode=mode) for mode in ("JAXSELECTIVE", PYTHON)
    )
    with pytest.raises(ValueError) as expected:  # noqa: PT011 -- the text is compared below
        reference(value)
    with pytest.raises(ValueError) as found:  # noqa: PT011
        f(value)
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]
    assert np.isfinite(f(0.5)).all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "int8", "float32"])
def test_truncexpon_as_scipy_negates_its_shape(dtype: str) -> None:
    shape, rng = pt.scalar("shape", dtype=dtype), pytensor.shared(np.random.default_rng(3))
    out = pt.random.truncexpon(shape, size=(5,), rng=rng)
    found, expected = (
        outcome(pytensor.function([shape], out, mode=mode), np.ones((), dtype))
        for mode in ("JAXSELECTIVE", PYTHON)
    )
    if dtype == "bool":
        assert found is expected is TypeError
    else:
        assert ((found < 0) == (expected < 0)).all()  # wrong where the shape is unsigned


@pytest.mark.parametrize("size", [None, (), (2,)])
def test_invgamma_divides_a_number_of_pythons(size: Any) -> None:
    given, rng = [pt.dscalar(), pt.dscalar()], pytensor.shared(np.random.default_rng(3))
    out = pt.random.invgamma(*given, size=size, rng=rng)
    f, reference = (pytensor.function(given, out, mode=mode) for mode in ("JAXSELECTIVE", PYTHON))
    for parameters in ((0.0, 1.0), (1.0, np.inf), (1.0, 0.0), (2.0, 3.0)):
        found, expected = outcome(f, *parameters), outcome(reference, *parameters)
        if isinstance(expected, type):
            assert found is expected
        else:
            assert (np.isinf(found) == np.isinf(expected)).all()
            assert ((found == 0) == (expected == 0)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint64", "uint8", "bool"])
def test_counts_of_any_type(dtype: str) -> None:
    count, rng = pt.vector("count", dtype=dtype), pytensor.shared(np.random.default_rng(3))
    out = pt.random.betabinom(count, 2.0, 3.0, rng=rng)
    both = [pytensor.function([count], out, mode=mode) for mode in ("JAXSELECTIVE", PYTHON)]
    for value in (2.0, 0.0, 2.5, 1e10, 1e18, 2.0**63, 1e30, -1.0, np.inf, np.nan):
        kinds = set()
        with np.errstate(all="ignore"):
            given = np.array([1, value]).astype(dtype)
            for draw in both:
                drawn = outcome(draw, given)
                kinds.add(drawn if isinstance(drawn, type) else (drawn.dtype, drawn.shape))
                assert isinstance(drawn, type) or ((drawn >= 0) & (drawn <= given)).all()
        assert len(kinds) == 1, given


def test_constant_parameters_cost_no_condition() -> None:
    rng = pytensor.shared(np.random.default_rng(3))
    plain, scale = pt.random.normal(0, 1, size=(3,), rng=rng), pt.dscalar("scale")
    f = pytensor.function([], plain, mode="JAXSELECTIVE")
    g = pytensor.function(
        [scale], pt.random.normal(0, scale, size=(3,), rng=rng), mode="JAXSELECTIVE"
    )
    key = np.zeros(2, "uint32")
    for function, arguments, count in ((f, (key,), 0), (g, (jnp.asarray(1.0), key), 1)):
        [region] = function.vm.compiled.lowered.functions
        _, conditions = region((), *arguments)
        assert len(conditions) == count


def test_a_bad_constant_raises() -> None:
    rng = pytensor.shared(np.random.default_rng(3))
    f = pytensor.function([], pt.random.normal(0, -1, rng=rng), mode="JAXSELECTIVE")
    with pytest.raises(ValueError, match="scale < 0"):
        f()


def test_a_covariance_without_a_factor() -> None:
    cov = pt.dmatrix("cov")
    out = pt.random.multivariate_normal(
        np.zeros(2), cov, method="cholesky", rng=pytensor.shared(np.random.default_rng(3))
    )
    f = pytensor.function([cov], out, mode="JAXSELECTIVE")
    assert np.isfinite(f(np.eye(2))).all()
    with pytest.raises(np.linalg.LinAlgError):
        f(-np.eye(2))


def test_a_concrete_key_draws_without_a_warning() -> None:
    rng = pytensor.shared(np.random.default_rng(1))
    f = pytensor.function([], pt.random.normal(size=3, rng=rng), mode="JAXSELECTIVE")
    key = jax.random.key_data(jax.random.key(1)).astype("uint32") | np.uint32(0xFFFFFFF0)
    [draw] = f.jax_fn(np.asarray(key))
    assert draw.shape == (3,)
    [drawn] = f.jax_fn(np.random.default_rng(1))
    assert drawn.shape == (3,)


class DiscreteUniformRV(RandomVariable):
    """As PyMC defines it."""

    __module__ = "pymc.distributions.discrete"
    name, signature, dtype = "discrete_uniform", "(),()->()", "int64"

    @classmethod
    def rng_fn(cls, rng: Any, low: Any, high: Any, size: Any = None) -> Any:
        return stats.randint.rvs(low, high + 1, size=size, random_state=rng)


@pytest.mark.parametrize(
    "bounds",
    [
        (0, np.inf),
        (-np.inf, 1),
        (0, 1e19),
        (0, 1e300),
        (3, 2),
        (0, np.nan),
        (2, 2),
        (-(2.0**62), 5),
    ],
)
def test_bounds_that_pymc_refuses(bounds: Any) -> None:
    low, high = pt.dscalars("low", "high")
    rng = pytensor.shared(np.random.default_rng(3))
    drawn = DiscreteUniformRV().make_node(rng, (4,), low, high).outputs[1]
    f, reference = (
        pytensor.function([low, high], drawn, mode=mode) for mode in ("JAXSELECTIVE", PYTHON)
    )
    try:
        reference(*bounds)
    except Exception as expected:
        with pytest.raises(type(expected)):
            f(*bounds)
    else:
        assert (f(*bounds) >= bounds[0]).all()
        assert (f(*bounds) <= bounds[1]).all()
