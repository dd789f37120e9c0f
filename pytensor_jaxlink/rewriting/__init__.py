"""Which rewrites a graph goes through, PyTensor's and our own.  Never needs JAX."""

from pytensor_jaxlink.rewriting import allocations as _allocations
from pytensor_jaxlink.rewriting import branches as _branches
from pytensor_jaxlink.rewriting import entries as _entries
from pytensor_jaxlink.rewriting import gathers as _gathers
from pytensor_jaxlink.rewriting import layouts as _layouts
from pytensor_jaxlink.rewriting import matrices as _matrices
from pytensor_jaxlink.rewriting import orderings as _orderings
from pytensor_jaxlink.rewriting import prefix_loops as _prefix_loops
from pytensor_jaxlink.rewriting import searches as _searches
from pytensor_jaxlink.rewriting import updates as _updates
from pytensor_jaxlink.rewriting.black_boxes import with_shapes as with_shapes
from pytensor_jaxlink.rewriting.buffers import check_buffers as check_buffers
from pytensor_jaxlink.rewriting.cut_results import cut_results as cut_results
from pytensor_jaxlink.rewriting.database import register_rewrites as register_rewrites
from pytensor_jaxlink.rewriting.database import rewrite_again as rewrite_again
from pytensor_jaxlink.rewriting.graph_masks import is_one_integer as is_one_integer
from pytensor_jaxlink.rewriting.inner import offsets as offsets
from pytensor_jaxlink.rewriting.inner import rewrite_inner as rewrite_inner
from pytensor_jaxlink.rewriting.loop_forms import inline_broken as inline_broken
from pytensor_jaxlink.rewriting.notes import Avoided as Avoided
from pytensor_jaxlink.rewriting.notes import enabled_of as enabled_of
from pytensor_jaxlink.rewriting.notes import excluded_of as excluded_of
from pytensor_jaxlink.rewriting.notes import failures_of as failures_of
from pytensor_jaxlink.rewriting.notes import given_of as given_of
from pytensor_jaxlink.rewriting.notes import hand_on as hand_on
from pytensor_jaxlink.rewriting.notes import keep_given as keep_given
from pytensor_jaxlink.rewriting.notes import keep_rewrites as keep_rewrites
from pytensor_jaxlink.rewriting.notes import keeping_lines as keeping_lines
from pytensor_jaxlink.rewriting.notes import notes_of as notes_of
from pytensor_jaxlink.rewriting.notes import rewrites_of as rewrites_of
from pytensor_jaxlink.rewriting.prepare import may_be_cut as may_be_cut
from pytensor_jaxlink.rewriting.prepare import prepare as prepare
from pytensor_jaxlink.rewriting.selection import INCOMPATIBLE_REWRITES as INCOMPATIBLE_REWRITES
from pytensor_jaxlink.rewriting.selection import REQUIRED_REWRITES as REQUIRED_REWRITES
from pytensor_jaxlink.rewriting.selection import default_query as default_query
from pytensor_jaxlink.rewriting.selection import linked_query as linked_query
from pytensor_jaxlink.rewriting.selection import linked_rewriter as linked_rewriter

# Importing these modules registers their rules of `follow`.
RULES = (
    _allocations,
    _branches,
    _entries,
    _gathers,
    _layouts,
    _matrices,
    _orderings,
    _prefix_loops,
    _searches,
    _updates,
)
