"""How a plan takes further values of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pytensor_jaxlink.errors import NewSizeError


class Resizing(Protocol):
    """The way of a plan with further values of its sizes."""

    @property
    def has_effects(self) -> bool:
        """Return True if steps show outside of the graph, so that each should run once a call."""
        ...

    def may_change(self, change: NewSizeError) -> bool:
        """Return True if some of the sizes may become data."""
        ...

    def finish(self, inputs: Sequence[object], change: NewSizeError) -> Sequence[object]:
        """The outputs of the call that came with such a value."""
        ...


class PutsOff:
    """The same for regions that come after steps that show: their changes wait for the next call.

    To change the plan, the call starts again.  So this call is compiled for its own sizes.
    """

    has_effects = True

    def __init__(self, resizing: Resizing) -> None:
        self._resizing, self._changes = resizing, list[NewSizeError]()
        self.finish = resizing.finish

    def may_change(self, change: NewSizeError) -> bool:
        """Note the change; the region is compiled."""
        if self._resizing.may_change(change):
            change.put_off, change.args = True, ("a size changed in the last call",)
            self._changes[:] = [change]
        return False

    def take(self) -> NewSizeError | None:
        """The change that waits, once."""
        return self._changes.pop() if self._changes else None

    def before(self, call: Callable[..., object]) -> Callable[..., object]:
        """A call that first raises the change that waits, if any."""

        def changing(*arguments: object) -> object:
            if (change := self.take()) is not None:
                raise change
            return call(*arguments)

        return changing
