"""The rules of PyTensor's optimisers, and which of SciPy's methods stay on the host.

The gradients of the Ops are implicit, as graphs of PyTensor.  Where JAX differentiates, the inner
graph has been rewritten and PyTensor has no gradient of it, so the same theorem is applied again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.optimize import (
    MinimizeScalarOp,
    RootOp,
    RootScalarOp,
    ScipyWrapperOp,
)

from pytensor_jaxlink.lowering.checks import (
    collecting,
    is_differentiable,
    one_condition,
    require,
)
from pytensor_jaxlink.lowering.optimisation.brent import brent
from pytensor_jaxlink.lowering.optimisation.hybrid import hybrid
from pytensor_jaxlink.lowering.optimisation.roots import brentq, newton, secant
from pytensor_jaxlink.lowering.optimisation.search import Evaluate
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.lowering.rules import not_right


@dataclass(frozen=True)
class _Method:
    """A method of SciPy that has an implementation here.

    Attributes
    ----------
    follow
        From the equation, a start or a bracket, and options: the solution, whether it is one, and
        whether the conditions of the equation held.
    reads
        How many outputs of the inner graph it reads: values, slopes, curvatures.
    options
        The options of SciPy that it takes.
    bracket
        The bracket, where none is given.  A method that starts at a point has no bracket.
    """

    follow: Callable[..., tuple[jax.Array, jax.Array, jax.Array]]
    reads: int
    options: tuple[str, ...]
    bracket: tuple[float, ...] | None = None


def _system(
    evaluate: Evaluate, start: jax.Array, **options: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A system of equations, of which one may be a number."""
    count = max(start.size, 1)

    def of_vector(point: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        (values, slopes), holds = evaluate(point.reshape(start.shape))
        return [values.reshape(count), slopes.reshape(count, count)], holds

    solution, solved, holds = hybrid(of_vector, start.reshape(count), **options)
    return solution.reshape(start.shape), solved, holds


_TOLERANCES = ("xtol", "rtol", "maxiter")
_METHODS: dict[tuple[type[Op], str], _Method] = {
    (MinimizeScalarOp, "brent"): _Method(brent, 1, ("xtol", "maxiter"), (0.0, 1.0)),
    (RootScalarOp, "brentq"): _Method(brentq, 1, _TOLERANCES, ()),
    (RootScalarOp, "halley"): _Method(newton, 3, _TOLERANCES),
    (RootScalarOp, "newton"): _Method(newton, 2, _TOLERANCES),
    (RootScalarOp, "secant"): _Method(secant, 1, (*_TOLERANCES, "x1")),
    (RootOp, "hybr"): _Method(_system, 2, ("xtol", "maxfev", "factor")),
}


@not_right.register(ScipyWrapperOp)
def _not_right_optimiser(op: Any, node: Apply) -> str | None:
    method = _METHODS.get((type(op), op.method))
    if method is None:
        return (
            "SciPy's method decides by its path which solution it finds, how far it goes, and "
            f"whether that counts as success; {op.method} has no implementation that takes that "
            "path"
        )
    start, *_ = op.inner_inputs
    if any(v.type.dtype != "float64" for v in (start, *op.inner_outputs)) or start.type.ndim > 1:
        return "SciPy's methods compute with float64, numbers or vectors"
    if len(op.inner_outputs) < method.reads:
        return "SciPy approximates its derivatives by differences; give jac=True"
    settings = _settings(op)
    if settings is None or not {*settings} <= {*method.options, "bracket"}:
        return f"it has options of SciPy's {op.method} that only SciPy knows"
    if method.bracket == () and "bracket" not in {*settings, *_bounds(op)}:
        return f"SciPy refuses {op.method} without a bracket"
    return None


@jax_rule.register(MinimizeScalarOp)
@jax_rule.register(RootOp)
@jax_rule.register(RootScalarOp)
def _optimiser(op: Any, node: Apply, context: Context) -> JaxFunction:
    [inner] = context.inner
    function, count = context.lower_inner(inner), len(op.inner_inputs)
    method, settings = _METHODS[type(op), op.method], _settings(op) or {}
    known_bracket = settings.pop("bracket", method.bracket)

    def optimiser(*inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        start, *arguments = inputs[:count]
        bracket = inputs[count] if len(inputs) > count else known_bracket
        # SciPy looks at the bracket only where the method has one.
        where = jnp.asarray(start if method.bracket is None else bracket, "float64")

        def evaluate(point: jax.Array) -> tuple[list[jax.Array], jax.Array]:
            with collecting() as conditions:
                outputs = function(point, *arguments)
            return list(outputs[: method.reads]), one_condition(conditions)

        def equation(point: jax.Array) -> jax.Array:
            return evaluate(point)[0][0]

        def solve(equation: object, start: object) -> tuple[jax.Array, tuple[jax.Array, ...]]:
            solution, *ending = method.follow(evaluate, where, **settings)
            # JAX 0.10 has no tangents of booleans here.
            return solution, tuple(flag.astype("float64") for flag in ending)

        if not is_differentiable():
            solution, solved, holds = method.follow(evaluate, where, **settings)
        else:
            implicit = jax.grad(equation) if isinstance(op, MinimizeScalarOp) else equation
            solution, flags = jax.lax.custom_root(
                implicit, jnp.asarray(start), solve, _solve_tangents, has_aux=True
            )
            solved, holds = (flag > 0 for flag in flags)
        # Where the search fails, or a condition of the equation does, SciPy finishes the call.
        require(solved & holds)
        return solution, solved

    return optimiser


def _solve_tangents(linear: Callable[[jax.Array], jax.Array], tangents: jax.Array) -> jax.Array:
    """The implicit function theorem, for a number or a vector of equations."""
    matrix = jax.jacobian(linear)(jnp.zeros_like(tangents))
    return tangents / matrix if tangents.ndim == 0 else jnp.linalg.solve(matrix, tangents)


def _bounds(op: object) -> tuple[str, ...]:
    """The options of SciPy that are inputs of the node."""
    return getattr(op, "bound_kwargs", ())


def _settings(op: Any) -> dict[str, float] | None:
    """The options of SciPy's method as numbers, or None where one is something else."""
    if {*_bounds(op)} - {"bracket"}:
        return None
    settings = dict(op.optimizer_kwargs)
    settings |= settings.pop("options", None) or {}
    if "tol" in settings and not isinstance(op, RootScalarOp):
        settings.setdefault("xtol", settings.pop("tol"))
    numbers = [value for name, value in settings.items() if name != "bracket"]
    numbers += settings.get("bracket", ())
    ok = all(type(number) in {int, float} for number in numbers)
    return settings if ok and all(settings.get(n, 1) > 0 for n in ("xtol", "maxiter")) else None
