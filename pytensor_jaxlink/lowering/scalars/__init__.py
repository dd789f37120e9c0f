"""JAX functions of scalar Ops, where PyTensor has none or a less exact one.

They are functions of arrays: an `Elemwise` applies them to its broadcast inputs.
"""

from pytensor_jaxlink.lowering.scalars import (
    arithmetic,
    comparisons,
    composites,
    conversions,
    divisions,
    gammas,
    powers,
    signs,
    special_functions,
)
from pytensor_jaxlink.lowering.scalars.composites import with_own_gradient
from pytensor_jaxlink.lowering.scalars.question import ScalarFunction, scalar_function
from pytensor_jaxlink.lowering.scalars.special_functions import ndtri_exp

__all__ = [
    "ScalarFunction",
    "arithmetic",
    "comparisons",
    "composites",
    "conversions",
    "divisions",
    "gammas",
    "ndtri_exp",
    "powers",
    "scalar_function",
    "signs",
    "special_functions",
    "with_own_gradient",
]
