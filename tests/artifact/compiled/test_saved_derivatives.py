"""Transformations of loaded code: values, or an error that says what to do."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import ArtifactError, jaxify, load, save

VALUE = np.array([1.5, -2.0, 0.5])


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Any]:
    """Loads the compiled code of a function of a vector and an integer."""

    def loaded(**options: Any) -> Any:
        x, n = pt.dvector("x"), pt.lscalar("n")
        fn: Any = jaxify([x, n], [(pt.exp(x) * n).sum(), n + 1])
        fn.function(VALUE, 2)
        save(fn, tmp_path / "fn.jaxlink", **options)
        return load(tmp_path / "fn.jaxlink", prefer="compiled")

    with jax.enable_x64(True):
        yield loaded


def of_vector(fn: Callable[..., Any]) -> Callable[[Any], jax.Array]:
    return lambda x: fn(x, 2)[0]


FORWARD: dict[str, Callable[..., Any]] = {
    "jvp": lambda f: jax.jvp(f, (VALUE,), (VALUE,)),
    "jvp of jit": lambda f: jax.jvp(jax.jit(f), (VALUE,), (VALUE,)),
    "jit of jvp": lambda f: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(VALUE),
    "jacfwd": lambda f: jax.jacfwd(f)(VALUE),
    "hessian": lambda f: jax.hessian(f)(VALUE),
    "linearize": lambda f: jax.linearize(f, VALUE)[1](VALUE),
}
MAPPED: dict[str, Callable[..., Any]] = {
    "vmap": lambda f: jax.vmap(f)(VALUE[None]),
    "vmap of jit": lambda f: jax.vmap(jax.jit(f))(VALUE[None]),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(VALUE[None]),
    "vmap of jit of grad": lambda f: jax.vmap(jax.jit(jax.grad(f)))(VALUE[None]),
    "jacrev": lambda f: jax.jacrev(lambda x: jnp.stack([f(x), f(2 * x)]))(VALUE),
}
BACKWARD: dict[str, Callable[..., Any]] = {
    "grad": lambda f: jax.grad(f)(VALUE),
    "jit of grad": lambda f: jax.jit(jax.grad(f))(VALUE),
    "grad of jit": lambda f: jax.grad(jax.jit(f))(VALUE),
    "vjp": lambda f: jax.vjp(f, VALUE)[1](np.ones(()))[0],
    "of a checkpoint": lambda f: jax.grad(jax.checkpoint(f))(VALUE),
    "in a loop": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (c, f(x)), 0, None, 1)[1][0]
    )(VALUE),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str, saved: Callable[..., Any]) -> None:
    np.testing.assert_allclose(
        BACKWARD[name](of_vector(saved(vjp_order=1))), 2 * np.exp(VALUE), rtol=1e-12
    )


@pytest.mark.parametrize("name", BACKWARD)
def test_backward_without_a_derivative(name: str, saved: Callable[..., Any]) -> None:
    with pytest.raises(ArtifactError, match=r"the code holds no derivative.*vjp_order=1.*PJL814"):
        BACKWARD[name](of_vector(saved()))


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str, saved: Callable[..., Any]) -> None:
    with pytest.raises(ArtifactError, match=r"forward .* Differentiate backward.*PJL814"):
        FORWARD[name](of_vector(saved(vjp_order=1)))


@pytest.mark.parametrize("name", MAPPED)
def test_mapped(name: str, saved: Callable[..., Any]) -> None:
    with pytest.raises(NotImplementedError, match=r"cannot map .*PJL815"):
        MAPPED[name](of_vector(saved(vjp_order=1)))


def test_derivatives_of_derivatives(saved: Callable[..., Any]) -> None:
    fn = of_vector(saved(vjp_order=2))

    def slope(x: Any) -> jax.Array:
        return jax.grad(fn)(x).sum()

    for twice in (jax.grad(slope), jax.jit(jax.grad(slope)), jax.grad(jax.jit(slope))):
        np.testing.assert_allclose(twice(VALUE), 2 * np.exp(VALUE), rtol=1e-12)
    with pytest.raises(ArtifactError, match="as high as you differentiate"):
        jax.grad(lambda x: jax.grad(slope)(x).sum())(VALUE)


PROGRAM = """
import sys
import jax, json
import numpy as np
from pytensor_jaxlink import load
fn = load(sys.argv[1], prefer="compiled")
value = np.array([1.5, -2.0, 0.5])
of_vector = lambda x: fn(x, 2)[0]
found = {
    "value": fn(value, 2)[0],
    "integer": fn(value, 2)[1],
    "jit": jax.jit(fn)(value, 2)[0],
    "grad": jax.grad(of_vector)(value),
    "jit of grad": jax.jit(jax.grad(of_vector))(value),
    "grad of grad": jax.grad(lambda x: jax.grad(of_vector)(x).sum())(value),
    "shape": np.zeros(*[(s.shape, s.dtype) for s in [jax.eval_shape(of_vector, value)]][0]),
    "float32": jax.grad(of_vector)(value.astype("float32")),
}
assert "pytensor" not in sys.modules
print(json.dumps({name: [np.asarray(v).tolist(), str(v.dtype)] for name, v in found.items()}))
"""


@pytest.mark.parametrize("wide", [False, True])
def test_a_process_with_and_without_64_bit_types(
    wide: bool, tmp_path: Path, saved: Callable[..., Any]
) -> None:
    saved(vjp_order=2)
    lines = [f"import jax; jax.config.update('jax_enable_x64', {wide})", PROGRAM]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(lines), str(tmp_path / "fn.jaxlink")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)
    slopes, total = 2 * np.exp(VALUE), 2 * np.exp(VALUE).sum()
    for name, (value, dtype) in found.items():
        kind, bits = ("int" if name == "integer" else "float"), 64 if wide else 32
        assert dtype == f"{kind}{32 if name == 'float32' else bits}", name
        expected = {"value": total, "jit": total, "integer": 3, "shape": 0}.get(name, slopes)
        np.testing.assert_allclose(value, expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_neither_copied_nor_pickled(
    copied: Callable[[Any], Any], saved: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError, match=r"Load the file again.*PJL817"):
        copied(saved().function)


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3, object),
        np.array(["a"] * 3),
        np.zeros(3, "datetime64[D]"),
        np.zeros(3, [("a", "f8")]),
        np.zeros(3, complex),
    ],
    ids=lambda each: str(each.dtype),
)
def test_arrays_of_no_numbers(value: Any, saved: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"x: expected .*, found an array of .*PJL816"):
        saved().function(value, 2)
