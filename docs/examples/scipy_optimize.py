"""Maximum likelihood by `scipy.optimize.minimize`, with the value and the gradient from PyTensor.

Two ways: `pytensor.function` under mode "JAXSELECTIVE" gives both as arrays; `jaxify` gives a JAX
function, from which `jax.value_and_grad` makes both.  They find the same maximum.

Needs SciPy, which PyTensor needs anyway.
"""

from __future__ import annotations

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.optimize import minimize

from pytensor_jaxlink import jaxify

TRUE_SHAPE, TRUE_SCALE = 2.5, 0.8


def negative_log_likelihood(theta, data):
    """Of a gamma distribution; theta holds the logarithms of its shape and scale."""
    shape, scale = pt.exp(theta[0]), pt.exp(theta[1])
    logp = (shape - 1) * pt.log(data) - data / scale - pt.gammaln(shape) - shape * theta[1]
    return -logp.mean()


def main() -> None:
    """Fit both ways and compare with what the data were made from."""
    rng = np.random.default_rng(1)
    observed = rng.gamma(TRUE_SHAPE, TRUE_SCALE, size=20_000)
    theta, data = pt.dvector("theta"), pt.dvector("data")
    cost = negative_log_likelihood(theta, data)

    f = pytensor.function([theta, data], [cost, pytensor.grad(cost, theta)], mode="JAXSELECTIVE")
    by_function = minimize(lambda t: tuple(map(np.asarray, f(t, observed))), np.zeros(2), jac=True)

    value_and_gradient = jax.jit(jax.value_and_grad(jaxify([theta, data], cost)))
    by_jaxify = minimize(
        lambda t: tuple(map(np.asarray, value_and_gradient(t, observed))), np.zeros(2), jac=True
    )

    shape, scale = np.exp(by_function.x)
    print(f"shape {shape:.3f} (true {TRUE_SHAPE}), scale {scale:.3f} (true {TRUE_SCALE})")
    print(f"{by_function.nfev} evaluations, {f.stats.compilations} compilations")
    assert by_function.success
    assert by_jaxify.success
    np.testing.assert_allclose(by_function.x, by_jaxify.x, rtol=1e-6)
    np.testing.assert_allclose([shape, scale], [TRUE_SHAPE, TRUE_SCALE], rtol=0.05)


if __name__ == "__main__":
    main()
