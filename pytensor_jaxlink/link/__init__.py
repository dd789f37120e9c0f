"""PyTensor's side: the linker, the modes, and the functions they make."""

from pytensor_jaxlink.link.explain import explain as explain
from pytensor_jaxlink.link.explanation import Explanation as Explanation
from pytensor_jaxlink.link.jax_function import JAXFunction as JAXFunction
from pytensor_jaxlink.link.jaxify import PureFunction as PureFunction
from pytensor_jaxlink.link.jaxify import jaxify as jaxify
from pytensor_jaxlink.link.linker import JAXLinker as JAXLinker
from pytensor_jaxlink.link.modes import register_with_pytensor as register_with_pytensor
