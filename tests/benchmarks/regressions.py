"""Workloads with one likelihood term for each observation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
from jax.scipy.special import gammaln, logsumexp

from tests.benchmarks.workload import Workload, value_and_gradient


def logistic_regression(rows: int = 20_000, columns: int = 10) -> Workload:
    """Labels given a design matrix, with a normal prior."""
    rng = np.random.default_rng(1)
    design = rng.normal(size=(rows, columns))
    labels = (rng.uniform(size=rows) < 0.4).astype("float64")
    beta, x, y = pt.dvector("beta"), pt.dmatrix("x"), pt.dvector("y")
    logits = x @ beta
    logp = (y * logits - pt.softplus(logits)).sum() - 0.5 * (beta**2).sum()

    def by_hand(beta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        logits = x @ beta
        return (y * logits - jax.nn.softplus(logits)).sum() - 0.5 * (beta**2).sum()

    values = {beta: 0.1 * rng.normal(size=columns), x: design, y: labels}
    return value_and_gradient("logistic regression", values, logp, by_hand)


def hierarchical_normal(groups: int = 50, rows: int = 2_000) -> Workload:
    """Varying intercepts, not centred."""
    rng = np.random.default_rng(2)
    member = rng.integers(groups, size=rows)
    raw, mu, log_tau, log_sigma = pt.dvector("raw"), *pt.dscalars("mu", "log_tau", "log_sigma")
    group, y = pt.lvector("group"), pt.dvector("y")
    intercepts = mu + pt.exp(log_tau) * raw
    residual = (y - intercepts[group]) / pt.exp(log_sigma)
    logp = (
        (-0.5 * residual**2 - log_sigma).sum()
        - 0.5 * (raw**2).sum()
        - 0.5 * (mu / 10) ** 2
        + (log_tau - pt.exp(log_tau))
        + (log_sigma - pt.exp(log_sigma))
    )

    def by_hand(
        raw: jax.Array,
        mu: jax.Array,
        log_tau: jax.Array,
        log_sigma: jax.Array,
        group: jax.Array,
        y: jax.Array,
    ) -> jax.Array:
        intercepts = mu + jnp.exp(log_tau) * raw
        residual = (y - intercepts[group]) / jnp.exp(log_sigma)
        return (
            (-0.5 * residual**2 - log_sigma).sum()
            - 0.5 * (raw**2).sum()
            - 0.5 * (mu / 10) ** 2
            + (log_tau - jnp.exp(log_tau))
            + (log_sigma - jnp.exp(log_sigma))
        )

    values = {
        raw: rng.normal(size=groups),
        mu: np.array(0.3),
        log_tau: np.array(-0.2),
        log_sigma: np.array(0.1),
        group: member,
        y: rng.normal(size=rows) + member / groups,
    }
    return value_and_gradient("hierarchical normal", values, logp, by_hand, parameters=4)


def mixture(components: int = 3, rows: int = 5_000) -> Workload:
    """Normals, summed out."""
    rng = np.random.default_rng(3)
    weights, means, log_sigmas = pt.dvectors("weights", "means", "log_sigmas")
    y = pt.dvector("y")
    standard = (y[:, None] - means) / pt.exp(log_sigmas)
    terms = pt.special.log_softmax(weights) - 0.5 * standard**2 - log_sigmas
    logp = pt.logsumexp(terms, axis=1).sum()

    def by_hand(
        weights: jax.Array, means: jax.Array, log_sigmas: jax.Array, y: jax.Array
    ) -> jax.Array:
        standard = (y[:, None] - means) / jnp.exp(log_sigmas)
        terms = jax.nn.log_softmax(weights) - 0.5 * standard**2 - log_sigmas
        return logsumexp(terms, axis=1).sum()

    values = {
        weights: rng.normal(size=components),
        means: np.linspace(-2, 2, components),
        log_sigmas: 0.1 * rng.normal(size=components),
        y: rng.normal(size=rows) + rng.choice([-2.0, 0.0, 2.0], size=rows),
    }
    return value_and_gradient("mixture", values, logp, by_hand, parameters=3)


def negative_binomial(rows: int = 5_000, columns: int = 4) -> Workload:
    """Counts with a logarithmic link and an unknown overdispersion."""
    rng = np.random.default_rng(4)
    beta, log_alpha = pt.dvector("beta"), pt.dscalar("log_alpha")
    x, y = pt.dmatrix("x"), pt.dvector("y")
    alpha, mu = pt.exp(log_alpha), pt.exp(x @ beta)
    logp = (
        pt.gammaln(y + alpha)
        - pt.gammaln(alpha)
        - pt.gammaln(y + 1)
        + alpha * pt.log(alpha / (alpha + mu))
        + y * pt.log(mu / (alpha + mu))
    ).sum()

    def by_hand(beta: jax.Array, log_alpha: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        alpha, mu = jnp.exp(log_alpha), jnp.exp(x @ beta)
        return (
            gammaln(y + alpha)
            - gammaln(alpha)
            - gammaln(y + 1)
            + alpha * jnp.log(alpha / (alpha + mu))
            + y * jnp.log(mu / (alpha + mu))
        ).sum()

    values = {
        beta: 0.2 * rng.normal(size=columns),
        log_alpha: np.array(0.5),
        x: rng.normal(size=(rows, columns)),
        y: rng.poisson(2.0, size=rows).astype("float64"),
    }
    return value_and_gradient("negative binomial", values, logp, by_hand, parameters=2)
