"""Nodes that JAX cannot run and calls: `jax.pure_callback`.

What is called runs on a thread of XLA and never calls JAX, which could wait there for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.blockwise import Blockwise

from pytensor_jaxlink.errors import BrokenShapeError
from pytensor_jaxlink.graph import op_name
from pytensor_jaxlink.lowering.checks import are_read, require
from pytensor_jaxlink.lowering.coercion import canonical_dtype
from pytensor_jaxlink.lowering.derivatives import Derivatives
from pytensor_jaxlink.lowering.host_functions import HostFunction, graph_on_host
from pytensor_jaxlink.ops import OutputShapes, Shaped, shape_inputs, standing_alone
from pytensor_jaxlink.remedies import Remedy

Promise = tuple[tuple[tuple[int, ...], np.dtype], ...]
Arrays = tuple[np.ndarray, ...]


class HostCall:
    """The JAX function of a node that runs on the host.

    Where somebody looks at the conditions of the region, the function never fails: it gives zeros
    and requires a false condition, and the call is finished by PyTensor's own implementation, which
    raises what it raises.  Where the user traces, it raises, and has the derivatives of the Op.

    Parameters
    ----------
    node
        The node.
    shapes
        What is known of its outputs.
    function
        PyTensor's own implementation.
    where
        The user's line.
    derivatives
        Those of the Op.
    """

    def __init__(
        self,
        node: Apply,
        shapes: OutputShapes,
        function: HostFunction,
        where: str,
        derivatives: Derivatives,
    ) -> None:
        self.node, self.where = node, where
        self.broken: BrokenShapeError | None = None  # the promise that nobody could see broken
        self._lengths = graph_on_host(shapes.fgraph)
        self._function, self._derivatives = function, derivatives
        self._varying = [k for k, v in enumerate(node.inputs) if not isinstance(v, Constant)]
        by_shape = shape_inputs(node.op, node)
        self._passed = [k for k in self._varying if k not in by_shape]
        self._ndims = [getattr(variable.type, "ndim", 0) for variable in node.inputs]
        self._lock = _lock_of(node.op)
        self._together = cache(self._vectorised)

    def __call__(self, *inputs: object) -> tuple[jax.Array, ...]:
        """The outputs of the node, traced."""
        if not are_read():
            return self._derivatives.apply(self._raising, inputs)
        promised = self._promise(inputs)
        *outputs, fine = self._call(_Reporting(self, promised), inputs, (*promised, _CONDITION))
        require(fine)
        return tuple(outputs)

    def _raising(self, *inputs: object) -> tuple[jax.Array, ...]:
        promised = self._promise(inputs)
        return tuple(self._call(_Raising(self, promised), inputs, promised))

    def _call(
        self, target: Callable[..., object], inputs: Sequence[object], promised: Promise
    ) -> Sequence[jax.Array]:
        results = tuple(jax.ShapeDtypeStruct(*each) for each in promised)
        passed = [inputs[position] for position in self._passed]
        return jax.pure_callback(target, results, *passed, vmap_method="expand_dims")

    def _promise(self, inputs: Sequence[object]) -> Promise:
        """The shapes and dtypes of the outputs, from the shapes and sizes of the inputs."""
        lengths = [int(each) for each in self._lengths(*(inputs[k] for k in self._varying))]
        promised = []
        for output in self.node.outputs:
            count = getattr(output.type, "ndim", 0)
            promised.append((tuple(lengths[:count]), canonical_dtype(output.type.dtype)))
            del lengths[:count]
        return tuple(promised)

    # -- on the host ---------------------------------------------------------------------------

    def run(self, promised: Promise, passed: Sequence[object]) -> Arrays:
        """The outputs for arrays, each with the same number of further leading dimensions."""
        values = self._with_constants([np.asarray(value) for value in passed])
        batch = self._batch(values)
        if 0 in batch:
            return tuple(np.zeros((*batch, *shape), dtype) for shape, dtype in promised)
        with self._lock:
            if not batch:
                return self._checked(self._function(*values), promised)
            values = self._broadcast(values, batch)
            together = self._together(len(batch))
            if together is not None:
                wanted = tuple(((*batch, *shape), dtype) for shape, dtype in promised)
                return self._checked(together(*(values[k] for k in self._passed)), wanted)
            return self._one_by_one(values, batch, promised)

    def batch_of(self, passed: Sequence[np.ndarray]) -> tuple[int, ...]:
        """The further leading dimensions of what is passed."""
        return self._batch(self._with_constants(passed))

    def _with_constants(self, passed: Sequence[np.ndarray]) -> list[np.ndarray]:
        values: list[Any] = [getattr(variable, "data", None) for variable in self.node.inputs]
        for position, value in zip(self._passed, passed, strict=True):
            values[position] = value
        return values

    def _batch(self, values: Sequence[np.ndarray]) -> tuple[int, ...]:
        """The leading dimensions that the values have beyond those of the node."""
        ndims = self._ndims
        if all(values[k].ndim == ndims[k] for k in self._passed):
            return ()
        leading = (values[k].shape[: values[k].ndim - ndims[k]] for k in self._passed)
        return np.broadcast_shapes(*leading)

    def _broadcast(self, values: Sequence[np.ndarray], batch: tuple[int, ...]) -> list[np.ndarray]:
        """The values, all of the whole batch; nothing is copied."""
        broadcast = list(values)
        for k in self._passed:
            core = values[k].shape[values[k].ndim - self._ndims[k] :]
            broadcast[k] = np.broadcast_to(values[k], (*batch, *core))
        return broadcast

    def _vectorised(self, count: int) -> HostFunction | None:
        """One call for ``count`` dimensions of batch, where PyTensor has an Op for it."""
        if self._passed != self._varying:
            return None
        alone = standing_alone(self.node)
        batched = {alone.inputs[k]: _with_batch(alone.inputs[k], count) for k in self._passed}
        outputs = vectorize_graph(alone.outputs, batched)
        together = FunctionGraph(list(batched.values()), list(outputs), clone=True)
        looping = any(isinstance(node.op, Blockwise) for node in together.apply_nodes)
        return None if looping else graph_on_host(together)

    def _one_by_one(
        self, values: Sequence[np.ndarray], batch: tuple[int, ...], promised: Promise
    ) -> Arrays:
        results = tuple(np.empty((*batch, *shape), dtype) for shape, dtype in promised)
        for place in np.ndindex(*batch):
            one = [value[place] if k in self._passed else value for k, value in enumerate(values)]
            outputs = self._checked(self._function(*one), promised)
            for result, output in zip(results, outputs, strict=True):
                result[place] = output
        return results

    def _checked(self, outputs: Sequence[object], promised: Promise) -> Arrays:
        """The outputs as arrays of the types that JAX was promised."""
        checked = []
        for position, (value, (shape, dtype)) in enumerate(zip(outputs, promised, strict=True)):
            array = np.asarray(value)
            declared = np.dtype(self.node.outputs[position].type.dtype)
            accepted = array.dtype == declared or isinstance(value, bool | int | float)
            if array.shape != shape or not accepted:
                raise BrokenShapeError(
                    f"{op_name(self.node.op)}, written at {self.where}, returned {array.dtype}"
                    f"{list(array.shape)} as output {position}, and {declared}{list(shape)} was "
                    "promised by its infer_shape and the types of its outputs, before JAX called "
                    f"it. {Remedy.KEEP_PROMISE.text()}, or {Remedy.SPLIT.text()}."
                )
            checked.append(array.astype(dtype, copy=False))
        return tuple(checked)


_CONDITION: tuple[tuple[int, ...], np.dtype] = ((), np.dtype("bool"))


@dataclass(frozen=True)  # equal ones are compiled once
class _Raising:
    """The function that JAX calls where the user traces."""

    call: HostCall
    promised: Promise

    def __call__(self, *passed: np.ndarray) -> Arrays:
        return self.call.run(self.promised, passed)


@dataclass(frozen=True)
class _Reporting:
    """The function that JAX calls where conditions are checked: its last result is a condition."""

    call: HostCall
    promised: Promise

    def __call__(self, *passed: np.ndarray) -> Arrays:
        batch = self.call.batch_of(passed)
        try:
            outputs, fine = self.call.run(self.promised, passed), True
        except Exception as error:  # XLA loses it; PyTensor's implementation raises it again
            if isinstance(error, BrokenShapeError):
                self.call.broken = error
            fine = False
            outputs = [np.zeros((*batch, *shape), dtype) for shape, dtype in self.promised]
        return (*outputs, np.full(batch, fine))


def _with_batch(variable: Variable, count: int) -> Variable:
    kind = variable.type
    return kind.clone(shape=(*(None,) * count, *kind.shape))()


_locks: WeakKeyDictionary[Op, AbstractContextManager] = WeakKeyDictionary()
_making, _of_others = Lock(), RLock()


def _lock_of(op: Op) -> AbstractContextManager:
    """One lock for each Op: samplers call from several threads, and Ops need not expect it."""
    core = op
    while isinstance(core, Blockwise | Shaped):
        core = core.core_op if isinstance(core, Blockwise) else core.op
    with _making:
        try:
            return _locks.setdefault(core, RLock())
        except TypeError:  # it has no hash
            return _of_others
