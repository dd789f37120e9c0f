"""Which checks of a linker's class say yes (docs/decisions/linker_base_class.md)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode, get_mode
from pytensor.link.basic import JITLinker, PerformLinker
from pytensor.link.jax.linker import JAXLinker as PyTensorJAXLinker
from pytensor.scan.op import Scan

from pytensor_jaxlink import JAXFunction, JAXLinker

INNER_GRAPHS = [
    ("pytensor.scan.rewriting.inner_graph", "rewrite_scan_inner_graph"),
    ("pytensor.compile.rewriting", "rewrite_ofg_inner_graph"),
    ("pytensor.tensor.optimize", "rewrite_optimize_inner_graph"),
]


def test_the_base_class() -> None:
    linker = get_mode("JAXSELECTIVE").linker
    assert isinstance(linker, PerformLinker)
    assert not isinstance(linker, PyTensorJAXLinker)  # not mode "JAX", as PyMC and nutpie ask
    assert not isinstance(linker, JITLinker)  # there is no function of the whole graph


def test_a_linker_is_asked_for_what_a_mode_has() -> None:
    """PyMC adds rewrites to those of the mode, and makes a mode of them and of its linker."""
    linker = JAXLinker(outputs="numpy")
    given: Any = get_mode(linker)
    mode = Mode(given.linker, given.provided_optimizer.including("random_make_inplace"))
    x = pt.dvector("x")
    for each in (linker, mode):
        f = pytensor.function([x], x[x > 1] + 1, mode=each)
        assert type(f) is JAXFunction
        assert isinstance(f([1.0, 2.0]), np.ndarray)


def test_a_linker_can_be_cloned() -> None:
    linker = JAXLinker(jit=False, recompile_limit=3)
    clone: Any = linker.clone(allow_gc=False)
    assert (clone.options, clone.allow_gc) == (linker.options, False)
    assert linker.allow_gc is True


@pytest.mark.parametrize(("module", "name"), INNER_GRAPHS)
def test_inner_graphs_are_rewritten_as_for_jax(module: str, name: str) -> None:
    dispatcher = getattr(import_module(module), name, None) if find_spec(module) else None
    if dispatcher is None:
        pytest.skip("this PyTensor rewrites inner graphs when it links them")
    assert dispatcher.dispatch(JAXLinker) is dispatcher.dispatch(PyTensorJAXLinker)
    assert dispatcher.dispatch(JAXLinker) is not dispatcher.dispatch(PerformLinker)


def test_nothing_is_done_in_place_inside() -> None:
    x = pt.dvector("x")
    inside = OpFromGraph([x], [pt.exp(pt.exp(x) + 1)])(x)
    total = pytensor.scan(
        lambda s: pt.exp(pt.exp(s) * 0.1), outputs_info=[x], n_steps=3, return_updates=False
    )
    f = pytensor.function([x], [inside, total[-1]], mode="JAXSELECTIVE")
    inner = [
        node
        for outer in f.maker.fgraph.apply_nodes
        if isinstance(outer.op, OpFromGraph | Scan)
        for node in outer.op.fgraph.apply_nodes
    ]
    assert inner
    assert not any(node.op.destroy_map for node in inner)
    given = np.array([0.1, 0.2])
    step = given
    for _ in range(3):
        step = np.exp(np.exp(step) * 0.1)
    np.testing.assert_allclose(f(given)[0], np.exp(np.exp(given) + 1))
    np.testing.assert_allclose(f(given)[1], step)


def test_draws_are_seeded_anew_and_generators_can_be_replaced() -> None:
    """What PyMC believes that a linker of class `JAXLinker` cannot do."""
    rng = pytensor.shared(np.random.default_rng(1))
    after, draw = pt.random.normal(rng=rng).owner.outputs
    f = pytensor.function([], draw, updates={rng: after}, mode="JAXSELECTIVE")
    first = [float(f()) for _ in range(2)]
    rng.set_value(np.random.default_rng(1))
    assert [float(f()) for _ in range(2)] == first
    other = pytensor.shared(np.random.default_rng(1))
    g = f.copy(swap={rng: other})
    assert [float(g()) for _ in range(2)] == first
