"""Graphs that the options refuse: what the errors say, word by word."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, JAXLinkError, NotJittableError, UntranspilableOpError
from tests.helpers import black_box, outer, sort_down

X = np.array([0.3, 0.9, 0.1, 0.7])
sort = black_box(sort_down)


def here() -> str:
    caller = inspect.currentframe().f_back
    return f"{__file__}:{caller.f_lineno}"


def test_all_blockers_of_jit_true_in_one_message() -> None:
    x = pt.dvector("x")
    sorted_x, first = sort(x), here()
    selected, second = outer(x[x > 0.5]), here()
    prefix, third = outer(x[: x.argmax()]), here()
    with pytest.raises(NotJittableError) as caught:
        pytensor.function([x], sorted_x.sum() + selected + prefix, mode=JAXLinker(jit=True))
    blocks = {
        f"sort_down(x) at {first}\n"
        "     no JAX implementation [PJL102]: `sort_down` is a Python function that JAX "
        "cannot trace\n"
        "     remedy: tell the shape of its result, wrap_py(itypes, otypes, infer_shape=...), and "
        'let JAX call it: JAXLinker(host_ops="callback"); or declare static shapes in otypes, and '
        'let JAX call it: JAXLinker(host_ops="callback"); or write `sort_down` with jax.numpy and '
        "wrap it, pytensor.wrap_jax, which needs inputs of known shapes (pt.specify_shape); or "
        "make `sort_down` the perform of an Op class of its own, and register a JAX "
        "implementation of that class with pytensor.link.jax.dispatch.jax_funcify",
        f"x[x > 0.5] at {second}\n"
        "     data-dependent shape [PJL111]: the shape of its result depends on the values of "
        "(x > 0.5), and JAX compiles for fixed shapes\n"
        "     remedy: keep the full array and mask it: pt.where(mask, x, 0) in the place of "
        "x[mask]; or compute the indices before the call, np.nonzero, and make them an input of "
        "the function",
        f"x[:argmax(x)] at {third}\n"
        "     size computed from data [PJL112]: JAX must know a size of x[:argmax(x)] before it "
        "compiles, and that size depends on argmax(x), which a region computes from data\n"
        "     remedy: make the size an integer input of the function; or keep the full array and "
        "mask the rest: pt.where(pt.arange(x.shape[0]) < size, x, 0)",
    }
    assert str(caught.value).endswith(" [PJL201]")
    headline, *rest = caught.value.args[0].split("\n  ")
    assert headline == ("this graph cannot run inside one jax.jit. 3 operations stand in the way:")
    numbered = "\n  ".join(rest)
    found = {part[3:].rstrip() for part in numbered.replace("\n  2. ", "\0002. ").replace(
        "\n  3. ", "\0003. ").split("\0")}  # fmt: skip
    assert found == blocks
    assert isinstance(caught.value, UntranspilableOpError)


def test_jit_true_with_nothing_in_the_way() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], x[:n] * 2, mode=JAXLinker(jit=True))
    np.testing.assert_allclose(f(X, 2), X[:2] * 2)


def test_a_blocker_that_is_no_missing_rule_is_only_not_jittable() -> None:
    x = pt.dvector("x")
    with pytest.raises(NotJittableError) as caught:
        pytensor.function([x], x[: x.argmax(), None] * x, mode=JAXLinker(jit=True))
    assert not isinstance(caught.value, UntranspilableOpError)
    assert isinstance(caught.value, JAXLinkError | TypeError)


def test_jit_false_needs_a_rule_for_every_op() -> None:
    x = pt.dvector("x")
    value, where = sort(x) * 2, here()
    with pytest.raises(UntranspilableOpError) as caught:
        pytensor.function([x], value, mode=JAXLinker(jit=False))
    assert str(caught.value).splitlines()[:2] == [
        "1 operation has no JAX implementation, and jit=False runs every operation in JAX:",
        f"  1. sort_down(x) at {where}",
    ]


def test_host_ops_error() -> None:
    x = pt.dvector("x")
    with pytest.raises(UntranspilableOpError, match='which host_ops="error" forbids'):
        pytensor.function([x], pt.unique(x), mode=JAXLinker(host_ops="error"))
    pytensor.function([x], x[: x.argmax()], mode=JAXLinker(host_ops="error"))


class TestJitFalse:
    def test_runs_whatever_the_sizes(self) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], x[: x.argmax()] * 2, mode=JAXLinker(jit=False))
        np.testing.assert_allclose(f(X), X[:1] * 2)

    def test_static_argnums_refuses_what_no_static_argument_helps(self) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], x[: x.argmax()] * 2, mode=JAXLinker(jit=False))
        with pytest.raises(NotJittableError, match="1 operation stands in the way"):
            _ = f.static_argnums
        with pytest.raises(NotJittableError, match=r"way:\n  1\. \(2 \* x\)\[:argmax"):
            jax.jit(f.jax_fn)(X)

    def test_static_argnums_are_positions_of_inputs_and_shared_variables(self) -> None:
        x, n, k = pt.dvector("x"), pt.lscalar("n"), pt.lscalar("k")
        rows = pytensor.shared(np.int64(2), "rows")
        f = pytensor.function(
            [n, x, k], x[: k + 1].reshape((rows, -1)) * n, mode=JAXLinker(jit=False)
        )
        assert f.static_argnums == (2, 3)
        assert f.donate_argnums == ()
        [found] = jax.jit(f.jax_fn, static_argnums=f.static_argnums)(10, X, 3, 2)
        np.testing.assert_allclose(found, X.reshape(2, 2) * 10)

    def test_a_size_that_is_traced_is_named(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = pytensor.function([x, n], x[:n], mode=JAXLinker(jit=False))
        with pytest.raises(NotJittableError, match="traces argument 1, 'n'"):
            jax.jit(f.jax_fn)(X, 2)

    def test_a_float_is_no_size(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = pytensor.function([x, n], x[:n], mode=JAXLinker(jit=False))
        with pytest.raises(TypeError, match=r"n: expected .*, found real numbers"):
            f.jax_fn(X, 2.5)

    def test_the_number_of_arguments_is_checked(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = pytensor.function([x, n], x[:n], mode=JAXLinker(jit=False))
        with pytest.raises(TypeError, match=r"expected 2 arguments \(x, n\), found 1"):
            f.jax_fn(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jit": "yes"}, "JAXLinker: jit='yes' is not one of 'selective', True, False"),
        ({"jit": 1}, "JAXLinker: jit=1 is not one of 'selective', True, False"),
        (
            {"checks": None, "outputs": "cupy"},
            "JAXLinker: checks=None is not one of 'raise', 'ignore'; "
            "outputs='cupy' is not one of 'jax', 'numpy'",
        ),
    ],
)
def test_options_are_checked_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="JAXLinker: ") as caught:
        JAXLinker(**options)
    assert str(caught.value) == f"{message} [PJL901]"


class TestBadInput:
    """What the Python linker raises, we raise, and the input is named."""

    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            ((X, 2.5), TypeError, "index 1"),
            ((X[None], 2), TypeError, "index 0"),
            ((X.astype(complex), 2), TypeError, "index 0"),
            ((X,), TypeError, "Missing input: n"),
            ((X, 2, 3), TypeError, "Too many"),
        ],
    )
    def test_arguments(self, arguments: Any, error: type[Exception], words: str) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        for mode in ("JAXSELECTIVE", "FAST_COMPILE"):
            f = pytensor.function([x, n], x[:n], mode=mode)
            with pytest.raises(error) as caught:
                f(*arguments)
            notes = getattr(caught.value, "__notes__", [])
            assert words in "\n".join([str(caught.value), *notes])

    def test_an_unknown_keyword(self) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], x * 2, mode="JAXSELECTIVE")
        with pytest.raises(TypeError, match="Unknown input: z"):
            f(z=X)

    def test_a_static_shape(self) -> None:
        x = pt.TensorType("float64", shape=(3,))("x")
        f = pytensor.function([x], x * 2, mode="JAXSELECTIVE")
        with pytest.raises(TypeError):
            f(X)

    @pytest.mark.parametrize(
        ("graph", "arguments", "error"),
        [
            (lambda x, n: pt.zeros(n) + x.sum(), (X, -2), ValueError),
            (lambda x, n: x.reshape((n, -1)), (X, 3), ValueError),
            (lambda x, n: pt.specify_shape(x, (n,)), (X, 3), AssertionError),
            (lambda x, n: x[n], (X, 9), IndexError),
            (lambda x, n: x[pt.stack([0, n])], (X, -9), IndexError),
            (lambda x, n: x * pt.arange(n), (X, 3), ValueError),
        ],
    )
    def test_sizes(self, graph: Any, arguments: Any, error: type[Exception]) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        for mode in ("JAXSELECTIVE", "FAST_COMPILE"):
            f = pytensor.function([x, n], graph(x, n), mode=mode)
            with pytest.raises(error):
                f(*arguments)

    def test_a_negative_size_names_its_input(self) -> None:
        n = pt.lscalar("n")
        f = pytensor.function([n], pt.zeros(n), mode="JAXSELECTIVE")
        with pytest.raises(ValueError, match="negative dimensions") as caught:
            f(-3)
        assert caught.value.__notes__[-1] == (
            "argument 0, 'n', a size or bound of this function, was -3"
        )
        assert f(2).shape == (2,)
