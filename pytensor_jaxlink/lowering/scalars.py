"""JAX functions of scalar Ops, where PyTensor has none or a less exact one.

They are functions of arrays: an `Elemwise` applies them to its broadcast inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special
from pytensor.gradient import NullTypeGradError, grad
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.scalar import basic, math
from pytensor.scalar.basic import ScalarOp
from pytensor.scalar.loop import ScalarLoop

from pytensor_jaxlink.errors import NotDifferentiableError
from pytensor_jaxlink.lowering.values import as_dtype, canonical_dtype

ScalarFunction = Callable[..., Any]


@singledispatch
def scalar_function(op: ScalarOp, node: Apply) -> ScalarFunction | None:
    """The function of arrays for a scalar Op, or None (the default) to use PyTensor's."""
    return None


@scalar_function.register(basic.Cast)
def _cast(op: basic.Cast, node: Apply) -> ScalarFunction | None:
    given, wanted = np.dtype(node.inputs[0].type.dtype), np.dtype(op.o_type.dtype)
    if given.kind == "f" and wanted.kind in "iu":
        return lambda value: _integer_of(jnp.asarray(value), wanted)
    if given.kind == "b" and wanted.kind != "b":
        return lambda value: as_dtype(value, wanted)
    return None


@scalar_function.register(basic.Add)
def _add(op: Any, node: Apply) -> ScalarFunction:
    return partial(_chained, lax.add, jnp.add)


@scalar_function.register(basic.Mul)
def _multiply(op: Any, node: Apply) -> ScalarFunction:
    return partial(_chained, lax.mul, jnp.multiply)


def _chained(plain: ScalarFunction, broadcasting: ScalarFunction, *values: Any) -> Any:
    """An operation of two numbers on any number of arrays; the plain one is traced faster."""
    result = values[0]
    for value in values[1:]:
        same = np.shape(result) == np.shape(value) and _plain_dtype(result) == _plain_dtype(value)
        result = plain(result, value) if same else broadcasting(result, value)
    return result


@scalar_function.register(math.Softplus)
def _softplus(op: Any, node: Apply) -> ScalarFunction:
    """With one exponential; PyTensor's, by cases, computes three, and XLA all cases."""
    return lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _plain_dtype(value: Any) -> Any:
    """The dtype; nothing is equal to that of a boolean, whose sum is no sum."""
    dtype = getattr(value, "dtype", None)
    return object() if dtype in (None, np.dtype("bool")) else dtype


