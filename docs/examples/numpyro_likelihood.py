"""A PyTensor likelihood inside a numpyro model.

The likelihood of an autoregressive series is a PyTensor graph with a loop; `jaxify` makes a JAX
function of it, and `numpyro.factor` adds it to the model.  numpyro's NUTS takes its gradient.

Needs numpyro.
"""

from __future__ import annotations

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytensor
import pytensor.tensor as pt
from numpyro.infer import MCMC, NUTS

from pytensor_jaxlink import jaxify

RHO, SIGMA = 0.7, 0.5


def log_likelihood(rho, sigma, series):
    """Of an AR(1) process, one term a step."""
    terms = pytensor.scan(
        lambda now, before, rho, sigma: -0.5 * ((now - rho * before) / sigma) ** 2 - pt.log(sigma),
        sequences=[series[1:], series[:-1]],
        non_sequences=[rho, sigma],
        return_updates=False,
    )
    return terms.sum()


def main() -> None:
    """Sample the coefficient and the noise of a series."""
    rng = np.random.default_rng(3)
    series = np.zeros(400)
    for k in range(1, 400):
        series[k] = RHO * series[k - 1] + SIGMA * rng.normal()

    rho, sigma = pt.dscalar("rho"), pt.dscalar("sigma")
    likelihood = jaxify([rho, sigma], log_likelihood(rho, sigma, pt.as_tensor(series)))

    def model():
        rho = numpyro.sample("rho", dist.Normal(0.0, 1.0))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        numpyro.factor("series", likelihood(rho, sigma))

    sampler = MCMC(NUTS(model), num_warmup=300, num_samples=500, progress_bar=False)
    sampler.run(jax.random.key(0))
    least_squares = (series[1:] @ series[:-1]) / (series[:-1] @ series[:-1])
    deviation = np.std(series[1:] - least_squares * series[:-1])
    estimates = {"rho": (least_squares, RHO), "sigma": (deviation, SIGMA)}
    for name, (estimate, true) in estimates.items():
        draws = sampler.get_samples()[name]
        mean, spread = float(draws.mean()), float(draws.std())
        print(f"{name:5} {mean:.3f} +- {spread:.3f} (least squares {estimate:.3f}, true {true})")
        assert abs(mean - estimate) < spread / 2
        assert abs(mean - true) < 4 * spread


if __name__ == "__main__":
    main()
