"""The errors for graphs that the options leave no way to run, with all that stands in the way."""

from __future__ import annotations

from collections.abc import Sequence

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import (
    NotJittableError,
    NotTranspilableOrJittableError,
    UntranspilableOpError,
)
from pytensor_jaxlink.link.explanation import Break, is_untranspilable, list_blockers
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.plan import how_many


def refusal(breaks: Sequence[Break], options: Options) -> Exception | None:
    """The error where the options forbid the breaks of a plan; None where they do not."""
    if options.jit is True and breaks:
        return not_jittable(breaks)
    untranspilable = [cut for cut in breaks if is_untranspilable(cut)]
    if options.jit is False and untranspilable:
        return UntranspilableOpError(
            list_blockers(
                untranspilable,
                f"{_operations(len(untranspilable))} no JAX implementation, and jit=False "
                "runs every operation in JAX:",
            ),
            code=Code.NOT_TRANSPILABLE,
        )
    host_steps = [cut for cut in breaks if cut.value is None]
    if options.host_ops == "error" and host_steps:
        return UntranspilableOpError(
            list_blockers(
                host_steps,
                f"{_operations(len(host_steps))} to run on the host, which "
                'host_ops="error" forbids:',
            ),
            code=Code.HOST_FORBIDDEN,
        )
    return None


def not_jittable(breaks: Sequence[Break]) -> NotJittableError:
    """The error where breaks keep a graph from being one region."""
    untranspilable = any(map(is_untranspilable, breaks))
    kind = NotTranspilableOrJittableError if untranspilable else NotJittableError
    headline = (
        "this graph cannot run inside one jax.jit. "
        f"{_operations(len(breaks), 'stands', 'stand')} in the way:"
    )
    return kind(list_blockers(breaks, headline))


def _operations(count: int, one: str = "has", many: str = "have") -> str:
    return f"{how_many(count, 'operation')} {one if count == 1 else many}"
