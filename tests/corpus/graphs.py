"""The graphs: log densities, losses and summaries over masks, slices, groups and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.scan.utils import until

from pytensor_jaxlink.compat import ifelse
from tests.helpers import black_box, sort_down

Y, T, W = pt.dvectors("y", "t", "w")
X = pt.dmatrix("x")
OBSERVED, EVENT = pt.vector("observed", dtype="bool"), pt.vector("event", dtype="bool")
GROUP, N = pt.lvector("group"), pt.lscalar("n")
THETA = pt.dvector("theta")  # (location, log scale, slope)
INPUTS = [Y, T, W, X, OBSERVED, EVENT, GROUP, N, THETA]
BLOCKS = pt.gt(W, 0).sum() // 2
MU, SCALE = THETA[0], pt.exp(THETA[1])

host_sort = black_box(sort_down)


def values(seed: int = 0) -> list[Any]:
    """Values for the inputs."""
    rng = np.random.default_rng(seed)
    y, t, w = rng.normal(size=8), rng.gamma(2.0, size=8), rng.random(8)
    observed, event = rng.random(8) > 0.3, rng.random(8) > 0.4
    group = np.sort(rng.integers(0, 3, size=8))
    return [y, t, w, rng.normal(size=(8, 3)), observed, event, group, 4, rng.normal(size=3) / 2]


def normal(y: Any, mu: Any = MU, scale: Any = SCALE) -> Any:
    """The logarithm of a normal density."""
    return -0.5 * ((y - mu) / scale) ** 2 - pt.log(scale)


def weibull(t: Any) -> Any:
    shape = pt.exp(THETA[2])
    return pt.log(shape / SCALE) + (shape - 1) * pt.log(t / SCALE) - (t / SCALE) ** shape


def weibull_survival(t: Any) -> Any:
    return -((t / SCALE) ** pt.exp(THETA[2]))


def gradient(cost: Any) -> list[Any]:
    return [cost, pytensor.grad(cost, THETA)]


def scan(step: Any, **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


def censored() -> Any:
    return weibull(T[EVENT]).sum() + weibull_survival(T[~EVENT]).sum()


def left_and_right_censored() -> Any:
    inside = (Y > -1) & (Y < 1)
    tails = pt.log(0.5 * pt.erfc(MU / SCALE))
    return normal(Y[inside]).sum() + (~inside).sum() * tails


def cox() -> Any:
    risk = pt.exp(pt.dot(X, THETA))
    total = pt.cumsum(risk[::-1])[::-1]
    return (pt.log(risk) - pt.log(total))[EVENT].sum()


def change_point_by_data() -> Any:
    k = pt.abs(pt.diff(Y)).argmax() + 1
    return normal(Y[:k]).sum() + normal(Y[k:], MU + THETA[2]).sum()


def change_point_by_input() -> Any:
    return normal(Y[:N]).sum() + normal(Y[N:], MU + THETA[2]).sum()


def group_means() -> Any:
    return pt.stack([Y[pt.eq(GROUP, g)].mean() for g in range(3)])


def random_effects() -> Any:
    return sum(normal(Y[pt.eq(GROUP, g)], THETA[g]).sum() for g in range(3))


def truncated_geometric_sum() -> Any:
    terms = pt.exp(-pt.arange(50) * SCALE)
    return terms[terms > 1e-3].sum()


def newton() -> Any:
    def step(root: Any) -> Any:
        new = root - (root**3 - 2) / (3 * root**2)
        return new, until(pt.abs(new - root) < 1e-10)

    return scan(step, outputs_info=[pt.constant(1.5, dtype="float64")], n_steps=50)[-1]


def autoregression() -> Any:
    state = scan(
        lambda y, before: THETA[2] * before + y,
        sequences=[Y],
        outputs_info=[pt.constant(0.0, dtype="float64")],
    )
    return normal(state).sum()


def two_step() -> Any:
    rows = scan(lambda row, b: pt.exp(row)[row > b[0]].sum(), sequences=[X], non_sequences=[THETA])
    return rows.sum()


CORPUS: dict[str, tuple[str, Callable[[], Any]]] = {
    "weibull, censored": ("survival", lambda: gradient(censored())),
    "normal, both tails censored": ("survival", lambda: gradient(left_and_right_censored())),
    "partial likelihood": ("survival", lambda: gradient(cox())),
    "events before n": ("survival", lambda: (T[:N] * EVENT[:N]).sum()),
    "mean time of events": ("survival", lambda: T[EVENT].mean()),
    "median of events": ("survival", lambda: pt.sort(T[EVENT])[EVENT.sum() // 2]),
    "exposure": ("survival", lambda: EVENT.sum() / T.sum() + T[~EVENT].max()),
    "observed only": ("missing data", lambda: gradient(normal(Y[OBSERVED]).sum())),
    "imputed by the mean": (
        "missing data",
        lambda: pt.set_subtensor(Y[~OBSERVED], Y[OBSERVED].mean()),
    ),
    "imputed by parameters": (
        "missing data",
        lambda: normal(pt.set_subtensor(Y[~OBSERVED], THETA[0])).sum(),
    ),
    "regression on complete rows": (
        "missing data",
        lambda: gradient(normal(Y[OBSERVED], pt.dot(X[OBSERVED], THETA)).sum()),
    ),
    "normal equations": ("missing data", lambda: pt.dot(X[OBSERVED].T, Y[OBSERVED])),
    "covariance": (
        "missing data",
        lambda: ((Y[OBSERVED] - Y[OBSERVED].mean()) * (T[OBSERVED] - T[OBSERVED].mean())).mean(),
    ),
    "not a number": ("missing data", lambda: Y[~pt.isnan(Y)].std()),
    "change point by data": ("change point", lambda: gradient(change_point_by_data())),
    "change point by input": ("change point", lambda: gradient(change_point_by_input())),
    "rates before and after": (
        "change point",
        lambda: pt.stack([Y[: Y.argmax()].mean(), Y[Y.argmax() :].mean()]),
    ),
    "last peak": ("change point", lambda: Y[Y.argmax() :].sum() - Y[: Y.argmin()].sum()),
    "two levels, whole": (
        "change point",
        lambda: pt.concatenate([pt.ones(N) * MU, pt.ones(Y.shape[0] - N) * THETA[2]]) - Y,
    ),
    "spread after the peak": ("change point", lambda: Y[Y.argmax() :].var()),
    "means of groups": ("groups", group_means),
    "effects of groups": ("groups", lambda: gradient(random_effects())),
    "effects by index": ("groups", lambda: gradient(normal(Y, THETA[GROUP]).sum())),
    "largest group": (
        "groups",
        lambda: pt.max(pt.stack([pt.eq(GROUP, g).sum() for g in range(3)])),
    ),
    "number of groups": ("groups", lambda: pt.unique(GROUP).shape[0] * MU),
    "members": ("groups", lambda: pt.nonzero(pt.eq(GROUP, 1))[0].shape[0]),
    "weighted, of one group": (
        "groups",
        lambda: pt.dot(W[pt.eq(GROUP, 1)], Y[pt.eq(GROUP, 1)]) / W[pt.eq(GROUP, 1)].sum(),
    ),
    "hard assignment": (
        "mixtures",
        lambda: normal(Y[Y > MU], MU + 1).sum() + normal(Y[Y <= MU], MU - 1).sum(),
    ),
    "logsumexp of the likely": ("mixtures", lambda: pt.logsumexp(Y[Y.mean() < Y])),
    "soft assignment": (
        "mixtures",
        lambda: gradient(pt.logaddexp(normal(Y, MU - 1), normal(Y, MU + 1)).sum()),
    ),
    "zero-inflated": (
        "mixtures",
        lambda: gradient(pt.eq(GROUP, 0).sum() * THETA[2] + normal(Y[GROUP > 0]).sum()),
    ),
    "outliers removed": (
        "mixtures",
        lambda: Y[pt.abs(Y - Y.mean()) < 2 * Y.std()].mean(),
    ),
    "terms above a limit": ("truncated sums", truncated_geometric_sum),
    "until it converges": ("truncated sums", newton),
    "first n terms": ("truncated sums", lambda: pt.exp(-pt.arange(N) * SCALE).sum()),
    "means of blocks": ("tables", lambda: Y.reshape((BLOCKS, 2)).mean(axis=1)),
    "density of a table": ("tables", lambda: gradient(normal(Y.reshape((BLOCKS, -1))).sum())),
    "trend": ("tables", lambda: (pt.arange(pt.ge(T, 0).sum()) * T).sum()),
    "ridge": (
        "tables",
        lambda: pt.dot(X.T, X) + MU**2 * pt.eye(pt.gt(pt.abs(X).sum(axis=0), 0).sum()),
    ),
    "state space": ("loops", lambda: gradient(autoregression())),
    "masks in a loop": ("loops", two_step),
    "either likelihood": ("loops", lambda: ifelse(MU > 0, normal(Y).sum(), weibull(T).sum())),
    "black box": ("host", lambda: normal(host_sort(pt.exp(Y))).sum()),
    "sorted above a limit": ("host", lambda: pt.sort(Y[Y > 0]).cumsum()),
}  # fmt: skip
