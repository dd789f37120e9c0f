"""Our rewrites in PyTensor's database.

Each can be turned off by its name: ``mode.excluding("jaxlink_masks")``.  When they are worth it is
the same for all (`rewriting.notes.would_break`).
"""

from __future__ import annotations

from pytensor.compile.mode import optdb

from pytensor_jaxlink.rewriting import known_lengths, masks, reshapes, sizes, traces, windows
from pytensor_jaxlink.rewriting.family import Family

TAG = "jaxlink"

FAMILIES = (
    Family(known_lengths.NAME, known_lengths.rewrite_lengths),
    Family(reshapes.NAME, reshapes.rewrite_reshapes),
    Family(sizes.NAME, sizes.rewrite_sizes),
    Family(windows.NAME, windows.rewrite_windows),
    Family(masks.NAME, masks.rewrite_masks),
)
"""The rewrites that remove graph breaks, in their order."""

NAMES = tuple(family.tag for family in FAMILIES)
"""The names under which they are turned off."""

# Applied when the linker prepares its copy of a graph: only there have loops been unwrapped.
_TRACES = Family(traces.NAME, lambda fgraph: None)


def register() -> None:
    """Put the rewrites into PyTensor's database, under our tag alone.

    They come when the forms of reductions are settled, and before anything in place; first those
    that do less work in the end, and last the one that removes no break.
    """
    for place, family in enumerate((*FAMILIES, _TRACES)):
        optdb.register(family.tag, family, TAG, position=3.1 + 0.01 * place)
