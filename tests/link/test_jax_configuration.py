"""What JAX is configured to refuse to its user, or to check for him, changes no result of ours."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scan.utils import until

from pytensor_jaxlink import jaxify
from pytensor_jaxlink.compat import ifelse
from tests.helpers import PYTHON, as_list, black_box, sort_down

X, G, N = pt.dvector("x"), pt.lvector("i"), pt.lscalar("n")
GRAPHS: dict[str, Any] = {
    "mixed": [X * G + N, (X > 0.4) * X[:, None]],
    "mask": [X[X > 0.4].sum() / N, G[X > 0.4]],
    "branch": ifelse(N > 3, X / 3, X * 2),
    "loop": pytensor.scan(
        lambda state: (state * 1.3 + 1, until(state > 50)),
        outputs_info=[X[0]],
        n_steps=100,
        return_updates=False,
    ),
    "host step": black_box(sort_down)(X / N) * G,
    "solution": pt.linalg.solve(pt.outer(X, X) + pt.eye(X.shape[0]), X),
}
CONFIGURED = {
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_debug_nans": True,
    "jax_disable_jit": True,
    "jax_enable_checks": True,
    "jax_check_tracer_leaks": True,
    "jax_debug_key_reuse": True,
    "jax_enable_custom_prng": True,
    "jax_default_prng_impl": "rbg",
    "jax_legacy_prng_key": "error",
}


CALLS = [(np.arange(1.0, k + 1) / 7, np.arange(k), k - 3) for k in (5, 5, 7, 8)]


@cache
def _expected(name: str) -> list[list[Any]]:
    python = pytensor.function([X, G, N], GRAPHS[name], mode=PYTHON, on_unused_input="ignore")
    return [as_list(python(*values)) for values in CALLS]


@pytest.mark.parametrize("flag", CONFIGURED)
def test_nothing_goes_to_the_host_for_a_flag(flag: str) -> None:
    before = getattr(jax.config, flag)
    for name, graph in GRAPHS.items():
        f = pytensor.function([X, G, N], graph, mode="JAXSELECTIVE", on_unused_input="ignore")
        for values, expected in zip(CALLS, _expected(name), strict=True):
            try:
                jax.config.update(flag, CONFIGURED[flag])
                found = as_list(f(*values))
            finally:
                jax.config.update(flag, before)
            for one, other in zip(found, expected, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12)
        assert not f.explain().failures
        assert f.stats.fallbacks == 0


def test_the_user_traces_with_strict_promotion() -> None:
    run = jax.jit(jaxify([X, N], GRAPHS["branch"]))
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        np.testing.assert_allclose(run(np.ones(3), np.int64(2)), 2 * np.ones(3))
        np.testing.assert_allclose(
            jax.grad(lambda x: run(x, np.int64(4)).sum())(np.ones(3)), np.ones(3) / 3
        )
