"""The outputs of a function in the form in which the caller gets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime.devices import copying_to_host, to_numpy
from pytensor_jaxlink.runtime.forks import replace_in_forked_child
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import ARRAY, configuration, device_put

Form = Callable[[Any], object]
"""Changes the form of an output when it leaves."""


@dataclass(frozen=True)
class Ending:
    """The last steps of a call.

    Attributes
    ----------
    arrays, numbers
        The positions of the outputs that are arrays, and of those that are plain numbers.
    copied
        Those that are neither, and that no step computes: the caller gets a copy.
    overwritten
        The inputs that operations in place change: the further outputs are written into them.
    as_numpy
        Whether arrays leave as those of NumPy, not as those of JAX.
    """

    arrays: tuple[int, ...]
    numbers: tuple[int, ...]
    copied: tuple[int, ...]
    overwritten: tuple[int, ...]
    as_numpy: bool

    def of(self, values: Sequence[Any], outputs: list[Any], stats: Stats) -> list[Any]:
        """The outputs of a plan for values of its inputs, as they leave."""
        outputs = self.overwrite(values, outputs, stats)
        for position, form in self.forms(stats).items():
            outputs[position] = form(outputs[position])
        return outputs

    def forms(self, stats: Stats, plan: Plan | None = None) -> dict[int, Form]:
        """For each output that changes its form, the function that does it.

        Parameters
        ----------
        stats
            Counts the bytes that are copied.
        plan
            The plan, where the outputs come from its regions as JAX made them.
        """
        return self._forms(stats, plan)

    def _forms(self, stats: Stats, plan: Plan | None) -> dict[int, Form]:
        forms: dict[int, Form] = dict.fromkeys((*self.arrays, *self.numbers), as_jax_array)
        if self.as_numpy:
            forms = dict.fromkeys(self.arrays, copying_to_host(stats))
            forms |= dict.fromkeys(self.numbers, lambda value: to_numpy(value, stats)[()])
        elif plan is not None:
            made = {number for region in plan.own_regions for number in region.results}
            forms = {k: form for k, form in forms.items() if plan.outputs[k] not in made}
        for position in self.copied:
            forms[position] = deepcopy
        return forms

    def forms_in_child(self, stats: Stats, plan: Plan | None = None) -> dict[int, Form]:
        """The same in a forked process, where outputs are NumPy's."""
        return replace(self, as_numpy=True)._forms(stats, plan)

    def overwrite(self, values: Sequence[Any], outputs: list[object], stats: Stats) -> list[object]:
        """Leave in the user's arrays what operations in place leave there; gives the outputs."""
        if not self.overwritten:
            return outputs
        count = len(outputs) - len(self.overwritten)
        for position, value in zip(self.overwritten, outputs[count:], strict=True):
            given = values[position]
            if isinstance(given, np.ndarray) and given.flags.writeable:
                np.copyto(values[position], to_numpy(value, stats))
        return outputs[:count]


replace_in_forked_child(Ending, forms=Ending.forms_in_child)


def as_jax_array(value: Any) -> object:
    """An output as a `jax.Array`."""
    if type(value) is ARRAY:
        return value
    # A copy: the value may be a view of what the user gave or what a shared variable holds.  By
    # NumPy: `jax.numpy.array` would compile a program for each new shape.
    found = value
    if isinstance(value, np.ndarray | np.generic):
        found = np.array(found)
    if configuration.jax_enable_x64:
        return device_put(found)
    with jax.enable_x64(True):
        return device_put(found)
