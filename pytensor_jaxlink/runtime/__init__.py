"""Runs plans.  Needs JAX and NumPy, never PyTensor."""

from pytensor_jaxlink.runtime.executor import Executor as Executor
from pytensor_jaxlink.runtime.generators import generator_of_key as generator_of_key
from pytensor_jaxlink.runtime.generators import key_of_generator as key_of_generator
from pytensor_jaxlink.runtime.stats import Stats as Stats
