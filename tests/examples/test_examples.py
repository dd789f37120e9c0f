"""Every example runs, in a process of its own, and finds what it says it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytensor
import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

# What each needs beyond the extra `test`; each checks its own results.
NEEDS = {
    "scipy_optimize": None,
    "optax_training": "optax",
    "blackjax_nuts": "blackjax",
    "numpyro_likelihood": "numpyro",
    "equinox_layer": "equinox",
    "equinox_saving": "equinox",
    "coal_mining_pymc": "pymc",
}


@pytest.mark.parametrize("name", NEEDS)
def test_example(name: str) -> None:
    needed = NEEDS[name]
    if needed is not None and find_spec(needed) is None:
        pytest.skip(
            f"{needed} is in the extra `examples` or `pymc`, which the tests do not install"
        )
    if name == "equinox_layer" and not hasattr(pytensor, "wrap_jax"):
        pytest.skip("pytensor.wrap_jax came after PyTensor 3.0")
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=EXAMPLES.parents[1],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "Traceback" not in run.stderr
    assert len(run.stdout.splitlines()) >= 2


def test_every_example_is_listed() -> None:
    index = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"]({path.name})" in index
        assert path.stem in NEEDS or path.stem == "coal_mining"  # that is `make demo`
