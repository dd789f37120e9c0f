"""Our rewrites in PyTensor's database: which there are, in which order, and for which Ops.

Each can be turned off by its name: ``mode.excluding("jaxlink_masks")``.  When they are worth it is
the same for all (`rewriting.notes.would_break`).
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from pytensor.compile.mode import optdb
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.tensor.rewriting.shape import ShapeFeature

from pytensor_jaxlink.rewriting import (
    dynamic_slices,
    known_lengths,
    masks,
    reshapes,
    sizes,
    traces,
)
from pytensor_jaxlink.rewriting.notes import Avoided, Family, let_results_be_cut, notes_of

TAG = "jaxlink"


FAMILIES = (
    Family(known_lengths.NAME, known_lengths.CONCERNED, known_lengths.rewrite_lengths),
    Family(reshapes.NAME, reshapes.CONCERNED, reshapes.rewrite_reshapes),
    Family(sizes.NAME, sizes.CONCERNED, sizes.rewrite_sizes),
    Family(dynamic_slices.NAME, dynamic_slices.CONCERNED, dynamic_slices.rewrite_dynamic_slices),
    Family(masks.NAME, masks.CONCERNED, masks.rewrite_masks),
)
"""The rewrites that remove graph breaks, in their order."""

NAMES = tuple(family.tag for family in FAMILIES)
"""The names under which they are turned off."""

# Applied when the linker prepares its copy of a graph: only there have loops been unwrapped.
_TRACES = Family(traces.NAME, (), lambda fgraph, changing: None)


def rewrite_again(
    fgraph: FunctionGraph,
    changing: Collection[int],
    enabled: Collection[str],
    *,
    results: bool = False,
) -> tuple[Avoided, ...]:
    """Rewrite a graph in place where more of its inputs are data.  Returns the breaks avoided.

    PyTensor goes on after a rewrite of its database that fails, and so does this
    (`rewriting.notes.failures_of`).

    Parameters
    ----------
    changing
        The positions of these inputs.
    enabled
        The names of the rewrites that the mode includes.
    results
        Whether results may be cut when they leave (`rewriting.cut_results`).
    """
    let_results_be_cut(fgraph, may=results)
    fgraph.attach_feature(ShapeFeature())
    for family in FAMILIES:
        if family.tag in enabled:
            with suppress(Exception):
                family.rewrite_in_place(fgraph, changing)
    MergeOptimizer().rewrite(fgraph)  # in PyTensor's database a later rewrite does so
    return notes_of(fgraph)


def register_rewrites() -> None:
    """Put the rewrites into PyTensor's database, under our tag alone.

    They come when the forms of reductions are settled, and before anything in place; first those
    that do less work in the end, and last the one that removes no break.
    """
    for place, family in enumerate((*FAMILIES, _TRACES)):
        optdb.register(family.tag, family, TAG, position=3.1 + 0.01 * place)
