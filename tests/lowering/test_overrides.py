"""A class of the user's that computes other values than its base class, which has a JAX rule."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.traversal import explicit_graph_inputs
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.raise_op import Assert
from pytensor.scalar.basic import UnaryScalarOp, upgrade_to_float
from pytensor.scalar.math import Erf
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.random.basic import NormalRV

from pytensor_jaxlink import JAXLinker, UntranspilableOpError
from tests.helpers import PYTHON, assert_same, compile_both


class OtherDot(Dot):
    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(inputs[0] @ inputs[1] + 1)


class OtherSum(Sum):
    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(inputs[0].sum(axis=self.axis) + 100)


class OtherCholesky(Cholesky):
    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = 2 * np.linalg.cholesky(inputs[0])


class OtherAssert(Assert):
    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = inputs[0] + 1


class OtherGraph(OpFromGraph):
    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = inputs[0] * 11


class OtherErf(Erf):
    nfunc_spec = None

    def impl(self, x: float) -> float:
        return 3 * float(x)


class Named(UnaryScalarOp):
    nfunc_spec = ("scipy.special.i1e", 1, 1)

    def impl(self, x: float) -> float:
        raise AssertionError


class OtherNormal(NormalRV):
    @classmethod
    def rng_fn(cls, rng: Any, *parameters: Any) -> Any:
        return np.full(parameters[-1] or (), 7.0)


class Mixin:
    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = -inputs[0].sum(axis=self.axis)  # type: ignore[attr-defined]


class Mixed(Mixin, Sum):
    pass


class Renamed(Sum):
    """Computes no other values."""


x, m, batch = pt.dvector("x"), pt.dmatrix("m"), pt.dtensor3("batch")
n = pt.lmatrix("n")  # PyTensor rewrites products of floats
VALUES = {
    x: np.array([1.0, 2.0, -3.0]),
    m: 4 * np.eye(3),
    n: np.arange(9).reshape(3, 3),
    batch: np.stack([np.eye(2), 9 * np.eye(2)]),
}


def generator() -> Any:
    return pytensor.shared(np.random.default_rng(1))


OTHERS = {
    "a product": lambda: OtherDot()(n, n),
    "a sum": lambda: OtherSum(axis=(0,))(m),
    "of a mask": lambda: OtherSum()(x[x > 0]) * 2,
    "a mixin": lambda: Mixed()(x),
    "linear algebra": lambda: OtherCholesky()(m),
    "of a batch": lambda: Blockwise(OtherCholesky(), signature="(m,m)->(m,m)")(batch),
    "a check": lambda: OtherAssert()(x, x.sum() > -9),
    "a graph": lambda: OtherGraph([x], [x * 2])(x),
    "a scalar function": lambda: Elemwise(OtherErf(upgrade_to_float, name="other"))(x),
    "a distribution": lambda: OtherNormal().make_node(generator(), None, x, 1.0).outputs[1],
    "a distribution of a size": lambda: (
        OtherNormal().make_node(generator(), (3,), 0.0, 1.0).outputs[1]
    ),
}
SAME = {
    "renamed": lambda: Renamed()(x),
    "the name of a function": lambda: Elemwise(Named(upgrade_to_float, name="named"))(x),
}


def compare(output: Any, mode: Any) -> Any:
    inputs = [each for each in explicit_graph_inputs([output]) if each in VALUES]
    f, reference = compile_both(inputs, output, mode)
    arguments = [VALUES[each] for each in inputs]
    assert_same(f(*arguments), reference(*arguments))
    return f


@pytest.mark.parametrize("name", OTHERS)
def test_own_values(name: str) -> None:
    f = compare(OTHERS[name](), "JAXSELECTIVE")
    assert "replaces `" in str(f.explain())


@pytest.mark.parametrize("name", OTHERS)
def test_own_values_in_a_callback(name: str) -> None:
    compare(OTHERS[name](), JAXLinker(host_ops="callback"))


def test_refused_where_all_runs_in_jax() -> None:
    with pytest.raises(UntranspilableOpError, match="OtherDot replaces `perform`"):
        pytensor.function([n], OtherDot()(n, n), mode=JAXLinker(jit=False))


@pytest.mark.parametrize("name", SAME)
def test_nothing_replaced(name: str) -> None:
    f = compare(SAME[name](), "JAXSELECTIVE")
    assert not f.explain().breaks


def test_a_rule_that_is_registered() -> None:
    """For a class alone: PyTensor's tables are asked for the nearest one."""

    class Registered(OtherDot):
        pass

    class Drawn(OtherNormal):
        pass

    @jax_funcify.register(Registered)
    def rule(op: Any, **kwargs: Any) -> Any:
        return lambda a, b: a @ b + 1

    @jax_sample_fn.register(Drawn)
    def sampler(op: Any, node: Any) -> Any:
        return lambda key, size, dtype, *parameters: jax.numpy.full(size, 7.0, dtype)

    for output in (Registered()(n, n), Drawn().make_node(generator(), (3,), 0.0, 1.0).outputs[1]):
        f = compare(output, "JAXSELECTIVE")
        assert not f.explain().breaks


def test_in_a_loop() -> None:
    total = pytensor.scan(lambda row: OtherSum()(row), sequences=[m], return_updates=False)
    f = pytensor.function([m], total, mode="JAXSELECTIVE")
    assert_same(f(VALUES[m]), pytensor.function([m], total, mode=PYTHON)(VALUES[m]))
