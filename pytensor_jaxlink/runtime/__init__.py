"""Runs plans.  Needs JAX and NumPy, never PyTensor."""

from pytensor_jaxlink.runtime.compilation import Windows as Windows
from pytensor_jaxlink.runtime.compilation import compilation_folder as compilation_folder
from pytensor_jaxlink.runtime.compilation import has_compilation_cache as has_compilation_cache
from pytensor_jaxlink.runtime.compilation import problem_of_options as problem_of_options
from pytensor_jaxlink.runtime.compilation import use_compilation_cache as use_compilation_cache
from pytensor_jaxlink.runtime.conditions import Condition as Condition
from pytensor_jaxlink.runtime.devices import ARRAY as ARRAY
from pytensor_jaxlink.runtime.devices import commit as commit
from pytensor_jaxlink.runtime.devices import named_device as named_device
from pytensor_jaxlink.runtime.devices import note_different_devices as note_different_devices
from pytensor_jaxlink.runtime.devices import place_for as place_for
from pytensor_jaxlink.runtime.devices import placed_as as placed_as
from pytensor_jaxlink.runtime.devices import to_numpy as to_numpy
from pytensor_jaxlink.runtime.devices import traced_explicitly as traced_explicitly
from pytensor_jaxlink.runtime.donated import refuse_donated as refuse_donated
from pytensor_jaxlink.runtime.executor import Executor as Executor
from pytensor_jaxlink.runtime.interrupts import store as store
from pytensor_jaxlink.runtime.last_region import LastRegion as LastRegion
from pytensor_jaxlink.runtime.last_region import Stored as Stored
from pytensor_jaxlink.runtime.last_region import ready_as as ready_as
from pytensor_jaxlink.runtime.reuse import Donatable as Donatable
from pytensor_jaxlink.runtime.specialisation import Policy as Policy
from pytensor_jaxlink.runtime.stats import Stats as Stats
from pytensor_jaxlink.runtime.straight import Boundary as Boundary
from pytensor_jaxlink.runtime.straight import is_one_region as is_one_region
