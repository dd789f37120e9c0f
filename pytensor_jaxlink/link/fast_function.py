"""The calls of functions: the fast path where there is one, else the slow path of PyTensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import repeat
from operator import is_not
from typing import TYPE_CHECKING, Any

from pytensor.compile.debug.profiling import ProfileStats
from pytensor.compile.executor import Function
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.link.basic import Container

from pytensor_jaxlink.errors import CheckFailedError, NewSizeError, OtherCodeError, is_of_node
from pytensor_jaxlink.graph import as_kind
from pytensor_jaxlink.link.profile_report import Report
from pytensor_jaxlink.link.shared import hold_arrays, hold_data, mover
from pytensor_jaxlink.plan import Kind
from pytensor_jaxlink.runtime import (
    Convert,
    Dispatch,
    FastCall,
    Filter,
    Interface,
    are_typed_late,
    argument_converter,
    bytes_of_numpy,
    fast_converter,
    note_different_devices,
    read_on_host,
    refuse_donated,
    replace_in_forked_child,
    store,
    take_times,
    taken_by_regions,
)
from pytensor_jaxlink.trees import is_traced

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.link.maker import JAXFunctionMaker
    from pytensor_jaxlink.link.virtual_machine import VirtualMachine


class FastFunction(FastCall, Function):
    """A `Function` whose calls go past PyTensor's storage and filters.

    Positional arguments that their types accept go to compiled code as they are.  A function
    without updates may be called from many threads.
    """

    vm: VirtualMachine
    maker: JAXFunctionMaker
    _shows = False  # whether an Op shows outside of the graph, beside regions: it runs once a call

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        explicit = [spec for spec in self.maker.inputs if not spec.implicit]
        # Inputs that the user gives come first, and none has a default or an update of its own.
        # What JAX traces does not show the class, which a strict matrix or scalar asks for.
        self._has_fast_path = all(
            getattr(container, "required", False)
            and spec.update is None
            and not (spec.strict and as_kind(spec.variable.type).has_classes)
            for spec, container in zip(explicit, self.input_storage, strict=False)
        )
        self.interface = self._interface(len(explicit))
        self.vm.ending = self.interface.ending  # which knows the cells
        named = Counter(spec.name for spec in self.maker.inputs)
        # A name that several inputs have is nobody's, as in PyTensor.
        self._names: list[Any] = [spec.name if named[spec.name] == 1 else None for spec in explicit]
        self._executor: Any = None  # that the fast path belongs to
        plan, compiled = self._compiled.plan, self._compiled
        moved, on_host = taken_by_regions(plan), {n for s in plan.steps for n in read_on_host(s)}
        for number, spec in zip(plan.inputs, self.maker.inputs, strict=True):
            if not isinstance(spec.variable, SharedVariable):
                continue
            if spec.update is None and (number in moved or number in on_host):
                move = compiled.policy.move if number in moved else None
                hold_data(spec.variable.container, move)
            elif compiled.options.outputs == "jax":
                hold_arrays(spec.variable.container)
        if not self._compiled.exported:
            self._find_fast()  # and move large constants, now and not in the first call

    def _interface(self, given: int) -> Interface:
        """The interface of which the first inputs are the caller's."""
        specs, containers = self.maker.inputs, self.input_storage
        updated = [k for k, spec in enumerate(specs) if spec.update is not None]
        # The outputs of a copied function's maker are followed by its updates.
        count = len(self.output_storage) - len(updated)
        outputs = [spec.variable for spec in self.maker.outputs[:count]]
        kinds = tuple(as_kind(container.type) for container in containers)
        return Interface(
            tuple(spec.name or str(spec.variable) for spec in specs),
            tuple(variable.name or str(variable) for variable in outputs),
            kinds,
            lambda: list(map(_fast_converter, containers[:given], kinds)),
            "one" if self.unpack_single else "none" if self.return_none else "list",
            [container.storage for container in containers],
            range(given),
            updated,
            frozenset(k for k, spec in enumerate(specs) if spec.mutable),
            self._compiled.options.donate,
            self.vm.ending,
            {
                k: mover(spec.variable.container)
                for k, (spec, container) in enumerate(zip(specs, containers, strict=True))
                if isinstance(spec.variable, SharedVariable)
                and spec.variable.container.storage is container.storage
            },
        )

    def _kept(self) -> list[object]:
        """The values of the inputs that the caller does not give."""
        found = self.interface
        return [cell[0] for cell in found.storage[len(found.given) :]]

    def _without_jax(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        return super(FastCall, self).__call__(*args, **kwargs)

    @property
    def profile(self) -> Any:
        """PyTensor's profile of the calls, which it writes on the slow path; None without one."""
        return self._profile

    @profile.setter
    def profile(self, profile: ProfileStats | None) -> None:
        stop = vars(self).pop("_stop", None)
        if stop is not None:
            stop()
        if vars(self).get("_profile") and not profile:
            self._executor = None  # the fast path is looked for anew
        self._profile = profile
        if profile:
            self._fast = None
            if profile.flag_time_thunks:
                self.vm.update_profile = report = Report()
                self._stop = take_times(self, report.times)

    def _first_or_named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """A call before the function is known to have a fast path, or with keywords."""
        if kwargs:
            names = self._names[len(args) :]
            named = [kwargs.get(name) for name in names]
            # PyTensor takes None for no value.
            if len(names) == len(kwargs) and all(map(is_not, named, repeat(None))):
                return self(*args, *named)
        if kwargs or (self._fast is None and self._executor is self.vm.compiled.executor):
            return self._checked(*args, **kwargs)
        if self._compiled.exported and len(args) == len(self.interface.given):
            self.interface.commit_states([*args, *self._kept()], self._compiled.policy)
        return self._slow(args) if self._find_fast() is None else self(*args)

    def _traced(self, args: tuple[object, ...]) -> object:
        known = [self._known(value, place) for place, value in enumerate(args)]
        count = len(self.interface.outputs) + len(self.interface.updated)
        return self.interface.stored(self._compiled.trace(*known, *self._kept())[:count])

    def _known(self, value: object, place: int) -> object:
        """An argument in the declared type, if its value is known; or what PyTensor says of it."""
        if is_traced(value) or self.trust_input:
            return value
        found, cell = self.interface.converters[place](value), self.input_storage[place]
        if found is None:
            strict, downcast = cell.strict, cell.allow_downcast
            found = cell.type.filter(value, strict=strict, allow_downcast=downcast)
        return found

    def _once_more(self, args: tuple[object, ...], error: BaseException) -> object:
        if isinstance(error, NewSizeError):
            # Nothing has been moved: JAX was stopped while it traced.
            self._stats.bytes_to_device -= bytes_of_numpy(args)
            if self._compiled.changing.make_dynamic([*args, *self._kept()], error):
                self._find_fast()
                return self(*args)
        if isinstance(error, OtherCodeError):
            self._stats.bytes_to_device -= bytes_of_numpy(args)
            self._follow(error)
            return self(*args)
        if self._shows and is_of_node(error) and not isinstance(self._runs(), Dispatch):
            return self._noting(partial(self._finish, error), args)
        return super()._once_more(args, error)

    def _follow(self, other: OtherCodeError) -> None:
        """Run the code of an equal function from now on, or no more."""
        self.vm.follow(other)
        self._executor = None
        self._find_fast()

    def _is_final(self, error: BaseException) -> bool:
        # Another operation might raise first in the Python linker, but what shows runs once.
        return super()._is_final(error) and self._compiled.has_effects

    def _slow(self, args: tuple[object, ...]) -> object:
        return self._noting(self._checked, args)

    def _failed(self, args: tuple[object, ...]) -> object:
        # The regions of the slow path would be compiled, and say the same.
        return self._noting(partial(self._finish, None), args)

    def _noting(self, run: Callable[..., object], args: tuple[object, ...]) -> object:
        """Run a call; its errors tell of donated arguments and of different devices."""
        try:
            return run(*args)
        except RuntimeError:
            refuse_donated(self.input_names, args)
            raise
        except ValueError as raised:
            note_different_devices(raised, self.input_names, [*args, *self._kept()])
            raise
        finally:
            if self.vm.compiled.executor is not self._executor:
                self._fast = None  # a failure has changed the plan

    def _find_fast(self) -> object:
        """The fast path of the function as it is compiled now, or None."""
        executor = self.vm.compiled.executor
        if executor is not self._executor:
            compiled, plan = self._compiled, self._compiled.plan
            self._executor, self._stats = executor, compiled.stats
            self._shows = not plan.is_one_region and compiled.has_effects
            late = are_typed_late(plan, len(self.interface.given))
            if self._shows and (late or isinstance(executor, Dispatch)):
                self._convert_always()  # or an argument has another type when an Op has run
            # Calls of other threads that have begun finish by the path with which they began.
            path = self._fast = None
            if self._has_fast_path and not self.profile:
                path = self.vm.fast(self.interface)
            self._path = self._fast = path
        return self._fast

    def _runs(self) -> object:
        return self.vm.compiled.executor

    def _checked(self, *args: object, **kwargs: object) -> object:
        """The call with arguments that are checked, or converted by PyTensor."""
        count = len(self.interface.given)
        if len(args) == count and any(map(is_traced, args)):
            return self._traced(args)
        values = None if kwargs else self._values(args)
        if values is not None:
            return self.interface.stored(self.vm.run(values))
        if len(args) <= count:
            return super(FastCall, self).__call__(*args, **kwargs)
        kept = self._kept()
        try:
            return super(FastCall, self).__call__(*args, **kwargs)
        finally:  # PyTensor puts what is too much into shared variables, and then refuses it
            store(self.interface.storage[count:], kept)

    def _finish(self, error: BaseException | None, *args: object) -> object:
        """The call, finished by PyTensor's own implementation."""
        values = self._values(args)
        if values is None:  # JAX traces an argument: the check is of other values
            raise error or CheckFailedError(
                "a check is false, and JAX traces the call: an assertion, a specified shape, or an "
                "index or slice that reaches beyond an array. Call the function with these values "
                "outside of JAX's transformations: PyTensor then says which check it is."
            )
        return self.interface.stored(self.vm.finish(values, error))

    def _values(self, args: tuple[object, ...]) -> list[object] | None:
        """The values of all inputs; None where PyTensor converts arguments, or refuses them."""
        if self.profile or not self._has_fast_path or len(args) != len(self.interface.given):
            return None
        values: list[Any] = list(args)
        if not self.trust_input:
            for position, convert in enumerate(self.interface.converters):
                values[position] = convert(args[position])
                if values[position] is None:
                    return None
        return [*values, *self._kept()]

    @property
    def _compiled(self) -> CompiledGraph:
        return self.vm.compiled


replace_in_forked_child(
    FastFunction,
    _find_fast=lambda self: None,  # nothing may be moved to the device
)


def _fast_converter(container: Container, kind: Kind) -> Convert:
    if kind.kind == "other":
        return lambda value: None  # PyTensor knows the type
    # PyTensor's `floatX` is that of the call.
    rules = Filter(bool(container.strict), container.allow_downcast)
    return fast_converter(argument_converter(kind.text, kind, rules))
