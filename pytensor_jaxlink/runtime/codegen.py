"""The source of the Python function that runs the steps of one plan.

Decisions that do not depend on a call (where a value is, which step reads it, whether a region has
static values) are made once, and a call runs nothing but the steps.  The source of
``exp(sort(tanh(x))).sum()``, sorted on the host, is::

    def run(a0):
        (a1, ), c0 = region0(a0)
        h1 = host(a1, 1)
        try:
            h2, = step1(h1)
        except Exception as error:
            end_if_false(error, *c0, )
            raise
        (a3, ), c1 = region1(sent(h2))
        stats.host_steps += 1
        return Result([a3], (*c0, *c1))

A step on the host may fail because of an earlier condition that nobody has waited for, an index out
of range: `end_if_false` then ends the run.  A result of a computed length is cut by
``a4 = step1(a3, (slice(None, h2), ))``.

The names that it does not define are bindings (`runtime.bindings`): the same source serves calls
that go straight to compiled code, calls that are checked, and values that JAX traces.

Where the last region reuses memory (`runtime.donation`), the conditions of the steps before are
waited for, and the function holds on to none of the values that it hands over::

    def run(a0):
        a5 = kept1()
        (a1, ), c0 = region0(a0)
        h1 = host(a1, 1)
        try:
            h2, = step1(h1)
        except Exception as error:
            end_if_false(error, *c0, )
            raise
        stats.host_steps += 1
        if not all_hold(*c0, ):
            return Result(None, (False, ))
        o1 = leave1(h2)
        static, values, new = (), [sent(h2), a5], []
        del a0, a5, a1, h1, h2
        (a6, ), c1, stored = donating(static, values, new)
        return Result([a6, o1], c1, stored)

Nothing of the user's goes into the source but numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pytensor_jaxlink.plan import (
    BOUNDS,
    MASK,
    CutOff,
    Fetch,
    HostBranch,
    HostLoop,
    HostStep,
    Plan,
    Region,
)
from pytensor_jaxlink.runtime.reuse import Reuse
from pytensor_jaxlink.runtime.runnable import read_on_host

FILENAME = "<the plan of a function>"


class FunctionSource:
    """The source of the function of a plan.

    A value has the name ``a5`` where a region takes it or gives it, and ``h5`` on the host.

    Parameters
    ----------
    plan
        The plan.
    by_shape
        The numbers of the steps that read only the shapes of their arguments.
    moved
        The inputs that are moved to the device once, because several regions take them.
    kept
        The positions of the inputs that keep their values.  The function takes the others.
    leaving
        The positions of the outputs that change their form when they leave.
    reuse
        The memory that the last region reuses, where it does.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        by_shape: Collection[int] = (),
        moved: Collection[int] = (),
        kept: Collection[int] = (),
        leaving: Collection[int] = (),
        reuse: Reuse | None = None,
    ) -> None:
        self._plan, self._reuse, self._leaving = plan, reuse, leaving
        self._kept = {plan.inputs[position]: position for position in sorted(kept)}
        self._on_host: set[int] = set(plan.constants)
        self._made_on_host: set[int] = set()
        self._made_anywhere: set[int] = set()  # by loops and cuts: on the device or not
        self._defined = [f"a{number}" for number in plan.inputs]
        self._lines = [f"a{n} = kept{position}()" for n, position in self._kept.items()]
        self._read_inputs(moved, by_shape)
        self._conditions: list[str] = []
        for place, step in enumerate(plan.steps if reuse is None else plan.steps[:-1]):
            match step:
                case Fetch(value):
                    self._host(value)
                case HostStep():
                    self._host_step(place, step, by_shape=place in by_shape)
                case CutOff():
                    self._cut_off(place, step)
                case HostLoop() | HostBranch():
                    self._driven(place, step)
                case Region():
                    self._region(step)

    def __str__(self) -> str:
        inputs = ", ".join(f"a{n}" for n in self._plan.inputs if n not in self._kept)
        steps = [step for step in self._plan.steps if not isinstance(step, CutOff | Fetch | Region)]
        count = sum(not (isinstance(step, HostStep) and step.folded) for step in steps)
        counting = [f"stats.host_steps += {count}"] if count else []
        reuse = self._reuse
        ending = self._outputs(counting) if reuse is None else self._donating(counting, reuse)
        return "\n    ".join([f"def run({inputs}):", *ending])

    def function(self, bindings: Mapping[str, Any]) -> Callable[..., Any]:
        """The function, with the values of the names that its source does not define."""
        namespace = dict(bindings)
        exec(compile(str(self), FILENAME, "exec"), namespace)
        return namespace["run"]

    def _outputs(self, counting: list[str]) -> list[str]:
        outputs = ", ".join(map(self._output, range(len(self._plan.outputs))))
        conditions = f", ({self._found()})" if self._conditions else ""
        return [*self._lines, *counting, f"return Result([{outputs}]{conditions})"]

    def _donating(self, counting: list[str], reuse: Reuse) -> list[str]:
        """The end of a function whose last region reuses memory.

        The static values are written first, because that may add lines.
        """
        plan, last = self._plan, self._plan.own_regions[-1]
        static = self._static(last)
        values = ", ".join(map(self._given, reuse.arguments))
        known = [k for k, number in enumerate(plan.outputs) if number not in last.results]
        new = ", ".join(f"o{k}" for k, _ in reuse.others)
        outputs = (f"o{k}" if k in known else f"a{n}" for k, n in enumerate(plan.outputs))
        checking = [f"if not all_hold({self._found()}):", "    return Result(None, (False, ))"]
        return [
            *self._lines,
            *counting,
            *(checking if self._conditions else ()),
            *(f"o{k} = {self._output(k)}" for k in known),
            f"static, values, new = {static}, [{values}], [{new}]",
            f"del {', '.join(dict.fromkeys(self._defined))}",
            f"({self._names(last)}), c{last.index}, stored = donating(static, values, new)",
            f"return Result([{', '.join(outputs)}], c{last.index}, stored)",
        ]

    def _names(self, region: Region) -> str:
        return "".join(f"a{number}, " for number in region.results)

    def _found(self) -> str:
        """The conditions of all steps."""
        return "".join(f"*{name}, " for name in self._conditions)

    def _define(self, *names: str) -> str:
        self._defined += names
        return "".join(f"{name}, " for name in names)

    def _read_inputs(self, moved: Collection[int], by_shape: Collection[int]) -> None:
        """Convert each input that no region looks at when it is traced."""
        if moved:
            inputs = "".join(f"a{number}, " for number in self._plan.inputs)
            self._lines.append(f"place = place_for(({inputs}))")
        steps = enumerate(self._plan.steps)
        on_host = {n for place, step in steps if place not in by_shape for n in read_on_host(step)}
        taken = {number for region in self._plan.own_regions for number in region.arguments}
        for position, number in enumerate(self._plan.inputs):
            if number in self._kept and number not in moved:
                continue  # it has been converted when it was stored
            if number in on_host or number not in taken:
                self._lines.append(f"a{number} = converted({position}, a{number})")
            elif number in moved:
                self._lines.append(f"a{number} = moved(a{number}, place)")

    def _host(self, number: int) -> str:
        if number not in self._on_host:
            self._on_host.add(number)
            self._lines.append(f"h{number} = host(a{number}, {number})")
            self._define(f"h{number}")
        return f"h{number}"

    def _array(self, number: int) -> str:
        return f"h{number}" if number in self._made_on_host else f"a{number}"

    def _output(self, position: int) -> str:
        """An output in the form in which it leaves: regions make keys, and arrays of matrices."""
        number = self._plan.outputs[position]
        value = self._array(number)
        if number in self._plan.generators:
            value = f"generator({value})"
        elif number in self._plan.sparse:
            value = f"matrix({value})"
        return f"leave{position}({value})" if position in self._leaving else value

    def _given(self, number: int) -> str:
        sent = number in self._made_on_host or number in self._made_anywhere
        return f"sent({self._array(number)})" if sent else f"a{number}"

    def _run_on_host(self, line: str) -> None:
        """Write the line of a step whose failure counts if all conditions before it hold."""
        if not self._conditions:
            self._lines.append(line)
            return
        refusing = (
            "except Exception as error:",
            f"    end_if_false(error, {self._found()})",
            "    raise",
        )
        self._lines += ["try:", f"    {line}", *refusing]

    def _host_step(self, place: int, step: HostStep, *, by_shape: bool) -> None:
        name = self._array if by_shape else self._host
        arguments = ", ".join(map(name, step.arguments))
        results = self._define(*(f"h{number}" for number in step.results))
        self._run_on_host(f"{results or '_'} = step{place}({arguments})")
        self._on_host.update(step.results)
        self._made_on_host.update(step.results)

    def _driven(self, place: int, step: HostLoop | HostBranch) -> None:
        arguments = ", ".join(map(self._array, step.arguments))
        results = self._define(*(f"a{number}" for number in step.results))
        self._run_on_host(f"({results}), d{place} = step{place}({arguments})")
        self._conditions.append(f"d{place}")
        self._made_anywhere.update(step.results)

    def _cut_off(self, place: int, step: CutOff) -> None:
        """Index an array; the source of ``x[mask, :n]`` is ``step2(a0, (h1, slice(None, h3)))``."""
        array, *numbers = step.arguments
        values = map(self._host, numbers)
        key = "".join(f"{_index(entry, values)}, " for entry in step.index)
        [number] = step.results
        self._run_on_host(f"a{number} = step{place}({self._array(array)}, ({key}))")
        self._define(f"a{number}")
        self._made_anywhere.add(number)

    def _region(self, region: Region) -> None:
        values = [self._given(number) for number in region.arguments]
        if region.static:
            values = [self._static(region), *values]
        results = self._define(*(f"a{number}" for number in region.results))
        condition = f"c{region.index}"
        self._lines.append(f"({results}), {condition} = region{region.index}({', '.join(values)})")
        self._conditions.append(condition)

    def _static(self, region: Region) -> str:
        return f"({''.join(f'hashable({self._host(number)}), ' for number in region.static)})"


def _index(entry: str, values: Iterator[str]) -> str:
    """The index of one dimension, with the names of its values."""
    if entry == MASK:
        return next(values)
    return f"slice({', '.join(next(values) if b in entry.split() else 'None' for b in BOUNDS)})"
