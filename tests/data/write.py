"""How the files of this folder were written: ``python -m tests.data.write``.

A file is never written again: what was saved by one version must load in every later one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from pytensor_jaxlink import save

HERE = Path(__file__).parent


def functions() -> dict[str, Any]:
    """Functions with what a file can hold: state, generators, a loop, a size, a default."""
    x, n = pt.dmatrix("x"), pt.lscalar("n")
    weights = pytensor.shared(np.array([0.5, -1.0, 2.0]), name="weights")
    rng = pytensor.shared(np.random.default_rng(3), name="rng")
    following, noise = pt.random.normal(size=(2,), rng=rng).owner.outputs
    cost = pt.log1p(pt.exp(x @ weights)).mean()
    steps = {weights: weights - 0.1 * pytensor.grad(cost, weights)}
    powers = pytensor.scan(
        lambda power, base: power * base,
        outputs_info=[pt.ones_like(weights)],
        non_sequences=[weights],
        n_steps=3,
        return_updates=False,
    )
    mode = "JAXSELECTIVE"
    return {
        "step": pytensor.function([x], cost, updates=steps, mode=mode),
        "first": pytensor.function([x, n], x[: n // 2].sum(), mode=mode),
        "draw": pytensor.function([], noise, updates={rng: following}, mode=mode),
        "powers": pytensor.function([], powers, mode=mode),
    }


def main() -> None:
    """Write the file of the current format, where there is none."""
    path = HERE / "version_1.jaxlink"
    if path.exists():
        raise SystemExit(f"{path} is there, and stays as it is")
    save(functions(), path, static={"n": [2, 4]}, vjp_order=1)


if __name__ == "__main__":
    main()
