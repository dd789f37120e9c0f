"""The part that each input of a node plays for JAX, three questions.

Which inputs must be concrete when JAX traces the node (sizes), on the contents of which data does
the shape of its output depend, and of which inputs does it read the shape alone?
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.scan.op import Scan
from pytensor.sparse.basic import CSM
from pytensor.tensor.basic import Alloc, AllocEmpty, ARange, Eye, Join, Nonzero, Split
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.extra_ops import (
    Bartlett,
    RavelMultiIndex,
    Repeat,
    Unique,
    UnravelIndex,
)
from pytensor.tensor.fft import IRFFTOp, RFFTOp
from pytensor.tensor.fourier import Fourier
from pytensor.tensor.random.basic import ChoiceWithoutReplacement
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.reshape import SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.signal import conv
from pytensor.tensor.signal.conv import Convolve1d
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)
from pytensor.tensor.type import discrete_dtypes, float_dtypes
from pytensor.tensor.type_other import NoneTypeT

from pytensor_jaxlink.compat import core_node
from pytensor_jaxlink.graph import ArrayType, GraphVariable, first_index
from pytensor_jaxlink.ops.assumption import StaticAssumption
from pytensor_jaxlink.ops.control_flow import WhileLoop
from pytensor_jaxlink.ops.dynamic_slice_ops import DynamicSlice, Realign


@singledispatch
def static_inputs(op: Op, node: Apply) -> Sequence[int]:
    """Positions of the inputs of ``node`` that JAX must know when it traces the node.

    This table is open: teach the linker a third-party Op with one decorated function.  The
    default, none, is right for every Op whose output shapes follow from its input shapes; where
    it is wrong, tracing fails, and the linker records the failure.

    Parameters
    ----------
    op : Op
        Selects the rule, by its class.
    node : Apply
        The application, for rules that look at the inputs' types.

    Returns
    -------
    sequence of int
        Positions in ``node.inputs``.  They reach the JAX rule of the Op as NumPy arrays.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> from pytensor_jaxlink import static_inputs
    >>> node = pt.vector("x").reshape((pt.lscalar("n"), 2)).owner
    >>> static_inputs(node.op, node)
    (1,)

    An Op that repeats its first input as often as its second says:

    >>> from pytensor.graph.op import Op
    >>> class RepeatEach(Op):
    ...     pass
    >>> @static_inputs.register(RepeatEach)
    ... def static_inputs_of_repeat_each(op, node):
    ...     return (1,)
    """
    return ()


def can_be_static(variable: GraphVariable) -> bool:
    """Return True if the values of a variable may select a specialisation of a region.

    Scalars of any kind and vectors of integers do: they are sizes, counts and bounds.  Larger
    arrays and boolean vectors are data; one compilation for each of their values would be absurd,
    so a node that needs them runs on the host instead (see `data_inputs`).
    """
    kind = variable.type
    if not isinstance(kind, ArrayType):
        # Scalars outside tensors (ScalarFromTensor makes them) carry slice bounds.
        return hasattr(kind, "dtype") and getattr(kind, "ndim", None) == 0
    if kind.ndim == 0:
        return not kind.dtype.startswith("complex")
    return kind.ndim == 1 and kind.dtype in discrete_dtypes and kind.dtype != "bool"


def is_real_number(variable: GraphVariable) -> bool:
    """Return True for a real number, which takes any value where the function computes it.

    One compilation for each of its values would be one for each call.
    """
    return getattr(variable.type, "dtype", None) in float_dtypes


def _all_inputs(node: Apply) -> tuple[int, ...]:
    return tuple(range(len(node.inputs)))


@static_inputs.register(Repeat)
def _static_inputs_repeat(op: Repeat, node: Apply) -> tuple[int, ...]:
    return (1,) if node.inputs[1].type.ndim == 0 else ()  # a vector of counts is data


@static_inputs.register(IRFFTOp)
@static_inputs.register(RFFTOp)
@static_inputs.register(Reshape)
@static_inputs.register(SplitDims)
@static_inputs.register(UnravelIndex)
def _static_inputs_second(op: Op, node: Apply) -> tuple[int, ...]:
    return (1,)


@static_inputs.register(Realign)
@static_inputs.register(DynamicSlice)
@static_inputs.register(CSM)
@static_inputs.register(Convolve1d)
@static_inputs.register(RavelMultiIndex)
def _static_inputs_last(op: Op, node: Apply) -> tuple[int, ...]:
    return (len(node.inputs) - 1,)


@static_inputs.register(Alloc)
@static_inputs.register(Fourier)
@static_inputs.register(ArgSortOp)  # until PyTensor 3.1 the axis of a sort was an input
@static_inputs.register(SortOp)
@static_inputs.register(Split)
@static_inputs.register(StaticAssumption)
def _static_inputs_after_first(op: Op, node: Apply) -> tuple[int, ...]:
    return _all_inputs(node)[1:]


@static_inputs.register(Join)
def _static_inputs_join(op: Join, node: Apply) -> tuple[int, ...]:
    # Until PyTensor 3.1 the axis was an input.
    return () if hasattr(op, "axis") else (0,)


@static_inputs.register(Blockwise)
def _static_inputs_blockwise(op: Blockwise, node: Apply) -> tuple[int, ...]:
    """Those of the core Op that have one value for the whole batch."""
    values = _values_of_batch(node)
    return tuple(p for p, one in values.items() if one and _is_size(node.inputs[p]))


def _values_of_batch(node: Apply) -> dict[int, bool]:
    """The inputs that a core Op reads as values, with whether all elements have the same."""
    kind = type(node.op.core_op)
    if all(
        table.dispatch(kind) is table.dispatch(object) for table in (static_inputs, data_inputs)
    ):
        return {}  # as most; to make a node takes longer
    core = core_node(node)
    return {
        position: all(
            length == 1 for length in outer.type.shape[: outer.type.ndim - inner.type.ndim]
        )
        for position, (outer, inner) in enumerate(zip(node.inputs, core.inputs, strict=True))
        if position in {*static_inputs(core.op, core), *data_inputs(core.op, core)}
    }


def _is_size(variable: Variable) -> bool:
    return isinstance(variable, Constant) or can_be_static(variable)


def reads_values_of_elements(node: Apply) -> bool:
    """Return True for a `Blockwise` whose core Op needs other sizes or data for each element."""
    return not all(_values_of_batch(node).values())


if hasattr(conv, "Convolve2d"):  # from PyTensor 3.0
    static_inputs.register(conv.Convolve2d, _static_inputs_last)


@static_inputs.register(AllocEmpty)
@static_inputs.register(ARange)
@static_inputs.register(Bartlett)
@static_inputs.register(Eye)
def _static_inputs_all(op: Op, node: Apply) -> tuple[int, ...]:
    return _all_inputs(node)


@static_inputs.register(OpFromGraph)
def _static_inputs_op_from_graph(op: OpFromGraph, node: Apply) -> tuple[int, ...]:
    return ()  # the static inputs of its inner graph are found by analysing that graph


@static_inputs.register(Scan)
def _static_inputs_scan(op: Scan, node: Apply) -> tuple[int, ...]:
    return (0, *_lengths_of_traces(op, node))


@static_inputs.register(WhileLoop)
def _static_inputs_while_loop(op: WhileLoop, node: Apply) -> tuple[int, ...]:
    return _lengths_of_traces(op.scan, node)


def _lengths_of_traces(op: Scan, node: Apply) -> tuple[int, ...]:
    """The inputs of a scan that say how many entries its free outputs keep."""
    first = len(node.inputs) - len(op.outer_non_seqs(node.inputs)) - op.info.n_nit_sot
    return tuple(range(first, first + op.info.n_nit_sot))


@static_inputs.register(RandomVariable)
def _static_inputs_random_variable(op: RandomVariable, node: Apply) -> tuple[int, ...]:
    return () if isinstance(node.inputs[1].type, NoneTypeT) else (1,)


@static_inputs.register(ChoiceWithoutReplacement)
def _static_inputs_choice(op: ChoiceWithoutReplacement, node: Apply) -> tuple[int, ...]:
    # A number stands for the numbers below it; with chances, these say how many there are.
    counted = () if op.ndims_params[0] or op.has_p_param else (2,)
    return (*_static_inputs_random_variable(op, node), *counted, len(node.inputs) - 1)


@static_inputs.register(AdvancedIncSubtensor)
@static_inputs.register(AdvancedSubtensor)
@static_inputs.register(IncSubtensor)
@static_inputs.register(Subtensor)
def _static_inputs_slice_bounds(op: Op, node: Apply) -> tuple[int, ...]:
    bounds = {
        first_index(op) + part
        for entry in node.op.idx_list
        if isinstance(entry, slice)
        for part in (entry.start, entry.stop, entry.step)
        if part is not None
    }
    return tuple(sorted(bounds))


# -- data -----------------------------------------------------------------------------------------


@singledispatch
def data_inputs(op: Op, node: Apply) -> Sequence[int]:
    """Positions of the array inputs whose *contents* JAX would have to know to trace the node.

    Unlike the sizes of `static_inputs` these are data: nobody wants one compilation for each mask.
    Where their values follow from shapes (the mask of a triangle) they are computed by NumPy while
    JAX traces; otherwise the node runs on the host.  The default is none.
    """
    return ()


@data_inputs.register(Nonzero)
@data_inputs.register(Unique)
def _data_inputs_all(op: Op, node: Apply) -> tuple[int, ...]:
    return tuple(range(len(node.inputs)))


@data_inputs.register(Blockwise)
def _data_inputs_blockwise(op: Blockwise, node: Apply) -> tuple[int, ...]:
    values = _values_of_batch(node)
    return tuple(p for p, one in values.items() if one and not _is_size(node.inputs[p]))


@data_inputs.register(Repeat)
def _data_inputs_repeat(op: Repeat, node: Apply) -> tuple[int, ...]:
    return (1,) if node.inputs[1].type.ndim > 0 else ()


@data_inputs.register(AdvancedIncSubtensor)
@data_inputs.register(AdvancedSubtensor)
def _data_inputs_masks(op: Op, node: Apply) -> tuple[int, ...]:
    positions = {
        first_index(op) + entry for entry in node.op.idx_list if not isinstance(entry, slice)
    }
    return tuple(sorted(p for p in positions if _is_mask(node.inputs[p])))


def _is_mask(variable: Variable) -> bool:
    return getattr(variable.type, "dtype", None) == "bool"


# -- shapes ---------------------------------------------------------------------------------------


@singledispatch
def shape_inputs(op: Op, node: Apply) -> tuple[int, ...]:
    """Positions of the inputs of which ``op`` reads the shape and not the values.

    The default, none, is the safe side: the output then counts as known only where every input is.
    """
    return ()


@shape_inputs.register(Shape)
@shape_inputs.register(Shape_i)
def _shape_inputs_shape(op: Op, node: Apply) -> tuple[int, ...]:
    return (0,)
