"""The plan, as pure data: the seam between compiling and running.  Needs neither library."""

from pytensor_jaxlink.plan.executable import Executable as Executable
from pytensor_jaxlink.plan.executable import HostExecuted as HostExecuted
from pytensor_jaxlink.plan.kinds import ARRAYS as ARRAYS
from pytensor_jaxlink.plan.kinds import Kind as Kind
from pytensor_jaxlink.plan.kinds import fits as fits
from pytensor_jaxlink.plan.loop import LoopLayout as LoopLayout
from pytensor_jaxlink.plan.loop import StepOutputs as StepOutputs
from pytensor_jaxlink.plan.schema import BOUNDS as BOUNDS
from pytensor_jaxlink.plan.schema import MASK as MASK
from pytensor_jaxlink.plan.schema import WHOLE as WHOLE
from pytensor_jaxlink.plan.schema import CutOff as CutOff
from pytensor_jaxlink.plan.schema import Fetch as Fetch
from pytensor_jaxlink.plan.schema import HostBranch as HostBranch
from pytensor_jaxlink.plan.schema import HostLoop as HostLoop
from pytensor_jaxlink.plan.schema import HostStep as HostStep
from pytensor_jaxlink.plan.schema import Plan as Plan
from pytensor_jaxlink.plan.schema import Region as Region
from pytensor_jaxlink.plan.schema import Step as Step
from pytensor_jaxlink.plan.schema import check_plan as check_plan
from pytensor_jaxlink.plan.schema import how_many as how_many
