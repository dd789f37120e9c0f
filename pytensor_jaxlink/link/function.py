"""What `pytensor.function` returns under our modes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor.compile.executor import Function
from pytensor.compile.maker import FunctionMaker
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.link.basic import Container
from pytensor.tensor.type import DenseTensorType

from pytensor_jaxlink.errors import FAILED_ON_HOST, DoesNotFitError
from pytensor_jaxlink.link.explanation import Explanation
from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.link.modes import mode_of, with_inplace
from pytensor_jaxlink.link.shared import hold_arrays
from pytensor_jaxlink.link.start_up import Entry, Postponed, open_cache
from pytensor_jaxlink.plan import Plan

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.runtime import Donatable, Stats


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
        self._cells = [container.storage for container in self.input_storage[len(explicit) :]]
        self._fitters = [_fitter(container) for container in self.input_storage[: len(explicit)]]
        named = Counter(spec.name for spec in self.maker.inputs)
        # A name that several inputs have is nobody's, as in PyTensor.
        self._names: list[Any] = [spec.name if named[spec.name] == 1 else None for spec in explicit]
        self._executor: Any = None  # that `_direct` belongs to
        self._direct: Any = None
        self._misfits = 0
        if self._compiled.options.outputs == "jax":
            for spec in self.maker.inputs:
                if isinstance(spec.variable, SharedVariable):
                    hold_arrays(spec.variable.container)
        if not self._compiled.exported:
            self._find_direct()  # and move large constants, now and not in the first call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the function; see `pytensor.compile.executor.Function.__call__`.

        A function that is one region goes to the function that `jax.jit` made of it: JAX tells
        arguments of other types apart, and those of types that do not fit are found while it
        traces.  Whatever else there is to be done (another type, a condition that is false, an
        error) is done by going the general way from the start.

        Otherwise positional arguments that fit their type as they are go to the regions without
        passing PyTensor's filter and its storage.  A `jax.Array` never visits the host.  A function
        without updates may be called from many threads.
        """
        direct = self._direct
        if direct is None or kwargs:
            return self._first_or_named(args, kwargs)
        moved = 0
        for value in args:
            if type(value) is _NUMPY_ARRAY:
                moved += value.nbytes
        if moved:
            self._stats.bytes_to_device += moved
            if len(args) > 1 and (moved > _SMALL or args[0] is args[1]):
                args = self._moved_once(args)
        try:
            try:
                outputs = direct(*args)
            except Exception as error:
                if hasattr(error, FAILED_ON_HOST):
                    raise
                return self._general(args, {}, error)
            self._stats.direct += 1
            if type(outputs) is self._jax_array:
                return outputs
            return self._finished(outputs, args)
        finally:
            if self._windows.open:  # JAX has compiled
                self._windows.leave()

    def _first_or_named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call before the function is known to have a direct way, or with names."""
        names = self._names[len(args) :]
        if kwargs and len(names) == len(kwargs) and kwargs.keys() >= set(names):
            return self(*args, *[kwargs[name] for name in names])
        if kwargs or (self._direct is None and self._executor is self.vm.compiled.executor):
            return self._checked(*args, **kwargs)
        if self._compiled.exported and self._compiled.options.outputs == "jax":
            self._commit_states(args)
        return self._general(args, {}) if self._find_direct() is None else self(*args)

    def _commit_states(self, args: tuple[Any, ...]) -> None:
        """Put states where exported code leaves them, so that JAX compiles once."""
        updates: Any = self._update_input_storage
        cells = [c.storage for _, c in updates if isinstance(c.type, DenseTensorType)]
        values = [*[cell[0] for cell in cells], *args]
        self.vm.commit(values, range(len(cells)))
        for cell, value in zip(cells, values, strict=False):
            cell[0] = value

    def _moved_once(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments; an array that is given several times goes to the device once."""
        once = self.vm.moved_once(args)
        if once is not args:
            self._stats.bytes_to_device -= sum(
                value.nbytes
                for k, value in enumerate(args)
                if type(value) is _NUMPY_ARRAY and any(value is other for other in args[:k])
            )
        return once

    def _finished(self, outputs: Any, args: tuple[Any, ...]) -> Any:
        """What the caller gets of what the direct way gives, after conditions and updates."""
        if type(outputs) is tuple:
            outputs, holds = self.vm.settled(outputs, args)
            if not holds:
                self._stats.direct -= 1
                return self._general(args, {})
        return self._updated(outputs) if self._has_updates else outputs

    def _general(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception | None = None
    ) -> Any:
        """The call by the general way."""
        self._misfits += isinstance(error, DoesNotFitError)
        if self._misfits > _MISFITS:
            self._direct = None  # the general way is faster than failing
        try:
            return self._checked(*args, **kwargs)
        except RuntimeError:
            self.vm.refuse_donated(self.input_names, args)
            raise
        except ValueError as raised:
            states = [cell[0] for cell in self._cells]
            self.vm.note_different_devices(raised, self.input_names, [*args, *states])
            raise
        finally:
            if self.vm.compiled.executor is not self._executor:
                self._direct = None  # it was learned from a failure

    def _find_direct(self) -> Any:
        """The function, as it is compiled now, as one that JAX can call, or None."""
        executor = self.vm.compiled.executor
        if executor is not self._executor:
            self._executor, self._stats = executor, self._compiled.stats
            self._jax_array, self._windows = self.vm.jax_array, self._compiled.policy.windows
            self._direct = None
            if self._has_short_way and not self.profile:
                self._direct = self.vm.direct(self._pack, self._cells, self._donatable(), self._fit)
        return self._direct

    def _fit(self, position: int, value: Any) -> Any:
        """An argument as it goes on, or None; what shared variables hold has been looked at."""
        return self._fitters[position](value) if position < len(self._fitters) else value

    def _donatable(self) -> Donatable | None:
        """What the function may donate, None where that is nothing."""
        from pytensor_jaxlink.runtime import Donatable

        donate = self._compiled.options.donate
        if donate == "none":
            return None
        containers = list(self.input_storage)
        updates: Any = self._update_input_storage
        updated = {
            containers.index(container): (output, container.storage)
            for output, container in updates
        }
        given = frozenset(
            position
            for position, spec in enumerate(self.maker.inputs[: len(self._fitters)])
            if donate != "updates" or spec.mutable
        )
        if not updated and not given:
            return None
        return Donatable(list(self.input_names), updated, given, donate == "warn")

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or self.profile or not self._has_short_way or len(args) != len(self._fitters):
            return super().__call__(*args, **kwargs)
        values: list[Any] = list(args)
        if not self.trust_input:
            for position, fit in enumerate(self._fitters):
                values[position] = fit(args[position])
                if values[position] is None:
                    return super().__call__(*args)
        values += [cell[0] for cell in self._cells]
        outputs = self.vm.run(values)
        return self._updated(outputs) if self._has_updates else self._pack(outputs)

    def _pack(self, outputs: list[Any]) -> Any:
        """What the caller gets; updates have to be stored first, and stay in the list."""
        if self._has_updates:
            return outputs
        if self.unpack_single:
            return outputs[0]
        return None if self.return_none else outputs

    def _updated(self, outputs: list[Any]) -> Any:
        if type(outputs) is not self.vm.stored:
            updates: Any = self._update_input_storage
            self.vm.store(
                [container.storage for _, container in updates],
                [outputs[position] for position, _ in updates],
            )
        if self.unpack_single:
            return outputs[0]
        return None if self.return_none else outputs[: self._n_returned_outputs]

    @property
    def _compiled(self) -> CompiledGraph:
        return self.vm.compiled

    def compile(self, *examples: Any) -> JAXFunction:
        """Compile for arguments like these, ahead of the first call; nothing is stored.

        A function that is one region is not run.  One with several regions is, up to its last
        region, because the shapes of what they exchange are known only then; host steps run too.

        Parameters
        ----------
        *examples
            Arrays, or `jax.ShapeDtypeStruct` where the function is one region.

        Returns
        -------
        JAXFunction
            The function itself.

        Raises
        ------
        TypeError
            If the arguments do not fit.

        Examples
        --------
        >>> import jax, pytensor, pytensor.tensor as pt
        >>> import pytensor_jaxlink
        >>> x = pt.vector("x", dtype="float64")
        >>> f = pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")
        >>> f.compile(jax.ShapeDtypeStruct((5,), "float64")).stats.compilations
        [1]
        """
        if len(examples) != len(self._fitters):
            raise TypeError(f"expected {len(self._fitters)} examples, found {len(examples)}")
        self._find_direct()
        self.vm.compile_for(list(examples), [cell[0] for cell in self._cells])
        return self

    def warmup(
        self, calls: Iterable[Sequence[Any]], *, progress: Callable[[int], None] | None = None
    ) -> JAXFunction:
        """`compile` for several calls.

        Parameters
        ----------
        calls
            For each, the arguments, as a tuple or list.
        progress
            Called with the number of calls that are done after each; by default the progress is
            shown on a terminal, and nowhere else.

        Returns
        -------
        JAXFunction
            The function itself.
        """
        calls = list(calls)
        show = progress or _shown(len(calls))
        for done, arguments in enumerate(calls, start=1):
            self.compile(*arguments)
            show(done)
        return self

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
    def input_names(self) -> tuple[str, ...]:
        """The names of the arguments of `jax_fn`; of one without a name, its type."""
        return tuple(spec.name or str(spec.variable) for spec in self.maker.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of what `jax_fn` gives: outputs, then the shared variables it updates."""
        outputs = [spec.variable for spec in self.maker.outputs]
        updated: Any = self.maker.fgraph.update_mapping
        names = self.input_names
        return (*[v.name or str(v) for v in outputs], *[names[k] for k in updated.values()])

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
        """The arguments of `jax_fn` that may be donated to `jax.jit`, by the option ``donate``."""
        found = self._donatable()
        if found is None:
            return ()
        static = set(self.static_argnums)
        arrays = {
            position
            for position, container in enumerate(self.input_storage)
            if isinstance(container.type, DenseTensorType)
        }
        return tuple(sorted(arrays & {*found.updated, *found.given} - static))

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


_NUMPY_ARRAY = np.ndarray  # looked up once, not in each call

_SMALL = 4096
"""Bytes; moving less twice is faster than looking for arrays that are given twice."""

_MISFITS = 4
"""How often arguments of other types are tried, before they are looked at before each call."""


def _shown(total: int) -> Callable[[int], None]:
    """Shows progress in one line of a terminal."""

    def show(done: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == total else ""
            sys.stderr.write(f"\rcompiled {done} of {total}{end}")
            sys.stderr.flush()

    return show


def _fitter(container: Container) -> Callable[[Any], Any]:
    """A function that gives a value as it goes to the device, or None where PyTensor must look."""
    from pytensor_jaxlink.runtime import ARRAY

    kind = container.type
    if not isinstance(kind, DenseTensorType):
        return lambda value: None
    dtype, ndim = np.dtype(kind.dtype), kind.ndim
    fixed = [(axis, length) for axis, length in enumerate(kind.shape) if length is not None]
    lowest, highest = 1, 0  # no Python integers
    if ndim == 0 and dtype.kind in "iu" and not container.strict:
        lowest, highest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    takes_float = ndim == 0 and dtype == np.float64 and not container.strict

    def fit(value: Any) -> Any:
        if type(value) is int and lowest <= value <= highest:
            return np.array(value, dtype)
        if takes_float and type(value) is float:
            return np.array(value)
        if type(value) is not np.ndarray and type(value) is not ARRAY:
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
        self._entry: Entry | None = None
        self._rewrite, self._made = Postponed(), False
        super().__init__(inputs, outputs, mode, accept_inplace, function_class, **options)
        linker: Any = self.linker
        linker.entry, linker.rewrite = self._entry, self._rewrite
        self._entry = None  # the linker's, which neither copies nor pickles it

    def create(self, *args: Any, **options: Any) -> Any:
        """Create a function; see `pytensor.compile.maker.FunctionMaker.create`."""
        function = super().create(*args, **options)
        self._made = True
        return function

    @property
    def fgraph(self) -> FunctionGraph:
        """The rewritten graph.

        Where the start-up cache had the function, it is rewritten when somebody looks at it, and
        making the function is not looking.
        """
        if self._made:
            self._rewrite()
        return self._fgraph

    @fgraph.setter
    def fgraph(self, fgraph: FunctionGraph) -> None:
        self._fgraph = fgraph

    # PyTensor has it as a static method, and calls it as a method.
    def prepare_fgraph(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, inputs: Any, outputs: Any, additional_outputs: Any, fgraph: FunctionGraph, *rest: Any
    ) -> Any:
        """Rewrite the graph; a copy of it as the user gave it is kept, for `save`."""
        self._given = FunctionGraph(fgraph.inputs, fgraph.outputs, clone=True)
        rewrite = partial(super().prepare_fgraph, inputs, outputs, additional_outputs, fgraph)
        mode: Any = rest[0]
        places = mode.linker.options
        if places.cache_dir is not None:
            cache = open_cache(places.cache_dir, places.cache_limit)
            updated: Any = fgraph.update_mapping
            self._entry = cache.entry(self._given, updated, mode, inputs, outputs)
        if self._entry is None or not self._entry.found:
            return rewrite(*rest)
        self._rewrite = Postponed(lambda: rewrite(*rest))
        return None

    def __getstate__(self) -> dict[str, Any]:
        self._rewrite()
        return vars(self)

    @property
    def given(self) -> FunctionGraph:
        """The graph before it was rewritten; of a copied function, the rewritten graph."""
        return getattr(self, "_given", self.fgraph)
