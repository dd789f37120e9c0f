"""Equal keys for what is compiled to the same, in any process; other keys for all else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.io import In
from pytensor.compile.mode import Mode, get_mode
from pytensor.configdefaults import config

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.artifact.start_up import key

ROOT = Path(__file__).resolve().parents[3]


def key_of(inputs: Any, outputs: Any, mode: Any = None, **options: Any) -> str:
    f = pytensor.function(inputs, outputs, mode="JAXSELECTIVE", **options)
    maker = f.maker
    mode = get_mode("JAXSELECTIVE") if mode is None else mode
    updated = maker.fgraph.update_mapping
    return key.key_of(maker.given, updated, mode, maker.inputs, maker.outputs).text


def test_what_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    x = pt.dvector("x")
    y = pt.dvector("x")
    large = np.arange(100.0)
    base = key_of([x], (x * large).sum())
    assert base == key_of([y], (y * large.copy()).sum())
    w = pytensor.shared(1.0, name="w")
    mode = get_mode("JAXSELECTIVE")
    query = mode.provided_optimizer
    changed = np.where(large == 7, 8, large)
    others = [
        key_of([x], (x * changed).sum()),
        key_of([x], (x * large).sum(axis=0, keepdims=True)),
        key_of([In(x, mutable=True)], (x * large).sum()),
        key_of([x], (x * large).sum(), mode.excluding("jaxlink_masks")),
        key_of([x], (x * large).sum(), Mode(JAXLinker(checks="ignore"), query)),
        key_of([x], (x * w).sum(), updates={w: w + 1}),
        key_of([x], (x * w).sum()),
        key_of([x], OpFromGraph([y], [y * 2])(x)),
        key_of([x], OpFromGraph([y], [y * 3])(x)),
    ]
    with config.change_flags(cast_policy="numpy+floatX"):
        others.append(key_of([x], (x * large).sum()))
    monkeypatch.setattr(key, "machine", lambda: "another")
    others.append(key_of([x], (x * large).sum()))
    assert len({base, *others}) == 1 + len(others)


def test_places_do_not_change_the_key(tmp_path: Path) -> None:
    x = pt.dvector("x")
    one = JAXLinker(cache_dir=tmp_path / "a", cache_limit=1, compilation_cache="c")
    other = JAXLinker(cache_dir=tmp_path / "b")
    base = get_mode("JAXSELECTIVE")
    modes = [Mode(linker, base.provided_optimizer) for linker in (one, other)]
    assert key_of([x], x + 1, modes[0]) == key_of([x], x + 1, modes[1])


def test_rewrites_without_names(build: Any) -> None:
    from pytensor.graph.rewriting.basic import SequentialGraphRewriter

    x = pt.dvector("x")
    mode = Mode(JAXLinker(), SequentialGraphRewriter())
    with pytest.raises(Exception, match="the mode has rewrites of its own, which have no names"):
        key_of([x], x + 1, mode)


IN_A_PROCESS = """
import numpy as np, pytensor, pytensor.tensor as pt
from tests.artifact.start_up.test_key import key_of
x, i = pt.dmatrix("x"), pt.lvector("i")
states = pytensor.scan(lambda row, s: pt.tanh(s + row.sum()), [x], [pt.as_tensor(np.float64(0))],
                       return_updates=False)
cost = (x[i] ** 2).sum() + states[-1] + pt.gammaln(x).sum() + pt.linalg.cholesky(x).sum()
print(key_of([x, i], [cost, pytensor.grad(cost, x)]))
"""


def test_keys_do_not_depend_on_hashes() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", IN_A_PROCESS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
