"""Regions that JAX traces and XLA cannot compile: the call has its value all the same."""

from __future__ import annotations

import logging
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify

from pytensor_jaxlink import JAXLinker
from tests.helpers import PYTHON, assert_same

X = pt.dvector("x")


class _Doubled(Op):
    """Twice an array, by code that XLA does not have: always, or in a region alone."""

    __props__ = ("alone",)

    def __init__(self, alone: bool) -> None:
        self.alone = alone

    def make_node(self, x: Any) -> Apply:
        x = pt.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = 2 * inputs[0]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[False]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        return [DisconnectedType()()]


@jax_funcify.register(_Doubled)
def _doubled(op: _Doubled, **_: object) -> Any:
    def double(x: Any) -> Any:
        if op.alone and not isinstance(x, jax.core.Tracer):
            return 2 * jnp.asarray(x)
        return jax.ffi.ffi_call("there_is_no_such_code", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    return double


def functions(alone: bool, **options: Any) -> Any:
    outputs = [pt.exp(_Doubled(alone)(X) - 1), X.sum()]
    modes = JAXLinker(**options), PYTHON
    return [pytensor.function([X], outputs, mode=mode) for mode in modes]


@pytest.mark.parametrize("outputs", ["jax", "numpy"])
@pytest.mark.parametrize("dynamic", ["auto", True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_the_value(alone: bool, dynamic: Any, outputs: Any) -> None:
    f, reference = functions(alone, dynamic=dynamic, outputs=outputs)
    for length in (3, 3, 5, 0, 3, 5):
        given = np.arange(1.0, length + 1)
        assert_same(f(given), reference(given))


def test_one_operation_goes_to_the_host() -> None:
    f, _ = functions(alone=False)
    f(np.ones(3))
    assert "Doubled" in str(f.explain())
    fallbacks = f.stats.fallbacks
    f(np.ones(3))
    assert f.stats.fallbacks == fallbacks


def test_a_region_runs_by_its_operations(caplog: pytest.LogCaptureFixture) -> None:
    f, reference = functions(alone=True)
    with caplog.at_level(logging.INFO, "pytensor_jaxlink"):
        for count in range(1, 4):
            assert_same(f(np.ones(3)), reference(np.ones(3)))
            assert f.stats.fallbacks == count
    assert re.search("XLA cannot compile region 0.*test_not_compiled.py", caplog.text)
    assert "there_is_no_such_code" in caplog.text


def test_an_error_of_code_that_runs_is_no_such_failure() -> None:
    def fail(x: Any) -> Any:
        raise ValueError("when it runs")

    class _Failing(_Doubled):
        pass

    @jax_funcify.register(_Failing)
    def _failing(op: _Failing, **_: object) -> Any:
        return lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    f = pytensor.function([X], _Failing(False)(X), mode="JAXSELECTIVE")
    with pytest.raises(Exception, match="when it runs"):
        np.asarray(f(np.ones(3)))
