"""The questions the linker asks about an Op, one open table each.  Needs PyTensor, never JAX."""

from pytensor_jaxlink.ops.contraction import Contraction as Contraction
from pytensor_jaxlink.ops.control_flow import Branch as Branch
from pytensor_jaxlink.ops.control_flow import WhileLoop as WhileLoop
from pytensor_jaxlink.ops.control_flow import measured_outputs as measured_outputs
from pytensor_jaxlink.ops.data_inputs import data_inputs as data_inputs
from pytensor_jaxlink.ops.fitting import Fitted as Fitted
from pytensor_jaxlink.ops.fitting import Indexable as Indexable
from pytensor_jaxlink.ops.fitting import Merged as Merged
from pytensor_jaxlink.ops.fitting import Stretched as Stretched
from pytensor_jaxlink.ops.fitting import overlap as overlap
from pytensor_jaxlink.ops.inner_graph import NestedGraph as NestedGraph
from pytensor_jaxlink.ops.inner_graph import inner_graphs as inner_graphs
from pytensor_jaxlink.ops.op_remedies import callback as callback
from pytensor_jaxlink.ops.op_remedies import remedies as remedies
from pytensor_jaxlink.ops.op_remedies import remedies_of_size as remedies_of_size
from pytensor_jaxlink.ops.output_shapes import OutputShapes as OutputShapes
from pytensor_jaxlink.ops.output_shapes import UnknownShapes as UnknownShapes
from pytensor_jaxlink.ops.output_shapes import output_shapes as output_shapes
from pytensor_jaxlink.ops.output_shapes import standing_alone as standing_alone
from pytensor_jaxlink.ops.shape_inputs import shape_inputs as shape_inputs
from pytensor_jaxlink.ops.shaped import Shaped as Shaped
from pytensor_jaxlink.ops.static_inputs import can_be_static as can_be_static
from pytensor_jaxlink.ops.static_inputs import static_inputs as static_inputs
from pytensor_jaxlink.ops.windows import Realign as Realign
from pytensor_jaxlink.ops.windows import Window as Window
from pytensor_jaxlink.ops.windows import WindowUpdate as WindowUpdate
