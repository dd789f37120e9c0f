"""Where each node runs: the fewest regions, and the host steps between them.  Never needs JAX."""

from pytensor_jaxlink.partition.liveness import Cut as Cut
from pytensor_jaxlink.partition.liveness import Partition as Partition
from pytensor_jaxlink.partition.liveness import RegionDraft as RegionDraft
from pytensor_jaxlink.partition.liveness import SlotDraft as SlotDraft
from pytensor_jaxlink.partition.liveness import select as select
from pytensor_jaxlink.partition.schedule import Placement as Placement
from pytensor_jaxlink.partition.schedule import Schedule as Schedule
from pytensor_jaxlink.partition.schedule import schedule as schedule
from pytensor_jaxlink.partition.sink import sink as sink
