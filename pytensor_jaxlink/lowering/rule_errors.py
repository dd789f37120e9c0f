"""Exceptions of rules: who raised them, and their text."""

from __future__ import annotations

from types import CodeType

from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn

from pytensor_jaxlink.catalogue import without_codes


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, without codes of ours."""
    return without_codes(str(error).strip() or type(error).__name__).splitlines()[0]


DEFAULTS = frozenset(table.dispatch(object).__code__ for table in (jax_funcify, jax_sample_fn))
"""The code of the entries that PyTensor's tables have for every class: they say that none is there.

An entry for a class may fail too: its rule needs another package, or other inputs.
"""


def raised_by(error: BaseException) -> CodeType | None:
    """The code of the function that raised an exception."""
    trace, code = error.__traceback__, None
    while trace is not None:
        trace, code = trace.tb_next, trace.tb_frame.f_code
    return code
