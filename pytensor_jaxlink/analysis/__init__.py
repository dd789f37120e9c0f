"""When each value is known, and which values are static.  Needs PyTensor, never JAX."""

from pytensor_jaxlink.analysis.binding import BindingTime as BindingTime
from pytensor_jaxlink.analysis.binding import binding_times as binding_times
from pytensor_jaxlink.analysis.binding import input_binding_times as input_binding_times
from pytensor_jaxlink.analysis.binding_checker import check_binding_times as check_binding_times
from pytensor_jaxlink.analysis.facts import Callback as Callback
from pytensor_jaxlink.analysis.facts import InnerAnalysis as InnerAnalysis
from pytensor_jaxlink.analysis.facts import NodeFacts as NodeFacts
from pytensor_jaxlink.analysis.facts import Obstacle as Obstacle
from pytensor_jaxlink.analysis.facts import Questions as Questions
from pytensor_jaxlink.analysis.facts import called as called
from pytensor_jaxlink.analysis.facts import facts_of as facts_of
from pytensor_jaxlink.analysis.facts import has_callbacks as has_callbacks
from pytensor_jaxlink.analysis.intervals import Interval as Interval
from pytensor_jaxlink.analysis.intervals import interval_of as interval_of
from pytensor_jaxlink.analysis.ranges import MOVING as MOVING
from pytensor_jaxlink.analysis.ranges import Range as Range
from pytensor_jaxlink.analysis.ranges import is_a_count as is_a_count
from pytensor_jaxlink.analysis.ranges import range_of as range_of
