"""What `load` returns from the compiled layer: a function that needs no PyTensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytensor_jaxlink.artifact.compiled.arguments import fitter
from pytensor_jaxlink.artifact.compiled.donating import Donating, as_array
from pytensor_jaxlink.artifact.compiled.regions import NotSavedError, SavedRegion
from pytensor_jaxlink.artifact.signature import Cell, Input, Signature
from pytensor_jaxlink.errors import JAXLinkError
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime import (
    Executor,
    Stats,
    commit,
    is_one_region,
    ready_as,
    refuse_donated,
    store,
    to_numpy,
    value_of_state,
)


class SavedState:
    """A shared variable of loaded functions: its value, read and updated by calls."""

    def __init__(self, cell: Cell, storage: list[Any], float_type: str) -> None:
        self.name, self.storage = cell.name, storage
        self._fit = fitter(Input(cell.name, cell.type), float_type)

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        """The value, as NumPy array or with ``return_internal_type`` as it is; see PyTensor's."""
        return value_of_state(self.storage[0], borrow, return_internal_type)

    def set_value(self, value: Any, borrow: bool = False) -> None:
        """Put another value in; it is copied unless ``borrow``."""
        self.storage[0] = self._fit(value if borrow else deepcopy(value))

    def __repr__(self) -> str:
        return f"<shared variable {self.name or '(unnamed)'}: {self.storage[0]!r}>"


@dataclass(frozen=True)
class Ending:
    """What happens to results after a plan has run.

    Attributes
    ----------
    overwritten
        The inputs into which results beyond outputs and updates are written.
    copied
        The results that are no arrays and that nobody computes.
    as_numpy
        Whether the caller gets NumPy arrays.
    """

    overwritten: tuple[int, ...]
    copied: tuple[int, ...]
    as_numpy: bool


