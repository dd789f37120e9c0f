"""Twenty-four models as PyMC users write them, all of which PyTensor's mode "JAX" runs.

Importing this module needs PyMC.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt

Build = Callable[[np.random.Generator], None]
"""Declares the variables of the model that is entered."""

MODELS: dict[str, Build] = {}


def _model(name: str) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        MODELS[name] = build
        return build

    return add


def pymc_model(name: str) -> pm.Model:
    """The model of a name, with data of its own seed."""
    with pm.Model() as model:
        MODELS[name](np.random.default_rng(list(MODELS).index(name)))
    return model


# -- regressions ---------------------------------------------------------------------------------


@_model("linear regression")
def _linear(rng: np.random.Generator) -> None:
    x = rng.normal(size=(200, 4))
    slopes = pm.Normal("slopes", 0, 2, shape=4)
    level, sigma = pm.Normal("level", 0, 5), pm.HalfNormal("sigma", 2)
    y = 1 + x @ rng.normal(size=4) + rng.normal(size=200)
    pm.Normal("y", level + x @ slopes, sigma, observed=y)


@_model("robust regression")
def _robust(rng: np.random.Generator) -> None:
    x = rng.normal(size=300)
    level, slope, sigma = pm.Normal("level"), pm.Normal("slope"), pm.HalfCauchy("sigma", 1)
    nu = pm.Gamma("nu", 2, 0.1)
    seen = x + rng.standard_t(3, size=300)
    pm.StudentT("y", nu=nu, mu=level + slope * x, sigma=sigma, observed=seen)


@_model("logistic, categories")
def _logistic(rng: np.random.Generator) -> None:
    category, x = rng.integers(6, size=500), rng.normal(size=500)
    effect, slope = pm.Normal("effect", 0, 1.5, shape=6), pm.Normal("slope")
    seen = rng.integers(2, size=500)
    pm.Bernoulli("y", logit_p=effect[category] + slope * x, observed=seen)


@_model("negative binomial regression")
def _negative_binomial(rng: np.random.Generator) -> None:
    x = rng.normal(size=(250, 3))
    slopes, level = pm.Normal("slopes", 0, 1, shape=3), pm.Normal("level")
    alpha = pm.Exponential("alpha", 0.5)
    seen = rng.negative_binomial(3, 0.4, size=250)
    pm.NegativeBinomial("y", mu=pt.exp(level + x @ slopes), alpha=alpha, observed=seen)


@_model("zero-inflated Poisson")
def _zero_inflated(rng: np.random.Generator) -> None:
    x = rng.normal(size=200)
    share, level, slope = pm.Beta("share", 1, 1), pm.Normal("level"), pm.Normal("slope")
    seen = rng.poisson(2.0, size=200) * rng.integers(2, size=200)
    pm.ZeroInflatedPoisson("y", share, pt.exp(level + slope * x), observed=seen)


@_model("ordered logistic")
def _ordered(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 2))
    slopes = pm.Normal("slopes", 0, 1, shape=2)
    ordered = pm.distributions.transforms.ordered
    cuts = pm.Normal("cuts", 0, 2, shape=4, transform=ordered, initval=np.array([-2, -1, 1, 2.0]))
    pm.OrderedLogistic("y", cutpoints=cuts, eta=x @ slopes, observed=rng.integers(5, size=300))


@_model("multinomial logistic")
def _multinomial(rng: np.random.Generator) -> None:
    x = rng.normal(size=(150, 4))
    slopes, level = pm.Normal("slopes", 0, 2, shape=(4, 3)), pm.Normal("level", 0, 2, shape=3)
    share = pm.math.softmax(level + x @ slopes, axis=-1)
    pm.Categorical("y", p=share, observed=rng.integers(3, size=150))


@_model("horseshoe")
def _horseshoe(rng: np.random.Generator) -> None:
    x = rng.normal(size=(100, 30))
    overall, sigma = pm.HalfCauchy("overall", 0.1), pm.HalfNormal("sigma", 1)
    local, raw = pm.HalfCauchy("local", 1, shape=30), pm.Normal("raw", 0, 1, shape=30)
    pm.Normal("y", x @ (raw * local * overall), sigma, observed=x[:, 0] + rng.normal(size=100))


@_model("splines by hand")
def _splines(rng: np.random.Generator) -> None:
    x, knots = np.sort(rng.uniform(size=200)), np.linspace(0, 1, 12)
    basis = np.maximum(0, x[:, None] - knots) ** 3
    step, sigma = pm.HalfNormal("step", 1), pm.HalfNormal("sigma", 1)
    weights = pm.Normal("weights", 0, step, shape=12)
    pm.Normal("y", basis @ weights, sigma, observed=np.sin(6 * x) + 0.2 * rng.normal(size=200))


@_model("neural network")
def _network(rng: np.random.Generator) -> None:
    x = rng.normal(size=(200, 2))
    first = pm.Normal("first", 0, 1, shape=(2, 8), initval=rng.normal(size=(2, 8)))
    second = pm.Normal("second", 0, 1, shape=(8, 8), initval=rng.normal(size=(8, 8)))
    last = pm.Normal("last", 0, 1, shape=8, initval=rng.normal(size=8))
    hidden = pt.tanh(pt.tanh(x @ first) @ second)
    seen = (x[:, 0] * x[:, 1] > 0).astype("int64")
    pm.Bernoulli("y", p=pm.math.sigmoid(hidden @ last), observed=seen)


# -- groups --------------------------------------------------------------------------------------


@_model("eight schools")
def _schools(rng: np.random.Generator) -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    raw = pm.Normal("raw", 0, 1, shape=8)
    sigma = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    pm.Normal("y", mu + tau * raw, sigma, observed=np.array([28.0, 8, -3, 7, -1, 1, 18, 12]))


@_model("radon")
def _radon(rng: np.random.Generator) -> None:
    county, floor = rng.integers(85, size=919), rng.integers(2, size=919)
    mu, tau = pm.Normal("mu", 0, 10), pm.HalfNormal("tau", 1)
    levels = pm.Normal("levels", mu, tau, shape=85)
    slope, sigma = pm.Normal("slope", 0, 10), pm.Exponential("sigma", 1)
    mean = levels[county] + slope * floor
    pm.Normal("y", mean, sigma, observed=1.3 - 0.6 * floor + rng.normal(size=919))


@_model("correlated slopes")
def _correlated(rng: np.random.Generator) -> None:
    group, x = rng.integers(20, size=400), rng.normal(size=400)
    factor, _, _ = pm.LKJCholeskyCov("factor", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    centre = pm.Normal("centre", 0, 5, shape=2)
    raw = pm.Normal("raw", 0, 1, shape=(20, 2))
    effects = centre + raw @ factor.T
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", effects[group, 0] + effects[group, 1] * x, sigma, observed=rng.normal(size=400))


@_model("hierarchical binomial")
def _binomial(rng: np.random.Generator) -> None:
    mean, concentration = pm.Beta("mean", 2, 2), pm.Gamma("concentration", 2, 0.1)
    share = pm.Beta("share", mean * concentration, (1 - mean) * concentration, shape=30)
    trials = rng.integers(5, 50, size=30)
    pm.Binomial("y", n=trials, p=share, observed=rng.binomial(trials, 0.3))


@_model("effects that sum to zero")
def _zero_sum(rng: np.random.Generator) -> None:
    one, two = rng.integers(10, size=300), rng.integers(4, size=300)
    scale, sigma = pm.HalfNormal("scale", 1), pm.HalfNormal("sigma", 1)
    first = pm.ZeroSumNormal("first", scale, shape=10)
    second = pm.ZeroSumNormal("second", scale, shape=4)
    pm.Normal("y", first[one] + second[two], sigma, observed=rng.normal(size=300))


# -- mixtures and shares -------------------------------------------------------------------------


@_model("mixture of normals")
def _mixture(rng: np.random.Generator) -> None:
    weights = pm.Dirichlet("weights", np.ones(3))
    means = pm.Normal("means", 0, 3, shape=3, initval=np.array([-2.0, 0, 2]))
    sigmas = pm.HalfNormal("sigmas", 1, shape=3)
    pm.NormalMixture("y", weights, means, sigmas, observed=rng.normal(size=400))


@_model("Dirichlet-multinomial")
def _dirichlet_multinomial(rng: np.random.Generator) -> None:
    share = pm.Dirichlet("share", np.ones(5))
    concentration = pm.LogNormal("concentration", 1, 1)
    counts = rng.multinomial(50, np.ones(5) / 5, size=20)
    pm.DirichletMultinomial("y", n=50, a=share * concentration, shape=(20, 5), observed=counts)


# -- time and space ------------------------------------------------------------------------------


@_model("stochastic volatility")
def _volatility(rng: np.random.Generator) -> None:
    step, nu = pm.Exponential("step", 10), pm.Exponential("nu", 0.1)
    start = pm.Normal.dist(0, 10)
    path = pm.GaussianRandomWalk("path", sigma=step, shape=500, init_dist=start)
    pm.StudentT("y", nu=nu, lam=pt.exp(-2 * path), observed=0.05 * rng.standard_t(4, size=500))


@_model("random walk")
def _walk(rng: np.random.Generator) -> None:
    step, sigma = pm.HalfNormal("step", 1), pm.HalfNormal("sigma", 1)
    start = pm.Normal.dist(0, 1)
    path = pm.GaussianRandomWalk("path", 0, step, init_dist=start, shape=150)
    pm.Normal("y", path, sigma, observed=rng.normal(size=150).cumsum())


@_model("autoregression")
def _autoregression(rng: np.random.Generator) -> None:
    rho, sigma = pm.Normal("rho", 0, 0.5, shape=3), pm.HalfNormal("sigma", 1)
    start = pm.Normal.dist(0, 10)
    pm.AR("y", rho, sigma, constant=True, init_dist=start, observed=rng.normal(size=300))


@_model("change point")
def _change(rng: np.random.Generator) -> None:
    years = np.arange(111)
    change = pm.DiscreteUniform("change", 0, 110, initval=40)
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    rate = pm.math.switch(change >= years, early, late)
    pm.Poisson("y", rate, observed=rng.poisson(np.where(years < 40, 3.0, 1.0)))


@_model("Gaussian process")
def _gaussian_process(rng: np.random.Generator) -> None:
    x = np.sort(rng.uniform(0, 10, size=60))
    length, height = pm.Gamma("length", 2, 1), pm.HalfNormal("height", 2)
    sigma = pm.HalfNormal("sigma", 1)
    process = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.Matern52(1, ls=length))
    process.marginal_likelihood("y", X=x[:, None], y=np.sin(x), sigma=sigma)


# -- partly seen ---------------------------------------------------------------------------------


@_model("censored survival")
def _censored(rng: np.random.Generator) -> None:
    x = rng.normal(size=250)
    level, slope, alpha = pm.Normal("level"), pm.Normal("slope"), pm.HalfNormal("alpha", 2)
    time = pm.Weibull.dist(alpha, pt.exp(level + slope * x))
    seen = np.minimum(rng.weibull(1.5, size=250), 1.2)
    pm.Censored("y", time, lower=None, upper=1.2, observed=seen)


@_model("truncated normal")
def _truncated(rng: np.random.Generator) -> None:
    mu, sigma = pm.Normal("mu", 0, 3), pm.HalfNormal("sigma", 2)
    seen = np.abs(rng.normal(size=300))
    pm.Truncated("y", pm.Normal.dist(mu, sigma), lower=0.0, upper=None, observed=seen)
