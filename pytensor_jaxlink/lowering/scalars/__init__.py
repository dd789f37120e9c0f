"""JAX functions of scalar Ops, where PyTensor has none or a less exact one.

They are functions of arrays: an `Elemwise` applies them to its broadcast inputs.
"""

from pytensor_jaxlink.lowering.scalars import arithmetic as _arithmetic
from pytensor_jaxlink.lowering.scalars import comparisons as _comparisons
from pytensor_jaxlink.lowering.scalars import conversions as _conversions
from pytensor_jaxlink.lowering.scalars import divisions as _divisions
from pytensor_jaxlink.lowering.scalars import gammas as _gammas
from pytensor_jaxlink.lowering.scalars import powers as _powers
from pytensor_jaxlink.lowering.scalars import signs as _signs
from pytensor_jaxlink.lowering.scalars.composites import with_own_gradient as with_own_gradient
from pytensor_jaxlink.lowering.scalars.question import ScalarFunction as ScalarFunction
from pytensor_jaxlink.lowering.scalars.question import scalar_function as scalar_function
from pytensor_jaxlink.lowering.scalars.special_functions import ndtri_exp as ndtri_exp

# Importing these modules registers their functions.
FUNCTIONS = (_arithmetic, _comparisons, _conversions, _divisions, _gammas, _powers, _signs)
