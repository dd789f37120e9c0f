"""Compiled code that functions of equal graphs have in common.

PyMC compiles a model's draws anew at each call, and a notebook builds the same function again when
a cell is run again.  `jax.jit` knows code by the object that it was made of, so XLA would compile
each of these.  Here a plan of one region finds, while JAX traces it, the code of an equal one.

Code that two functions have is *closed*: it serves the shapes for which it was compiled.  A
function that meets others goes on with code of its own, and so keeps its own counters, limits and
sizes.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from pytensor_jaxlink.errors import NotAcceptedError
from pytensor_jaxlink.runtime.clocks import Function

_MOST = 32
"""Codes that are kept when their functions are gone: those that were used last."""


class RegionCode:
    """What `jax.jit` made of a region.

    Attributes
    ----------
    compiled
        The function that JAX made.
    closed
        Whether it serves no further shapes, because several functions have it.
    entries
        How many entries it computes.
    """

    compiled: Function

    def __init__(self) -> None:
        self.closed, self.entries = False, 0
        self.shapes: set[tuple[object, ...]] = set()


_lock = Lock()
_kept: OrderedDict[Hashable, RegionCode] = OrderedDict()


Meet = Callable[[], RegionCode]
"""Called when a compilation has been counted; gives the code that it becomes."""


class OtherCodeError(NotAcceptedError):
    """Stops JAX while it traces: the function has to run other code from now on.

    Attributes
    ----------
    code
        That of an equal function; None where the function makes its own.
    """

    def __init__(self, code: RegionCode | None) -> None:
        super().__init__()
        self.code = code


class SharedCode:
    """The code of a plan that is one region, its own or that of an equal one.

    Parameters
    ----------
    identity
        Gives what equal plans have in common; None where nobody could tell that they are equal.
    """

    def __init__(self, identity: Callable[[], Hashable | None]) -> None:
        self._identity = identity
        self._code: RegionCode | None = None
        self._shares = True
        self._traced: Function | None = None

    def jit(
        self,
        jit: Callable[[Function], Function],
        form: Hashable,
        traced: Function,
    ) -> Function:
        """The compiled form of a function, or that which was taken over.

        Parameters
        ----------
        jit
            Makes it.
        form
            What tells functions apart that are made of equal regions.
        traced
            The function.  It is called with ``meet``, which it calls when it has counted, and
            which gives the `RegionCode` that it becomes, or raises `OtherCodeError`.
        """
        if self._code is not None:
            return self._code.compiled
        if not self._shares:
            return jit(_alone(traced))
        # Code that outlives its function does not hold on to the graph.
        self._traced, code, owner = traced, RegionCode(), weakref.ref(self)

        def entered(*values: object) -> object:
            own = owner()
            if own is None or code.closed:
                raise OtherCodeError(None)
            return own.run(code, form, values)

        code.compiled = jit(entered)
        return code.compiled

    def run(self, code: RegionCode, form: Hashable, values: tuple[object, ...]) -> object:
        """Run the function while JAX traces it for ``code``."""
        assert self._traced is not None
        shapes = tuple([getattr(value, "shape", ()) for value in values])
        return self._traced(*values, meet=lambda: self._meet(code, form, shapes))

    def _meet(self, code: RegionCode, form: Hashable, shapes: tuple[object, ...]) -> RegionCode:
        """Find the code of an equal function, or offer this one to others."""
        code.shapes.add(shapes)
        identity = self._identity()
        if identity is None:
            self._shares = False
            return code
        key = identity, form, shapes
        with _lock:
            if len(code.shapes) > 1:  # nobody could count for which of them it was compiled
                for other in [key for key, kept in _kept.items() if kept is code]:
                    del _kept[other]
                return code
            found = _kept.setdefault(key, code)
            _kept.move_to_end(key)
            if len(_kept) > _MOST:
                _kept.popitem(last=False)
        if found is code:
            return code
        found.closed = True
        raise OtherCodeError(found)

    def follow(self, error: OtherCodeError) -> None:
        """Have `jit` give the code that an error names."""
        self._code, self._shares = error.code, False


def _alone(traced: Function) -> Function:
    def run(*values: object) -> object:
        return traced(*values, meet=None)

    return run
