"""The open tables: which inputs are sizes, data, or read for their shape."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pytensor_jaxlink import static_inputs
from pytensor_jaxlink.ops import can_be_static, data_inputs, shape_inputs

RNG = pytensor.shared(np.random.default_rng(1))
X, M, N = pt.dvector("x"), pt.dmatrix("m"), pt.lscalar("n")


def node_of(variable: pt.TensorVariable, kind: str) -> Apply:
    """The node nearest to ``variable`` whose Op has the class name ``kind``."""
    queue = [variable]
    for current in queue:
        if current.owner is not None:
            if type(current.owner.op).__name__ == kind:
                return current.owner
            queue += current.owner.inputs
    raise LookupError(kind)


@pytest.mark.parametrize(
    ("variable", "kind", "expected"),
    [
        (X.reshape((N, 2)), "Reshape", (1,)),
        (pt.alloc(0.0, N, 2), "Alloc", (1, 2)),
        (pt.arange(N), "ARange", (0, 1, 2)),
        (pt.eye(N), "Eye", (0, 1, 2)),
        (X[:N], "Subtensor", (1,)),
        (X[N], "Subtensor", ()),
        (X[:N].set(1.0), "IncSubtensor", (2,)),
        (pt.random.normal(size=(N,), rng=RNG), "NormalRV", (1,)),
        (pt.random.normal(X, rng=RNG), "NormalRV", ()),
        (pt.exp(X), "Elemwise", ()),
    ],
)
def test_sizes(variable: pt.TensorVariable, kind: str, expected: tuple[int, ...]) -> None:
    node = node_of(variable, kind)
    assert tuple(static_inputs(node.op, node)) == expected


@pytest.mark.parametrize(
    ("variable", "kind", "expected"),
    [
        (pt.unique(X), "Unique", (0,)),
        (pt.nonzero(X)[0], "Nonzero", (0,)),
        (X[X > 0], "AdvancedSubtensor", (1,)),
        (X[X > 0].set(1.0), "AdvancedIncSubtensor", (2,)),
        (pt.exp(X), "Elemwise", ()),
    ],
)
def test_data(variable: pt.TensorVariable, kind: str, expected: tuple[int, ...]) -> None:
    node = node_of(variable, kind)
    assert tuple(data_inputs(node.op, node)) == expected


def test_shapes() -> None:
    assert shape_inputs(X.shape.owner.op, X.shape.owner) == (0,)
    assert shape_inputs(pt.exp(X).owner.op, pt.exp(X).owner) == ()


def test_what_may_select_a_specialisation() -> None:
    allowed = [N, pt.dscalar(), pt.lvector(), pt.scalar(dtype="bool"), pt.scalar_from_tensor(N)]
    refused = [X, M, pt.lmatrix(), pt.vector(dtype="bool"), pt.zscalar()]
    assert all(map(can_be_static, allowed))
    assert not any(map(can_be_static, refused))


def test_a_third_party_op_is_taught_by_one_function() -> None:
    class Stretch(Op):
        def make_node(self, array: pt.TensorVariable, length: pt.TensorVariable) -> Apply:
            return Apply(self, [array, length], [pt.dvector()])

        def perform(self, node: Apply, inputs: list, cells: list) -> None:
            cells[0][0] = inputs[0].repeat(inputs[1])

    @static_inputs.register(Stretch)
    def _static_inputs(op: Stretch, node: Apply) -> tuple[int, ...]:
        return (1,)

    from pytensor.link.jax.dispatch import jax_funcify

    @jax_funcify.register(Stretch)
    def _jax(op: Stretch, **_: object) -> object:
        return lambda array, length: array.repeat(int(length))

    f = pytensor.function([X, N], Stretch()(pt.exp(X), N) + 1, mode="JAXSELECTIVE")
    assert f([0.0, 0.0], 3).shape == (6,)
    assert f.explain().graph_break_count == 0
    assert f.explain().failures == ()
    assert f.stats.fallbacks == 0
