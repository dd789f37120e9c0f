"""Draws: samplers on a JAX key in place of a NumPy generator.

A value of PyTensor's ``RandomType`` is, inside a region, the key of two 32-bit words that
`pytensor_jaxlink.generators` takes from the state of the generator.  Distributions without a
sampler, ours or PyTensor's, are drawn on the host by their own NumPy sampler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from pytensor.graph.basic import Apply
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.tensor.random.basic import ChoiceWithoutReplacement, MvNormalRV
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import as_size, as_sizes, canonical_dtype
from pytensor_jaxlink.lowering.domains import domain_conditions
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.lowering.samplers import sampler_of
from pytensor_jaxlink.lowering.streams import exponential, next_key, normal


@jax_rule.register(RandomVariable)
def _random_variable(op: RandomVariable, node: Apply, context: Context) -> JaxFunction:
    sampler = sampler_of(op) or jax_sample_fn(op, node=node)
    dtype = node.outputs[1].type.dtype
    conditions = domain_conditions(op, node) if context.checks else ()

    def draw(
        key: jax.Array, size: np.ndarray | None, *parameters: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        for condition in conditions:
            condition.require(parameters)
        shape = _shape(op, size, parameters)
        return next_key(key), sampler(key, shape, dtype, *parameters)

    return draw


@jax_rule.register(MvNormalRV)
def _multivariate_normal(op: MvNormalRV, node: Apply, context: Context) -> JaxFunction:
    """PyTensor's JAX sampler makes a covariance symmetric first; NumPy reads one triangle."""
    dtype = canonical_dtype(node.outputs[1].type.dtype)

    def draw(
        key: jax.Array, size: np.ndarray | None, mean: jax.Array, covariance: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        mean, covariance = jnp.asarray(mean, dtype), jnp.asarray(covariance, dtype)
        factor = _root(covariance, op.method)
        context.check(jnp.isfinite(factor))  # where there is none NumPy raises `LinAlgError`
        if mean.shape[-1] == 1 and covariance.shape[-1] != 1:
            raise ValueError(
                f"a mean of length 1 for covariances of {covariance.shape[-1]} numbers"
            )
        shape = _shape(op, size, (mean, covariance))
        drawn = normal(key, (*shape, mean.shape[-1]), dtype)
        return next_key(key), mean + jnp.einsum("...ij,...j->...i", factor, drawn)

    return draw


def _root(covariance: jax.Array, method: str) -> jax.Array:
    """A matrix that gives the covariance when it is multiplied by its transpose."""
    if method == "cholesky":
        return jax.lax.linalg.cholesky(covariance, symmetrize_input=False)
    if method == "svd":
        vectors, values, _ = jnp.linalg.svd(covariance)
    else:
        values, vectors = jnp.linalg.eigh(covariance, symmetrize_input=False)
    return vectors * jnp.sqrt(values)[..., None, :]


@jax_rule.register(ChoiceWithoutReplacement)
def _choice(op: ChoiceWithoutReplacement, node: Apply, context: Context) -> JaxFunction:
    """The places of the largest of ``log(p)`` plus Gumbel noise: Vieira, "Gumbel-max trick" (2014).

    `jax.random.choice` lets places with the chance 0 win.
    """
    core_ndim = op.ndims_params[0]

    def draw(
        key: jax.Array, size: np.ndarray | None, a: ArrayLike, *others: ArrayLike
    ) -> tuple[jax.Array, jax.Array]:
        *chances, wanted = others
        batch_shape = _shape(op, size, (a, *others))
        wanted = tuple(map(as_size, np.reshape(wanted, (-1, np.shape(wanted)[-1]))[0]))
        count, length = math.prod(wanted), _population(a, chances, core_ndim)
        if chances and core_ndim and np.shape(chances[0])[-1] != length:
            raise ValueError("the population and its chances have different lengths")
        if count > length:
            raise ValueError("cannot take a larger sample than the population")
        if chances and context.checks:
            _require_chances(chances[0], count)
            if core_ndim == 0:
                require(jnp.asarray(a) == length)
        kind = canonical_dtype("float64")
        scores = -jnp.log(exponential(key, (*batch_shape, length), kind))
        for p in chances:
            scores += jnp.log(jnp.asarray(p, kind))
        places = jax.lax.top_k(scores, count)[1]
        if core_ndim == 0:
            return next_key(key), places.reshape(batch_shape + wanted)
        entry = np.shape(a)[np.ndim(a) - core_ndim + 1 :]
        population = jnp.broadcast_to(a, (*batch_shape, length, *entry))
        places = places.reshape((*batch_shape, count, *[1] * len(entry)))
        found = jnp.take_along_axis(population, places, axis=len(batch_shape))
        return next_key(key), found.reshape(batch_shape + wanted + entry)

    return draw


def _population(a: ArrayLike, chances: Sequence[ArrayLike], core_ndim: int) -> int:
    """The number of entries to choose from."""
    if core_ndim:
        return np.shape(a)[np.ndim(a) - core_ndim]
    if chances:
        return np.shape(chances[0])[-1]
    [length] = {max(int(number), 0) for number in np.ravel(a)}
    return length


def _require_chances(p: ArrayLike, count: int) -> None:
    """State that NumPy takes them as the chances of entries of which so many are wanted."""
    p = jnp.asarray(p)
    precision = max(jnp.finfo(p.dtype).eps, np.finfo("float64").eps) ** 0.5
    require(p >= 0)
    total = jnp.asarray(p, canonical_dtype("float64")).sum(axis=-1)
    require(jnp.abs(total - 1) <= precision)
    require((p > 0).sum(axis=-1) >= count)


def _shape(
    op: RandomVariable, size: np.ndarray | None, parameters: tuple[ArrayLike, ...]
) -> tuple[int, ...]:
    """The shape of the draws, without what one draw has itself."""
    shapes = [
        np.shape(parameter)[: np.ndim(parameter) - core]
        for parameter, core in zip(parameters, op.ndims_params, strict=True)
    ]
    if size is not None:
        shape = as_sizes(size, op.dtype or "float64")
        for each in shapes:
            # JAX would stretch a length of 1 of the size; lengths that are open here are its own.
            if any(
                isinstance(length, int) and isinstance(wanted, int) and length not in (1, wanted)
                for length, wanted in zip(each[::-1], shape[::-1], strict=False)
            ):
                raise ValueError(f"parameters of the shape {each} do not fit the size {shape}")
        return shape
    return tuple(int(length) for length in np.broadcast_shapes(*shapes))