def _integer_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Numbers out of range as NumPy converts them on common processors; XLA goes to the nearest.

    They wrap from the integer type that the processor converts to, and what does not fit that one,
    NaN and infinity included, becomes its smallest number.
    """
    word = np.dtype("int32" if dtype.itemsize < 4 or dtype == np.int32 else "int64")
    limit = float(2 ** (8 * word.itemsize - 1))
    beyond = (value >= limit) & (dtype == np.uint64)
    value = jnp.where(beyond, value - limit, value)
    fits = (value >= -limit) & (value < limit)
    smallest = jnp.asarray(np.iinfo(word).min, word)
    whole = jnp.where(fits, value.astype(word), smallest)
    return jnp.where(beyond & fits, whole ^ smallest, whole).astype(dtype)


# XLA takes these three from one exponential of the whole argument, and an argument near the end of
# the range, rounded once, costs the last two digits of a float32.


@scalar_function.register(basic.Exp2)
def _exp2(op: Any, node: Apply) -> ScalarFunction:
    def exp2(x: Any) -> Any:
        whole = jnp.round(x)
        exponent = jnp.clip(jnp.nan_to_num(whole), -3000, 3000).astype("int32")
        exact = jnp.ldexp(jnp.exp2(x - whole), exponent)
        return jnp.where(jnp.isinf(x), jnp.exp2(x), exact)

    return exp2 if _is_real(node) else jnp.exp2


@scalar_function.register(basic.Sinh)
def _sinh(op: Any, node: Apply) -> ScalarFunction:
    def sinh(x: Any) -> Any:
        root = jnp.exp(jnp.abs(x) / 2)  # its square would overflow before the result does
        large = jnp.sign(x) * (root / 2 * root - 0.5 / root / root)
        return jnp.where(jnp.abs(x) < 1, jnp.sinh(x), large)

    return sinh if _is_real(node) else jnp.sinh


@scalar_function.register(basic.Cosh)
def _cosh(op: Any, node: Apply) -> ScalarFunction:
    def cosh(x: Any) -> Any:
        root = jnp.exp(jnp.abs(x) / 2)
        return root / 2 * root + 0.5 / root / root

    return cosh if _is_real(node) else jnp.cosh


def _is_real(node: Apply) -> bool:
    return not node.inputs[0].type.dtype.startswith("complex")


@scalar_function.register(basic.Complex)
def _complex(op: basic.Complex, node: Apply) -> ScalarFunction:
    return jax.lax.complex


def _complex_from_polar(op: basic.ComplexFromPolar, node: Apply) -> ScalarFunction:
    return lambda radius, angle: jax.lax.complex(radius * jnp.cos(angle), radius * jnp.sin(angle))


@scalar_function.register(basic.RoundHalfAwayFromZero)
def _round_half_away_from_zero(op: Any, node: Apply) -> ScalarFunction:
    return lambda value: jnp.trunc(value + jnp.copysign(0.5, value))


def _gamma_lower(op: Any, node: Apply) -> ScalarFunction:
    return lambda k, x: special.gammainc(k, x) * special.gamma(k)


def _gamma_upper(op: Any, node: Apply) -> ScalarFunction:
    return lambda k, x: special.gammaincc(k, x) * special.gamma(k)


@scalar_function.register(math.TriGamma)
def _trigamma(op: math.TriGamma, node: Apply) -> ScalarFunction:
    """Reflected at zero: ``jax.scipy.special.polygamma`` is right for positive numbers only."""

    def trigamma(x: Any) -> Any:
        negative = x < 0
        value = special.polygamma(1, jnp.where(negative, 1 - x, x))
        value = jnp.where(jnp.isinf(x), 0.0, value)
        sine = jnp.sin(jnp.pi * (x - jnp.round(x)))  # exactly 0 at the poles
        return jnp.where(negative & ~jnp.isinf(x), (jnp.pi / sine) ** 2 - value, value)

    return trigamma


@scalar_function.register(math.I0)
@scalar_function.register(math.I1)
def _bessel_i(op: Any, node: Apply) -> ScalarFunction:
    scaled = special.i0e if isinstance(op, math.I0) else special.i1e

    def bessel_i(x: Any) -> Any:
        root = jnp.exp(jnp.abs(x) / 2)  # its square would overflow before the result does
        return jnp.where(jnp.isinf(x), jnp.copysign(jnp.inf, scaled(x)), scaled(x) * root * root)

    return bessel_i


@scalar_function.register(math.BetaInc)
def _betainc(op: math.BetaInc, node: Apply) -> ScalarFunction:
    """JAX has no gradient with respect to the first two arguments."""
    return with_own_gradient(special.betainc, op, node)


def with_own_gradient(function: ScalarFunction, op: Any, node: Apply) -> ScalarFunction:
    """The function of a scalar Op, which JAX differentiates by the Op's gradient in PyTensor."""
    inputs = [basic.get_scalar_type(v.type.dtype)() for v in node.inputs]

    @cache  # made when it is asked for: the gradient holds this Op again
    def slope(position: int) -> Callable[..., list[Any]]:
        cost: Any = op(*inputs)
        try:
            result: Any = grad(cost, inputs[position])
        except (NotImplementedError, NullTypeGradError) as error:
            raise NotDifferentiableError(
                f"JAX differentiates {op} with respect to its argument {position + 1}, and "
                "PyTensor has no such gradient. Keep that argument constant, or write the "
                "gradient as an OpFromGraph with a pullback."
            ) from error
        graph = FunctionGraph(inputs, [result], clone=True)
        return _composed(graph.toposort(), graph.inputs, graph.outputs)

    differentiable = jax.custom_jvp(function)

    def jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
        # Some gradients are loops, so only those that are asked for are computed.
        terms = [
            slope(position)(*primals)[0] * tangent
            for position, tangent in enumerate(tangents)
            if not isinstance(tangent, jax.custom_derivatives.SymbolicZero)
        ]
        return differentiable(*primals), sum(terms)

    differentiable.defjvp(jvp, symbolic_zeros=True)
    return lambda *values: differentiable(*jnp.broadcast_arrays(*values))


