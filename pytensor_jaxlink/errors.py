"""The exceptions and warnings that this library raises.

Each ends with the code of its page (`pytensor_jaxlink.catalogue`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytensor_jaxlink.catalogue import Code, WithCode

FAILED_NODE = "__pytensor_jaxlink_node__"
"""The attribute that tells, on an exception raised while JAX traces, which node raised it."""

REFUTED = "__pytensor_jaxlink_refuted__"
"""The attribute that marks such an exception where a condition was known to be false before.

PyTensor finishes that call whatever JAX does, and the failure may come of it.
"""

FAILED_ON_HOST = "__pytensor_jaxlink_host_step__"
"""The attribute that marks an exception of an Op that runs on the host."""

OWN_FAILURE = "__pytensor_jaxlink_own__"
"""The attribute that marks such an exception of an Op of the user's: it ends the call."""


def is_of_node(error: BaseException) -> bool:
    """Return True for an exception of an operation, while JAX traces it or on the host."""
    return hasattr(error, FAILED_NODE) or hasattr(error, FAILED_ON_HOST)


class JAXLinkError(WithCode, Exception):
    """Base of every error that pytensor_jaxlink itself raises.

    Attributes
    ----------
    code : str
        The code at the end of the message, ``"PJL201"``, whose page
        ``python -m pytensor_jaxlink explain PJL201`` shows.

    Examples
    --------
    >>> from pytensor_jaxlink import NotJittableError
    >>> print(NotJittableError("no single region"), NotJittableError("no").code)
    no single region [PJL201] PJL201
    """


class UntranspilableOpError(JAXLinkError, NotImplementedError):
    """An Op of the graph has no JAX implementation, and the chosen options need one."""


class NotJittableError(JAXLinkError, TypeError):
    """The graph cannot run inside one `jax.jit` as it stands."""


class NotTranspilableOrJittableError(NotJittableError, UntranspilableOpError):
    """The graph cannot run inside one `jax.jit`, and some Op has no JAX implementation."""


class RecompileLimitError(JAXLinkError, RuntimeError):
    """A region would have to be compiled more often than the options allow."""


class BrokenShapeError(JAXLinkError, ValueError):
    """An Op that JAX called returned an array of another shape or dtype than it had promised."""


class NotDifferentiableError(JAXLinkError, NotImplementedError):
    """JAX differentiates an Op that it calls, and the Op has no gradient."""


class DonatedArgumentError(JAXLinkError, ValueError):
    """An array was given to a function after an earlier call had reused its memory."""


class ForkedProcessError(JAXLinkError, RuntimeError):
    """Something needs JAX in a process that was forked after JAX had run, where it would hang."""


class NotAcceptedError(BaseException):
    """Stops JAX while it traces arguments that go another way; nobody outside ever sees it.

    It is a signal, as `GeneratorExit` is, and passes by whoever handles exceptions on its way.  Of
    an `Exception` JAX looks up the file of each frame, which took it 4 ms.
    """


class GoesOnError(NotAcceptedError):
    """Stops JAX while it traces a region, which runs in another way if it is called."""


class FalseConditionError(NotAcceptedError):
    """Ends a run in which a condition is false before all its steps have run.

    A step has failed on the host after it, or a region that runs on the host has found it.  The
    arguments of that step do not count, and neither does its error.
    """


class NewSizeError(NotAcceptedError):
    """Stops JAX while it traces a region for a second value of a size, which may become data.

    Attributes
    ----------
    numbers
        The values of the plan that select a specialisation and have changed.
    lengths
        For each dimension of an argument, by position and axis, the lengths that it had, the
        present one last.
    plan
        The plan, which another thread may have replaced.
    count
        For how many combinations the region has been compiled.
    put_off
        Whether it was noted in an earlier call, and stops this one before its first step.
    """

    put_off = False

    def __init__(
        self,
        numbers: frozenset[int],
        lengths: Mapping[tuple[int, int], Sequence[int]],
        plan: object,
        count: int,
    ) -> None:
        super().__init__()
        self.numbers, self.lengths, self.plan, self.count = numbers, lengths, plan, count


class OtherCodeError(NotAcceptedError):
    """Stops JAX while it traces: the function has to run other code from now on.

    Attributes
    ----------
    code
        The `RegionCode` of an equal function; None where the function makes its own.
    taker
        The `SharedCode` that asked for it: another thread may have replaced its plan.
    """

    def __init__(self, code: object, taker: object) -> None:
        super().__init__()
        self.code, self.taker = code, taker


class ArtifactError(JAXLinkError, ValueError):
    """A saved function cannot be written or read; the message names the file and what is wrong.

    Attributes
    ----------
    path
        The file, where the message begins with it.
    names_part
        Whether the message names a part of a graph.
    """

    raised_again = False  # its text may be a user's, who writes about codes
    names_part = False

    def __init__(self, *args: object, code: Code | None = None, path: str | None = None) -> None:
        super().__init__(*args, code=code)
        self.path = path


class NotSavedError(ArtifactError):
    """A saved function is called with sizes for which it holds no code."""


class CheckFailedError(JAXLinkError, AssertionError, ValueError, IndexError):
    """A check is false, and PyTensor, which knows which, is not there or gets no values."""


class JAXLinkWarning(WithCode, UserWarning):
    """Base of the warnings that pytensor_jaxlink issues; it has a ``code`` as errors have."""
