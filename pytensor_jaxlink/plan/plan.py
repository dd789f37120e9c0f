"""The plan: regions, host steps and fetches in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Region:
    """A part of the graph that is compiled by one `jax.jit`.

    Attributes
    ----------
    index
        Its number, from 0.
    static
        The values that select a specialisation, passed as one hashable tuple.
    arguments
        The values passed as arrays.
    results
        The values it returns.
    operations
        What it runs, in order, for people and for the checker.
    """

    index: int
    static: tuple[int, ...]
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    operations: tuple[str, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        """All values it needs."""
        return (*self.static, *self.arguments)

    @property
    def writes(self) -> tuple[int, ...]:
        """All values it computes."""
        return self.results


@dataclass(frozen=True)
class HostStep:
    """One operation that runs on the host, on NumPy arrays.

    `folded` marks arithmetic on sizes, as against an operation that JAX cannot run.
    """

    operation: str
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    folded: bool

    @property
    def reads(self) -> tuple[int, ...]:
        """All values it needs."""
        return self.arguments

    @property
    def writes(self) -> tuple[int, ...]:
        """All values it computes."""
        return self.results


@dataclass(frozen=True)
class Fetch:
    """One value that a region computed, copied to the host because JAX must know it."""

    value: int

    @property
    def reads(self) -> tuple[int, ...]:
        """The value."""
        return (self.value,)

    @property
    def writes(self) -> tuple[int, ...]:
        """The value, on the host."""
        return (self.value,)


Step = Region | HostStep | Fetch


@dataclass(frozen=True)
class Plan:
    """How a function runs.  Values are numbers; `names` tells people what they are.

    Attributes
    ----------
    inputs, outputs
        The values the function takes and gives, updates after outputs.
    constants
        Values known when the function was built.
    steps
        What runs, in order.
    names
        A name for each value.
    generators
        The values that are random generators (inside regions: keys).
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[int, ...]
    steps: tuple[Step, ...]
    names: tuple[str, ...]
    generators: frozenset[int] = frozenset()

    @property
    def regions(self) -> tuple[Region, ...]:
        """The JIT regions, in order."""
        return tuple(step for step in self.steps if isinstance(step, Region))

    def __str__(self) -> str:
        lines = [f"inputs   {self._list(self.inputs)}"]
        lines += [self._line(step) for step in self.steps]
        lines.append(f"outputs  {self._list(self.outputs)}")
        return "\n".join(lines)

    def _list(self, values: tuple[int, ...]) -> str:
        return ", ".join(f"%{value} {self.names[value]}" for value in values) or "-"

    def _line(self, step: Step) -> str:
        match step:
            case Fetch(value):
                return f"fetch    {self._list((value,))}"
            case HostStep(operation, arguments, results, folded):
                kind = "numpy" if folded else "host"
                return f"{kind:<8} {operation}: {self._list(arguments)} -> {self._list(results)}"
            case Region():
                static = f" static {self._list(step.static)};" if step.static else ""
                return (
                    f"region {step.index} [{len(step.operations)} operations]{static} "
                    f"{self._list(step.arguments)} -> {self._list(step.results)}"
                )
