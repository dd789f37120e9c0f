"""What `pytensor.function` returns under our modes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor.compile.executor import Function
from pytensor.compile.maker import FunctionMaker
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.link.basic import Container
from pytensor.tensor.type import DenseTensorType

from pytensor_jaxlink.link.explanation import Explanation
from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.link.modes import mode_of, with_inplace
from pytensor_jaxlink.plan import Plan

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.runtime import Stats


class JAXFunction(Function):
    """A compiled PyTensor function that also explains itself and shows its pure JAX function.

    Everything of `pytensor.compile.executor.Function` works: keyword inputs, defaults, updates,
    ``copy``, pickling.

    Examples
    --------
    >>> import jax, numpy as np, pytensor, pytensor.tensor as pt
    >>> import pytensor_jaxlink
    >>> x, n = pt.vector("x", dtype="float64"), pt.lscalar("n")
    >>> f = pytensor.function([x, n], x.reshape((n, -1)).sum(axis=0), mode="JAXSELECTIVE")
    >>> f(np.arange(6.0), 3)
    Array([6., 9.], dtype=float64)
    >>> print(f.explain())
    1 region, 0 graph breaks
    static inputs: n
    region 0: 2 operations; compiled for each value of n
    >>> f.static_argnums
    (1,)
    >>> jax.jit(f.jax_fn, static_argnums=f.static_argnums)(np.arange(6.0), 3)
    [Array([6., 9.], dtype=float64)]
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        explicit = [spec for spec in self.maker.inputs if not spec.implicit]
        # Inputs that the user gives come first, and none has a default or an update of its own.
        self._has_short_way = all(
            container.required and spec.update is None
            for spec, container in zip(explicit, self.input_storage, strict=False)
        )
        self._shared_cells = [
            container.storage for container in self.input_storage[len(explicit) :]
        ]
        self._fitters = [_fitter(container) for container in self.input_storage[: len(explicit)]]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the function; see `pytensor.compile.executor.Function.__call__`.

        Positional arguments that fit their type as they are, NumPy or JAX arrays, go to the device
        without passing PyTensor's filter and its storage; a `jax.Array` never visits the host.  A
        function without updates may so be called from many threads.  All other calls, and all
        errors, take PyTensor's way.
        """
        if kwargs or self.profile or not self._has_short_way or len(args) != len(self._fitters):
            return super().__call__(*args, **kwargs)
        values: list[Any] = list(args)
        if not self.trust_input:
            for position, fit in enumerate(self._fitters):
                values[position] = fit(args[position])
                if values[position] is None:
                    return super().__call__(*args)
        values += [cell[0] for cell in self._shared_cells]
        outputs = self.vm.run(values)
        updates: Any = self._update_input_storage
        for position, container in updates:
            container.storage[0] = outputs[position]
        if self.unpack_single:
            return outputs[0]
        return None if self.return_none else outputs[: self._n_returned_outputs]

    @property
    def _compiled(self) -> CompiledGraph:
        return self.vm.compiled

    def explain(self) -> Explanation:
        """Regions, graph breaks and static inputs, in words."""
        return self._compiled.explanation

    @property
    def plan(self) -> Plan:
        """The frozen plan that is run."""
        return self._compiled.plan

    @property
    def stats(self) -> Stats:
        """Counters: calls, compilations and cache hits of each region, host steps, bytes moved."""
        return self._compiled.stats

    @property
    def jax_fn(self) -> Callable[..., list[Any]]:
        """The pure function ``(*inputs, *shared) -> [*outputs, *updates]``, not jitted.

        It can be traced by `jax.jit` (with `static_argnums`), `jax.grad`, `jax.vmap` and others
        where the graph has no break; with concrete arguments it runs whatever the graph.  Sizes
        are ints or tuples of ints.  A generator is given as a NumPy generator, or, where JAX
        traces it, as a key: ``jax.random.key_data`` or two 32-bit words.  Checks are dropped.
        """
        return self._compiled.trace

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that must be static under `jax.jit`.

        Raises
        ------
        NotJittableError
            If no choice of static arguments lets JAX trace the function; all reasons are given.
        """
        return self._compiled.static_argnums

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that may be donated to `jax.jit`: none, so far."""
        return ()

    def __reduce__(self) -> tuple[Any, ...]:
        containers = list(self.input_storage)
        return _rebuild, (self.maker, containers, self.trust_input)

    def __deepcopy__(self, memo: dict[int, Any]) -> JAXFunction:
        owned = [spec.value for spec in self.maker.inputs if isinstance(spec.value, Container)]
        variables = [spec.variable for spec in self.maker.inputs]
        owned += [v.container for v in variables if isinstance(v, SharedVariable)]
        for container in (*self.input_storage, *owned):
            _memoize(container, memo)
        rebuild, parts = self.__reduce__()
        return rebuild(*deepcopy(parts, memo))


def _fitter(container: Container) -> Callable[[Any], Any]:
    """A function that gives a value as it goes to the device, or None where PyTensor must look."""
    from pytensor_jaxlink.link.virtual_machine import JAX_ARRAY

    kind = container.type
    if not isinstance(kind, DenseTensorType):
        return lambda value: None
    dtype, ndim = np.dtype(kind.dtype), kind.ndim
    fixed = [(axis, length) for axis, length in enumerate(kind.shape) if length is not None]
    lowest, highest = 1, 0  # no Python integers
    if ndim == 0 and dtype.kind in "iu" and not container.strict:
        lowest, highest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    def fit(value: Any) -> Any:
        if type(value) is np.ndarray:
            if not value.flags.aligned:
                return None
        elif type(value) is int and lowest <= value <= highest:
            return np.array(value, dtype)
        elif type(value) is not JAX_ARRAY:
            return None
        if value.dtype != dtype or value.ndim != ndim:
            return None
        if fixed and any(value.shape[axis] != length for axis, length in fixed):
            return None
        return value

    return fit


def _memoize(container: Container, memo: dict[int, Any]) -> None:
    """Copy a container that holds a `jax.Array`, which `Container.__deepcopy__` refuses.

    JAX arrays are immutable, so the copy may hold the same one; what is copied is the cell.
    """
    import jax  # at first use: importing this package does not import JAX

    if not isinstance(container.storage[0], jax.Array) or id(container) in memo:
        return
    cell = memo.setdefault(id(container.storage), [container.storage[0]])
    memo[id(container)] = Container(
        deepcopy(container.type, memo),
        cell,
        readonly=container.readonly,
        strict=container.strict,
        allow_downcast=container.allow_downcast,
        name=container.name,
    )


def _rebuild(maker: FunctionMaker, containers: list[Any], trust_input: bool) -> Any:
    function = maker.create(containers)
    function.trust_input = trust_input
    return function


class JAXFunctionMaker(FunctionMaker):
    """Makes `JAXFunction`s, and accepts a linker where a mode is expected."""

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        mode: Any = None,
        accept_inplace: bool = False,
        function_class: type[Function] = JAXFunction,
        **options: Any,
    ) -> None:
        if isinstance(mode, JAXLinker):
            mode = mode_of(mode)
        elif isinstance(mode, Mode):
            mode = with_inplace(mode)
        super().__init__(inputs, outputs, mode, accept_inplace, function_class, **options)

    # PyTensor has it as a static method, and calls it as a method.
    def prepare_fgraph(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, inputs: Any, outputs: Any, additional_outputs: Any, fgraph: FunctionGraph, *rest: Any
    ) -> Any:
        """Rewrite the graph; a copy of it as the user gave it is kept, for `save`."""
        self._given = FunctionGraph(fgraph.inputs, fgraph.outputs, clone=True)
        return super().prepare_fgraph(inputs, outputs, additional_outputs, fgraph, *rest)

    @property
    def given(self) -> FunctionGraph:
        """The graph before it was rewritten; of a copied function, the rewritten graph."""
        return getattr(self, "_given", self.fgraph)
