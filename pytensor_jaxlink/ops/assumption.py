"""The assumptions of rewrites, which are checked where they matter."""

from __future__ import annotations

from pytensor.raise_op import CheckAndRaise


class Assumption(CheckAndRaise):
    """A value, where the assumptions of a rewrite hold.

    A false one says nothing of the user's graph, which may have a value: PyTensor evaluates it.
    So ``checks="ignore"`` does not drop it, as it drops checks that PyTensor would raise for.
    """


class StaticAssumption(Assumption):
    """The same where JAX must know the conditions: no entry of an empty array could be NaN."""
