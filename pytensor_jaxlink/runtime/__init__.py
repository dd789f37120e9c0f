"""Runs plans.  Needs JAX and NumPy, never PyTensor."""

from pytensor_jaxlink.runtime.executor import Executor as Executor
from pytensor_jaxlink.runtime.specialisation import Policy as Policy
from pytensor_jaxlink.runtime.stats import Stats as Stats
