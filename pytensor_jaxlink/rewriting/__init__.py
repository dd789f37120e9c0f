"""Which rewrites a graph goes through, PyTensor's and our own.  Never needs JAX."""

from pytensor_jaxlink.rewriting.masks import register as register
from pytensor_jaxlink.rewriting.prepare import prepare as prepare
from pytensor_jaxlink.rewriting.selection import INCOMPATIBLE_REWRITES as INCOMPATIBLE_REWRITES
from pytensor_jaxlink.rewriting.selection import REQUIRED_REWRITES as REQUIRED_REWRITES
from pytensor_jaxlink.rewriting.selection import default_query as default_query
