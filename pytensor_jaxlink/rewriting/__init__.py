"""Which of PyTensor's rewrites a graph goes through.  Never needs JAX."""

from pytensor_jaxlink.rewriting.selection import INCOMPATIBLE_REWRITES as INCOMPATIBLE_REWRITES
from pytensor_jaxlink.rewriting.selection import REQUIRED_REWRITES as REQUIRED_REWRITES
from pytensor_jaxlink.rewriting.selection import default_query as default_query
