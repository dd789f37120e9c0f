"""Code that the regions of equal plans have in common.

PyMC compiles a model's draws anew at each call, and a notebook builds the same function again when
a cell is run again.  `jax.jit` knows code by the object that it was made of, so XLA would compile
each of these.  Here a region finds, while JAX traces it, the code of the same region of an equal
plan.  Code that two functions have is *closed*: it serves the shapes for which it was compiled.  A
function that meets others goes on with code of its own, and so keeps its own counters, limits and
sizes.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from pytensor_jaxlink.errors import OtherCodeError
from pytensor_jaxlink.runtime.clocks import Function

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.specialisation import CompiledRegion


@dataclass(eq=False)
class RegionCode:
    """A region as `jax.jit` compiled it.

    Attributes
    ----------
    compiled
        The function that JAX made.
    closed
        Whether it serves no further shapes, because several functions have it.
    entries
        How many entries it computes.
    shapes
        Those of the arguments for which it was compiled.
    """

    compiled: Function = field(init=False)
    closed: bool = False
    entries: int = 0
    shapes: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])


Meet = Callable[[], RegionCode]
"""Called when a compilation has been counted; gives the code that it becomes."""


_MOST = 32
"""Codes that are kept when their functions are gone: those that were used last."""


_lock = Lock()
_kept: OrderedDict[Hashable, RegionCode] = OrderedDict()


class SharedCode:
    """The code of a region, its own or that of the same region of an equal plan.

    ``identity`` gives what equal plans have in common; None where nobody could tell that they are.
    """

    def __init__(self, identity: Callable[[], Hashable | None], region: int) -> None:
        self._identity, self._region = identity, region
        self._code: RegionCode | None = None
        self._shares = True
        self._source: tuple[Function, Callable[[], Hashable]] | None = None

    def jit(
        self,
        jit: Callable[[Function], Function],
        form: Callable[[], Hashable],
        traced: Function,
    ) -> Function:
        """The compiled form of a function, or that which was taken over.

        Parameters
        ----------
        jit
            Makes it.
        form
            Gives what tells functions apart that are made of equal regions.
        traced
            The function.  It is called with ``meet``, which it calls when it has counted, and
            which gives the `RegionCode` that it becomes, or raises `OtherCodeError`.
        """
        if self._code is not None:
            return self._code.compiled
        if not self._shares:
            return jit(_alone(traced))
        # Code that outlives its function does not hold on to the graph.
        self._source = traced, form
        code, owner = RegionCode(), weakref.ref(self)

        def entered(*values: object) -> object:
            own = owner()
            if own is None or code.closed:
                raise OtherCodeError(None, None)
            return own.run(code, values)

        code.compiled = jit(entered)
        return code.compiled

    def run(self, code: RegionCode, values: tuple[object, ...]) -> object:
        """Run the function while JAX traces it for ``code``."""
        assert self._source is not None, "`jit` has been given it"
        traced, form = self._source[0], self._source[1]()
        shapes = tuple([getattr(value, "shape", ()) for value in values])
        try:
            return traced(*values, meet=lambda: self._meet(code, form, shapes))
        except Exception:  # there will be no such code
            _withdraw(code)
            raise

    def _meet(self, code: RegionCode, form: Hashable, shapes: tuple[object, ...]) -> RegionCode:
        """Find the code of an equal function, or offer this one to others."""
        code.shapes.add(shapes)
        if len(code.shapes) > 1:  # nobody could count for which of them it was compiled
            _withdraw(code)
            return code
        identity = self._identity()
        if identity is None:
            self._shares = False
            return code
        key = identity, self._region, form, shapes
        with _lock:
            found = _kept.setdefault(key, code)
            _kept.move_to_end(key)
            if len(_kept) > _MOST:
                _kept.popitem(last=False)
        if found is code:
            return code
        found.closed = True
        raise OtherCodeError(found, self)

    def follow(self, error: OtherCodeError, region: CompiledRegion) -> None:
        """Have `jit` give the code that an error names, or code of the region's own."""
        assert error.code is None or isinstance(error.code, RegionCode)
        self._code, self._shares = error.code, False
        if error.code is None:
            region.compile_again()


def _withdraw(code: RegionCode) -> None:
    """Offer a code to no others."""
    with _lock:
        for key in [key for key, kept in _kept.items() if kept is code]:
            del _kept[key]


def _alone(traced: Function) -> Function:
    def run(*values: object) -> object:
        return traced(*values, meet=None)

    return run
