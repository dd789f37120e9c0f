"""The key of a graph has a part for the source that the values of the graph depend on."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.rewriting.basic import (
    NodeRewriter,
    WalkingGraphRewriter,
    node_rewriter,
)
from pytensor.graph.rewriting.db import EquilibriumDB, RewriteDatabaseQuery, SequenceDB
from pytensor.raise_op import Assert

from pytensor_jaxlink import ArtifactError, JAXLinker
from pytensor_jaxlink.artifact.start_up import key, sources
from pytensor_jaxlink.artifact.start_up.sources import foreign_code, modules_of_rewrites
from tests.helpers import black_box, sort_down
from tests.lowering.test_failures import Doubled

DEFINED = "tests.lowering.test_failures"


class Unchanged(NodeRewriter):
    """Changes no node."""

    def transform(self, fgraph: Any, node: Any) -> bool:
        return False


def returns_none(fgraph: Any, node: Any) -> None:
    """Changes no node either."""


class Derived(Doubled):
    """Inherits its values."""


def code_of(inputs: Any, outputs: Any) -> list[str]:
    """The modules of others that the key of a graph has a part for."""
    maker = pytensor.function(inputs, outputs, mode="JAXSELECTIVE").maker
    updated = maker.fgraph.update_mapping
    mode = get_mode("JAXSELECTIVE")
    found = key.key_of(maker.given, updated, mode, maker.inputs, maker.outputs)
    code = found.document["code"]
    assert isinstance(code, dict)
    return [*code]


def test_classes_have_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*foreign_code([Doubled, type(pt.exp)])] == [DEFINED]
    monkeypatch.setattr(sys.modules[DEFINED], "__file__", None)
    with pytest.raises(Exception, match=r"code of tests\.lowering\.test_failures has a part in"):
        foreign_code([Doubled])


def test_bases_have_a_part() -> None:
    assert [*foreign_code([Derived])] == [__name__, DEFINED]


def test_rewrites_have_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the mode selects."""
    nested = EquilibriumDB()
    nested.register("unchanged", Unchanged(), "tag")
    for rewrite in (node_rewriter(None)(returns_none), WalkingGraphRewriter(Unchanged()), nested):
        registered = SequenceDB()
        registered.register("rewrite", rewrite, "tag")
        for query, found in (
            (RewriteDatabaseQuery(["tag"]), {__name__}),
            (RewriteDatabaseQuery(["other"]), set()),
            (RewriteDatabaseQuery(["tag"], exclude=["rewrite"]), set()),
            (RewriteDatabaseQuery(["tag"], require=["other"]), set()),
        ):
            assert modules_of_rewrites(Mode(JAXLinker(), query, registered)) == found
    assert __name__ not in modules_of_rewrites(get_mode("JAXSELECTIVE"))
    monkeypatch.setattr(key, "modules_of_rewrites", lambda mode: {__name__})
    x = pt.dvector("x")
    assert __name__ in code_of([x], x + 1)


def test_rewrites_that_are_registered_later_have_a_part() -> None:
    """Also in a database within the first one."""
    nested = EquilibriumDB()
    registered = SequenceDB()
    registered.register("nested", nested, "tag")
    mode = Mode(JAXLinker(), RewriteDatabaseQuery(["tag"]), registered)
    assert modules_of_rewrites(mode) == modules_of_rewrites(mode) == set()
    nested.register("unchanged", Unchanged(), "tag")
    assert modules_of_rewrites(mode) == {__name__}


def test_functions_have_a_part() -> None:
    """That of a constant is folded, so it runs when the function is built, and never later."""
    x = pt.dvector("x")
    assert "tests.helpers" in code_of([x], x + black_box(sort_down)(pt.constant(np.ones(2))))
    assert "tests.helpers" not in code_of([x], Assert("must be positive")(x, pt.all(x > 0)))


def test_files_that_have_changed(
    tmp_path: Path, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code is not that of this process, which ran before they were written."""
    path = tmp_path / "written_late.py"
    path.write_text("def doubled(values):\n    return values * 2\n")
    os.utime(path, (0, 0))  # as if it were an older file that was moved there
    monkeypatch.syspath_prepend(tmp_path)
    x, doubled = pt.dvector("x"), importlib.import_module("written_late").doubled
    y = x + black_box(doubled)(pt.constant(np.ones(2)))
    for _ in range(2):
        f = build([x], y)
        np.testing.assert_array_equal(f(np.zeros(2)), [2, 2])
        reason = f"not kept: {path} changed after this process started"
        assert f.stats.start_up_cache.startswith(reason)
    monkeypatch.setattr(sources, "_OURS", tmp_path)
    with pytest.raises(ArtifactError, match="changed after this process"):
        sources.own_code.__wrapped__()
    monkeypatch.setattr(sources, "STARTED", time.time() + 1)  # the next process
    statuses = [build([x], y).stats.start_up_cache for _ in range(2)]
    assert statuses == ["miss", "hit"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is the time of the import")
def test_the_start_of_the_process() -> None:
    program = "from pytensor_jaxlink.link.start_up_cache import STARTED; print(STARTED)"
    before = time.time()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert before - 0.01 < float(done.stdout) < before + 0.5
