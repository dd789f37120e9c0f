"""The key of a graph has a part for the source that the values of the graph depend on."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.graph.rewriting.basic import (
    NodeRewriter,
    WalkingGraphRewriter,
    node_rewriter,
)
from pytensor.graph.rewriting.db import EquilibriumDB, SequenceDB
from pytensor.raise_op import Assert

from pytensor_jaxlink.artifact.start_up import key
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
    nested = EquilibriumDB()
    nested.register("unchanged", Unchanged(), "tag")
    for rewrite in (node_rewriter(None)(returns_none), WalkingGraphRewriter(Unchanged()), nested):
        registered = SequenceDB()
        registered.register("rewrite", rewrite, "tag")
        assert modules_of_rewrites(registered) == {__name__}
    assert modules_of_rewrites(SequenceDB()) == set()
    monkeypatch.setattr(key, "modules_of_rewrites", lambda: {__name__})
    x = pt.dvector("x")
    assert __name__ in code_of([x], x + 1)


def test_functions_have_a_part() -> None:
    """That of a constant is folded, so it runs when the function is built, and never later."""
    x = pt.dvector("x")
    assert "tests.helpers" in code_of([x], x + black_box(sort_down)(pt.constant(np.ones(2))))
    assert "tests.helpers" not in code_of([x], Assert("must be positive")(x, pt.all(x > 0)))