class LoadedFunction:
    """A saved function, run from its compiled layer.

    It is called as the function that was saved: positional and keyword arguments, defaults,
    conversions, outputs, updates of shared variables.

    Attributes
    ----------
    name
        The name of the function.
    signature
        What it takes, gives and keeps.
    state
        Its shared variables, with ``name``, ``get_value`` and ``set_value``.
    plan, stats
        What is run, and counters of what was run.
    own_storages
        For each input with a default the list that holds it, else None.
    fallback
        What makes a function for sizes without code, or None.
    """

    def __init__(
        self,
        signature: Signature,
        cells: Sequence[SavedState],
        defaults: Sequence[Any],
        runners: tuple[Executor, Executor],
        ending: Ending,
        fits: Sequence[Callable[[Any], Any]],
        regions: Sequence[SavedRegion],
    ) -> None:
        self.name, self.signature = signature.name, signature
        self._executor, self._tracer = runners
        self.plan: Plan = self._executor.plan
        self.stats: Stats = self._executor.stats
        self._windows = self._executor.policy.windows
        self._ending, self._fits, self._regions = ending, fits, regions
        self.fallback: Callable[[NotSavedError], Callable[..., Any]] | None = None
        self.own_storages = [None if default is None else list(default) for default in defaults]
        self._storage = [
            (own or [None]) if spec.cell is None else cells[spec.cell].storage
            for spec, own in zip(signature.inputs, self.own_storages, strict=True)
        ]
        places = dict.fromkeys(spec.cell for spec in signature.inputs)
        self.state = tuple(cells[cell] for cell in places if cell is not None)
        self._taken = [k for k, spec in enumerate(signature.inputs) if spec.cell is None]
        self._required = [k for k in self._taken if signature.inputs[k].default is None]
        self._updated = [k for k, spec in enumerate(signature.inputs) if spec.updated]
        # The states that a call leaves on the device.
        self._on_device = [
            k
            for k in self._updated
            if signature.inputs[k].type.kind == "array" and not ending.as_numpy
        ]
        self._arrays = [
            spec.type.kind in ("array", "number")
            for spec in (*signature.outputs, *(signature.inputs[k] for k in self._updated))
        ]
        plain = not (ending.overwritten or ending.copied or ending.as_numpy)
        self._donating = Donating.of(self._executor, signature, self._storage) if plain else None
        named = [(signature.inputs[k].name, k) for k in self._taken]
        self._places = {name: k for name, k in named if name is not None}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function.

        Raises
        ------
        TypeError
            If arguments are missing, given twice, unknown, or of another type.
        NotSavedError
            If there is no code for the sizes of this call, and no way to make it.
        ArtifactError
            If JAX cannot read or compile the code of a region; the message names the file.
        """
        values = self._values(args, kwargs)
        try:
            donated = None if self._donating is None else self._donating.run(values)
            if donated is not None:
                return self._finished(values, donated)
            outputs = self._executor(values)
        except NotSavedError as error:
            if self.fallback is None:
                raise
            # The other function has the same state, and updates it.
            return self.fallback(error)(*(values[place] for place in self._taken))
        except JAXLinkError:
            raise
        except Exception as error:
            self._explain(error, values)
            raise
        finally:
            if self._windows.open:  # JAX has compiled
                self._windows.leave()
        return self._finished(values, self._results(values, outputs))

    def compile_for(self, signatures: Sequence[Sequence[tuple[Any, Any]]]) -> None:
        """Have XLA compile, ahead of calls and without running anything.

        Parameters
        ----------
        signatures
            For each region of the plan the static values and arguments, as ``stats.signatures`` has
            them.
        """
        kept = [self.plan.inputs[place] for place in self._on_device]
        self._executor.compile_for(signatures, kept)
        if self._donating is None or not is_one_region(self.plan):
            return  # what several regions exchange is known when they run
        [region] = self.plan.regions
        for _, arguments in signatures[region.index]:
            given = dict(zip(region.arguments, arguments, strict=True))
            taken = {self.plan.inputs[place] for place in self._taken}
            if taken <= given.keys():
                values = [given.get(number) for number in self.plan.inputs]
                for place, spec in enumerate(self.signature.inputs):
                    if spec.cell is not None:
                        values[place] = self._storage[place][0]
                commit(values, self._on_device)
                self._donating.compile_for(values)

    def _values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        given = dict(zip(self._taken, args, strict=False))
        if len(args) > len(self._taken) or kwargs.keys() - self._places.keys():
            raise self._wrong_call(args, kwargs)
        for name, value in kwargs.items():
            if self._places[name] in given:
                raise self._wrong_call(args, kwargs)
            given[self._places[name]] = value
        if any(place not in given for place in self._required):
            raise self._wrong_call(args, kwargs)
        trusted = self.signature.trust_input
        values = [cell[0] for cell in self._storage]
        for place, value in given.items():
            values[place] = value if trusted else self._fits[place](value)
        commit(values, self._on_device)
        return values

    def _explain(self, error: Exception, values: Sequence[Any]) -> None:
        """Raise what is behind an error of a call: an array that was donated, or the file."""
        if isinstance(error, RuntimeError):
            refuse_donated([spec.name or spec.type.text for spec in self.signature.inputs], values)
        for region in self._regions:
            region.check()

    def _wrong_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
        names = ", ".join(
            (spec.name or "(unnamed)") + ("" if spec.default is None else "=...")
            for spec in self.signature.inputs
            if spec.cell is None
        )
        given = ", ".join(kwargs) or "none"
        return TypeError(
            f"{self.name or 'the function'} takes ({names}); found {len(args)} positional "
            f"arguments and the keywords: {given}"
        )

    def _results(self, values: list[Any], outputs: list[Any]) -> list[Any]:
        ending, count = self._ending, len(outputs) - len(self._ending.overwritten)
        for place, value in zip(ending.overwritten, outputs[count:], strict=True):
            if isinstance(values[place], np.ndarray) and values[place].flags.writeable:
                np.copyto(values[place], to_numpy(value, self.stats))
        outputs = outputs[:count]
        for place in ending.copied:
            outputs[place] = deepcopy(outputs[place])
        for place, is_array in enumerate(self._arrays):
            if is_array and ending.as_numpy:
                outputs[place] = np.array(to_numpy(outputs[place], self.stats))
            elif is_array:
                outputs[place] = as_array(outputs[place])
        return outputs

    def _finished(self, values: list[Any], outputs: list[Any]) -> Any:
        """Commit updates and defaults, now that everything has succeeded."""
        count = len(self.signature.outputs)
        for place in set(self._taken) - set(self._required):
            self._storage[place][0] = values[place]  # as PyTensor does: the default is the last
        cells = [self._storage[place] for place in self._updated]
        pairs = zip(cells, outputs[count:], strict=True)
        store(cells, [ready_as(cell[0], value) for cell, value in pairs])
        if self.signature.form == "one":
            return outputs[0]
        return None if self.signature.form == "none" else outputs[:count]

    @property
    def jax_fn(self) -> Callable[..., list[Any]]:
        """The pure function ``(*inputs, *shared) -> [*outputs, *updates]``, to be traced by JAX.

        It can be differentiated as often as ``vjp_order`` said when the function was saved.
        """

        def traced(*values: Any) -> list[Any]:
            if len(values) != len(self._storage):
                raise TypeError(f"expected {len(self._storage)} arguments, found {len(values)}")
            return self._tracer.trace(values)[: len(self._arrays)]

        return traced

    def __repr__(self) -> str:
        return f"<saved function {self.name or ''}: {len(self.plan.regions)} regions>"


def fits_of(inputs: Sequence[Input], float_type: str) -> list[Callable[[Any], Any]]:
    """For each input, what converts a value for it."""
    return [fitter(spec, float_type) for spec in inputs]
