"""Productions: each takes values from a pool and makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.differential.grammar.pool import Pool, as_float

Make = Callable[[Pool], Any]


@dataclass(frozen=True)
class Production:
    """A way to make a value of a kind; of kind ``update``, an update of a shared variable."""

    name: str
    kind: str
    make: Make


class Family:
    """The productions of one module, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.productions: list[Production] = []

    def add(self, kind: str, name: str, make: Make) -> None:
        """Add a production."""
        self.productions.append(Production(f"{self.name}.{name}", kind, make))

    def gives(self, kind: str) -> Callable[[Make], Make]:
        """Add the decorated function under its name."""

        def added(make: Make) -> Make:
            self.add(kind, make.__name__, make)
            return make

        return added

    def entries(self, kind: str = "vector", **operations: Callable[[Any], Any]) -> None:
        """Add operations on one vector that leave its length."""
        for name, operation in operations.items():
            self.add(kind, name, _on_one(operation))

    def floats(self, **operations: Callable[[Any], Any]) -> None:
        """Add operations on one vector of floating point that leave its length."""
        for name, operation in operations.items():
            self.add("vector", name, _on_one(lambda v, operation=operation: operation(as_float(v))))

    def pairs(self, kind: str = "vector", **operations: Callable[[Any, Any], Any]) -> None:
        """Add operations on two vectors of one length."""
        for name, operation in operations.items():
            self.add(kind, name, _on_two(operation))

    def of(self, kind: str, taken: str, **operations: Callable[[Any], Any]) -> None:
        """Add operations on one value of a kind."""
        for name, operation in operations.items():
            self.add(kind, name, lambda p, operation=operation: operation(p.pick(taken)))


def _on_one(operation: Callable[[Any], Any]) -> Make:
    def make(p: Pool) -> Any:
        vector = p.pick("vector")
        return p.with_tag_of(operation(vector), vector)

    return make


def _on_two(operation: Callable[[Any, Any], Any]) -> Make:
    def make(p: Pool) -> Any:
        first, second = p.pair()
        return p.with_tag_of(operation(first, second), first)

    return make
