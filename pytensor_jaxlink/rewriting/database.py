"""Our rewrites in PyTensor's database.

Each can be turned off by its name: ``mode.excluding("jaxlink_masks")``.  When they are worth it is
the same for all (`rewriting.notes.would_break`).
"""

from __future__ import annotations

from pytensor.compile.mode import optdb

from pytensor_jaxlink.rewriting import lengths, masks, reshapes, sizes, traces, windows

TAG = "jaxlink"

_ORDER = (
    (lengths.NAME, lengths.LengthRewriter),
    (reshapes.NAME, reshapes.ReshapeRewriter),
    (sizes.NAME, sizes.SizeRewriter),
    (windows.NAME, windows.WindowRewriter),
    (masks.NAME, masks.MaskRewriter),
)

NAMES = tuple(name for name, _ in _ORDER)
"""The names under which those are turned off that remove graph breaks, in their order."""


def register() -> None:
    """Put the rewrites into PyTensor's database, under our tag alone.

    They come when the forms of reductions are settled, and before anything in place; first those
    that do less work in the end, and last the one that removes no break.
    """
    for place, (name, rewriter) in enumerate((*_ORDER, (traces.NAME, traces.TraceRewriter))):
        optdb.register(name, rewriter(), TAG, position=3.1 + 0.01 * place)