# Newton's steps for `ndtri_exp`: they converge quadratically from the asymptote, and from -2 on
# nothing is gained after this many (checked against SciPy over the whole range).
_NEWTON_STEPS = 8


def ndtri_exp(y: Any) -> Any:
    """The inverse of the logarithm of the normal distribution function.

    ``ndtri(exp(y))`` underflows below -745; there the equation ``log_ndtr(x) = y`` is solved.
    """
    y = jnp.asarray(y)
    low = jnp.where(y < -2, y, -2.0)
    # The square is kept from overflowing; for such arguments the first guess is exact.
    x = guess = -jnp.sqrt(2.0) * jnp.sqrt(-low)
    for _ in range(_NEWTON_STEPS):
        value = special.log_ndtr(x)
        slope = jnp.exp(-0.5 * x**2 - 0.5 * jnp.log(2 * jnp.pi) - value)
        x = x - (value - low) / slope
    x = jnp.where(jnp.isfinite(x), x, guess)
    near_zero = -special.ndtri(-jnp.expm1(y))
    middle = special.ndtri(jnp.exp(y))
    return jnp.where(y < -2, x, jnp.where(y > -0.1, near_zero, middle))


def _ndtri_exp(op: Any, node: Apply) -> ScalarFunction:
    return ndtri_exp


# Ops that one of the supported versions of PyTensor does not have.
for _module, _name, _rule in (
    (basic, "ComplexFromPolar", _complex_from_polar),
    (math, "GammaL", _gamma_lower),
    (math, "GammaU", _gamma_upper),
    (math, "NdtriExp", _ndtri_exp),
):
    if hasattr(_module, _name):
        scalar_function.register(getattr(_module, _name), _rule)


@scalar_function.register(ScalarLoop)
def _scalar_loop(op: ScalarLoop, node: Apply) -> ScalarFunction:
    """One loop for all elements, which ends when it has ended for each."""
    step = _composed(op.fgraph.toposort(), op.fgraph.inputs, op.fgraph.outputs)
    carried = len(op.outputs) - int(op.is_while)
    dtypes = [variable.type.dtype for variable in op.outputs]

    def scalar_loop(steps: Any, *values: Any) -> Any:
        limit, *inputs = jnp.broadcast_arrays(steps, *values)
        start, constant = inputs[:carried], inputs[carried:]
        state = tuple(
            jnp.asarray(entry, canonical_dtype(dtype))
            for entry, dtype in zip(start, dtypes[:carried], strict=True)
        )

        def goes_on(loop: Any) -> Any:
            made, _, done = loop
            return ((made < limit) & ~done).any()

        def body(loop: Any) -> Any:
            made, state, done = loop
            active = (made < limit) & ~done
            outputs = step(*state, *constant)
            state = tuple(
                jnp.where(active, jnp.asarray(new, old.dtype), old)
                for new, old in zip(outputs[:carried], state, strict=True)
            )
            if op.is_while:
                done = jnp.where(active, outputs[-1], done)
            return made + 1, state, done

        loop = (jnp.zeros((), limit.dtype), state, jnp.zeros(limit.shape, bool))
        _, state, done = jax.lax.while_loop(goes_on, body, loop)
        outputs = (*state, done) if op.is_while else state
        return outputs if len(outputs) > 1 else outputs[0]

    return scalar_loop


def _composed(
    nodes: Sequence[Apply], inputs: Sequence[Any], outputs: Sequence[Any]
) -> Callable[..., list[Any]]:
    """A graph of scalar Ops as a function of arrays."""
    functions = [scalar_function(n.op, n) or jax_funcify(n.op, node=n) for n in nodes]

    def composed(*values: Any) -> list[Any]:
        known = dict(zip(inputs, values, strict=True))

        def value_of(variable: Any) -> Any:
            return np.asarray(variable.data) if isinstance(variable, Constant) else known[variable]

        for node, function in zip(nodes, functions, strict=True):
            results = function(*map(value_of, node.inputs))
            results = results if isinstance(results, tuple | list) else (results,)
            for variable, result in zip(node.outputs, results, strict=True):
                dtype = canonical_dtype(variable.type.dtype)
                known[variable] = jnp.asarray(result, dtype=dtype)
        return list(map(value_of, outputs))

    return composed
