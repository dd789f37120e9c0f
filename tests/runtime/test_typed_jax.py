"""What we rely on in JAX where its annotations do not say it."""

import jax
import jax.numpy as jnp
import pytest

from pytensor_jaxlink.runtime import is_out_of_memory


def test_want_of_memory_has_a_code() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.jit(lambda: jnp.zeros(1 << 45))())
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError(str(caught.value)))


def test_other_errors_of_xla_have_another_code() -> None:
    def fails(x: jax.Array) -> jax.Array:
        raise ValueError("RESOURCE_EXHAUSTED")

    kind = jax.ShapeDtypeStruct((), "float32")
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(fails, kind, x))(1.0))
    assert not is_out_of_memory(caught.value)
