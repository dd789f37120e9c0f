"""Code that calls what no exporter of ours writes is refused before XLA sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.linalg import cholesky, eigh, lu, qr, solve, svd

from pytensor_jaxlink import load, save
from tests.artifact.code import FAILING, KERNELS, OPEN, PLAIN

ROOT = Path(__file__).resolve().parents[3]


def test_hostile_code(tmp_path: Path) -> None:
    """One child runs all; it dies where a kernel gets what it trusts."""
    x = pt.dmatrix("x")
    f = pytensor.function([x], [x * 2, x + 1], mode="JAXSELECTIVE")
    save(f, tmp_path / "open", graph=False)
    f(np.ones((4, 4)))
    save(f, tmp_path / "exact", graph=False, dims=None)
    command = [sys.executable, "-m", "tests.artifact.code", tmp_path / "exact", tmp_path / "open"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == {*PLAIN, *KERNELS, *OPEN, *FAILING}
    for name, error in found.items():
        path = tmp_path / ("open" if name in OPEN else "exact")
        problem = "XLA cannot run the code for " if name in FAILING else "the code holds the "
        assert error.startswith(f"ArtifactError: {path}: region 0: {problem}"), (name, error)
        assert error.endswith("load(path, prefer='graph') compiles it anew. [PJL807]"), (
            name,
            error,
        )
    assert "'xla_ffi_python_cpu_callback', which no saved function needs" in found["callback"]
    assert "the operation stablehlo.infeed, which" in found["infeed"]
    for name in ("pivots", "open pivots"):
        wrong = "'lapack_dgetrf_ffi' of 4x4xf64 for 4x4xf64, 1xi32, i32, which no saved"
        assert wrong in found[name]


def test_linear_algebra_is_kept(tmp_path: Path) -> None:
    """For shapes of calls, for open lengths, and in derivatives."""
    x = pt.dmatrix("x")
    square = x @ x.T + 3 * pt.eye(x.shape[0])
    outputs = [cholesky(square), *eigh(square), *qr(x), *svd(x), *lu(square), solve(square, x)]
    f = pytensor.function([x], outputs, mode="JAXSELECTIVE")
    given = np.random.default_rng(0).normal(size=(4, 3))
    expected = f(given)
    save(f, tmp_path / "f", graph=False)
    for one, other in zip(load(tmp_path / "f")(given), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    outputs = pt.log(pt.diag(cholesky(square))).sum() + solve(square, x.sum(axis=1)).sum()
    g = pytensor.function([x], outputs, mode="JAXSELECTIVE")
    gradient = pytensor.function([x], pytensor.grad(outputs, x), mode="JAXSELECTIVE")
    save(g, tmp_path / "g", graph=False, vjp_order=1)
    loaded = load(tmp_path / "g")
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(lambda value: loaded.jax_fn(value)[0]))(given)
    np.testing.assert_allclose(found, gradient(given), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(loaded(given), g(given), rtol=1e-12)
