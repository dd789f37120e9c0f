"""Classes of users that inherit from Ops with a JAX implementation, and compute other values."""

from __future__ import annotations

from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.lowering.domains import name_of_distribution
from pytensor_jaxlink.lowering.rule import jax_rule
from pytensor_jaxlink.lowering.samplers import SAMPLERS
from pytensor_jaxlink.lowering.scalars import scalar_function
from pytensor_jaxlink.ops import is_foreign_module

# A class that defines one of these computes its own values.
_COMPUTE = (
    "perform", "impl", "nfunc_spec", "rng_fn", "rng_fn_scipy",
    "make_thunk", "make_py_thunk", "prepare_node",
)  # fmt: skip

# The rules of these ask the Op.
_GENERAL = object, RandomVariable, ScalarOp


def override_of(kind: type) -> str | None:
    """Why the JAX implementation that a class inherits is not its own, or None."""
    tables = jax_rule.registry, scalar_function.registry, jax_funcify.registry
    method = None
    for each in kind.__mro__:
        drawn = each in jax_sample_fn.registry or name_of_distribution(each) in SAMPLERS
        if drawn or any(each in table for table in tables):
            if method is None or each in _GENERAL:
                return None
            rule = f"the JAX implementation of {each.__name__} computes other values"
            return f"{kind.__name__} replaces `{method}`, so that {rule}"
        if is_foreign_module(each.__module__):
            method = method or next((name for name in _COMPUTE if name in vars(each)), None)
    return None
