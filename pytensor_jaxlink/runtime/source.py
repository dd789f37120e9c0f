"""The source of a Python function that runs the steps of one plan.

What an interpreter of the plan would decide at each step (where a value is, what reads it, whether
a region has static values) is decided once, and a call runs nothing but the steps.  The source of
``exp(sort(tanh(x))).sum()``, sorted on the host, is::

    def run(a0):
        (a1, ), c0 = region0(a0)
        h1 = to_numpy(a1, stats)
        h2, = step1(h1)
        (a3, ), c1 = region1(sent(h2))
        outputs = [a3]
        stats.host_steps += 1
        if c0 or c1: return pack(outputs), all_hold(*c0, *c1)
        return pack(outputs)

Where the last region reuses memory (`runtime.donation`), the function ends before it, with what it
is to be called with::

    def run(a0, a5):
        (a1, ), c0 = region0(a0)
        h1 = to_numpy(a1, stats)
        h2, = step1(h1)
        stats.host_steps += 1
        if (c0) and not all_hold(*c0): return None
        return (), [sent(h2), a5], []

Nothing of the user's goes into the source but numbers.
"""

from __future__ import annotations

from pytensor_jaxlink.plan import Fetch, HostBranch, HostLoop, HostStep, Plan, Region
from pytensor_jaxlink.runtime.runnable import read_on_host


class Source:
    """The source of the function of a plan.

    A value has the name ``a5`` where a region takes it or gives it, and ``h5`` on the host.

    Parameters
    ----------
    by_shape
        The numbers of the steps that read only the shapes of their arguments.
    moved
        The inputs that are moved to the device once, because several regions take them.
    last
        The arguments of the last region, where the function ends before it: it gives the static
        values of the region, its arguments, and the outputs that it does not compute; or None where
        a condition is false.
    """

    def __init__(
        self,
        plan: Plan,
        by_shape: frozenset[int],
        moved: tuple[int, ...],
        last: tuple[int, ...] | None = None,
    ) -> None:
        self._plan, self._last = plan, last
        self._on_host: set[int] = set(plan.constants)
        self._made_on_host: set[int] = set()
        self._made_by_loops: set[int] = set()  # on the device or not
        self._lines: list[str] = []
        self._read_inputs(moved, by_shape)
        self._conditions: list[str] = []
        for place, step in enumerate(plan.steps if last is None else plan.steps[:-1]):
            match step:
                case Fetch(value):
                    self._host(value)
                case HostStep():
                    self._host_step(place, step, by_shape=place in by_shape)
                case HostLoop() | HostBranch():
                    self._driven(place, step)
                case Region():
                    self._region(step)

    def __str__(self) -> str:
        inputs = ", ".join(f"a{number}" for number in self._plan.inputs)
        steps = [step for step in self._plan.steps if not isinstance(step, Fetch | Region)]
        count = sum(not (isinstance(step, HostStep) and step.folded) for step in steps)
        counting = [f"stats.host_steps += {count}"] if count else []
        ending = self._all_outputs(counting) if self._last is None else self._before_last(counting)
        return "\n    ".join([f"def run({inputs}):", *ending])

    def _all_outputs(self, counting: list[str]) -> list[str]:
        outputs = ", ".join(map(self._output, self._plan.outputs))
        lines = [*self._lines, f"outputs = [{outputs}]", *counting]
        if self._conditions:
            found, given = self._found()
            lines.append(f"if {found}: return pack(outputs), all_hold({given})")
        return [*lines, "return pack(outputs)"]

    def _before_last(self, counting: list[str]) -> list[str]:
        """What is static is looked at first: that may add lines."""
        last = self._plan.own_regions[-1]
        static = self._static(last)
        arguments = ", ".join(map(self._given, self._last or ()))
        others = [number for number in self._plan.outputs if number not in last.results]
        lines = [*self._lines, *counting]
        if self._conditions:
            found, given = self._found()
            lines.append(f"if ({found}) and not all_hold({given}): return None")
        return [*lines, f"return {static}, [{arguments}], [{', '.join(map(self._output, others))}]"]

    def _found(self) -> tuple[str, str]:
        """Whether there are conditions, and all of them."""
        return " or ".join(self._conditions), ", ".join(f"*{name}" for name in self._conditions)

    def _output(self, number: int) -> str:
        made = any(number in region.results for region in self._plan.own_regions)
        return f"a{number}" if made else f"to_jax({self._array(number)})"

    def _read_inputs(self, moved: tuple[int, ...], by_shape: frozenset[int]) -> None:
        """What regions do not look at when they are traced is looked at in each call."""
        if moved:
            inputs = "".join(f"a{number}, " for number in self._plan.inputs)
            self._lines.append(f"place = place_for(({inputs}))")
        steps = enumerate(self._plan.steps)
        on_host = {n for place, step in steps if place not in by_shape for n in read_on_host(step)}
        taken = {number for region in self._plan.own_regions for number in region.arguments}
        for position, number in enumerate(self._plan.inputs):
            if number in on_host or number not in taken:
                self._lines.append(f"a{number} = fitted({position}, a{number})")
            elif number in moved:
                self._lines.append(f"a{number} = moved(a{number}, place)")

    def _host(self, number: int) -> str:
        if number not in self._on_host:
            self._on_host.add(number)
            self._lines.append(f"h{number} = to_numpy(a{number}, stats)")
        return f"h{number}"

    def _array(self, number: int) -> str:
        return f"h{number}" if number in self._made_on_host else f"a{number}"

    def _given(self, number: int) -> str:
        sent = number in self._made_on_host or number in self._made_by_loops
        return f"sent({self._array(number)})" if sent else f"a{number}"

    def _host_step(self, place: int, step: HostStep, *, by_shape: bool) -> None:
        name = self._array if by_shape else self._host
        arguments = ", ".join(map(name, step.arguments))
        results = "".join(f"h{number}, " for number in step.results)
        self._lines.append(f"{results or '_'} = step{place}({arguments})")
        self._on_host.update(step.results)
        self._made_on_host.update(step.results)

    def _driven(self, place: int, step: HostLoop | HostBranch) -> None:
        results = "".join(f"a{number}, " for number in step.results)
        arguments = ", ".join(map(self._array, step.arguments))
        self._lines.append(f"({results}), d{place} = step{place}({arguments})")
        self._conditions.append(f"d{place}")
        self._made_by_loops.update(step.results)

    def _region(self, region: Region) -> None:
        values = [self._given(number) for number in region.arguments]
        if region.static:
            values = [self._static(region), *values]
        results = "".join(f"a{number}, " for number in region.results)
        condition = f"c{region.index}"
        self._lines.append(f"({results}), {condition} = region{region.index}({', '.join(values)})")
        self._conditions.append(condition)

    def _static(self, region: Region) -> str:
        return f"({''.join(f'hashable({self._host(number)}), ' for number in region.static)})"
