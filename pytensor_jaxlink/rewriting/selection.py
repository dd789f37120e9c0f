"""PyTensor's rewrites, sorted into what JAX needs, what hurts, and what a mode chooses.

PyTensor's own JAX linker takes everything tagged ``"jax"``.  We name what we take, because the tag
also covers rewrites that exist only for its one-jit design: shapes as tuples of scalars (an Op that
cannot run on the host), and lazy conditionals that hide the branches from our analysis.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytensor.compile.mode import optdb
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pytensor_jaxlink.compat import WRONG_REWRITES

REQUIRED_REWRITES = (
    "jaxlink",  # our own
    "minimum_compile",
    "scan_save_mem_no_prealloc",
    "ifelse_simplify",
    "jax_bilinear_lyapunov_to_direct",
    "reuse_decomposition_multiple_solves_jax",
    "scan_split_non_sequence_decomposition_and_solve_jax",
    # The names of the two above until PyTensor 3.1.
    "reuse_lu_decomposition_multiple_solves_jax",
    "scan_split_non_sequence_lu_decomposition_solve_jax",
)

INCOMPATIBLE_REWRITES = (
    "cxx_only",
    "BlasOpt",
    "local_careduce_fusion",
    "inplace",
    "scan_reduce_trace_prealloc",
    "scan_save_mem_prealloc",
    "reuse_decomposition_multiple_solves",
    "scan_split_non_sequence_decomposition_and_solve",
    "reuse_lu_decomposition_multiple_solves",
    "scan_split_non_sequence_lu_decomposition_solve",
    # XLA fuses by itself; a Composite would only hide the nodes.
    "fusion",
    *WRONG_REWRITES,
)


def default_query() -> RewriteDatabaseQuery:
    """The rewrites of the mode ``"JAXSELECTIVE"``."""
    return RewriteDatabaseQuery(include=["fast_run"], exclude=["fusion"])


def linked_query() -> RewriteDatabaseQuery:
    """The same with what the linker adds and takes away."""
    return default_query().including(*REQUIRED_REWRITES).excluding(*INCOMPATIBLE_REWRITES)


def linked_rewriter(excluded: Iterable[str] = ()) -> GraphRewriter:
    """The rewriter of graphs that no mode rewrites: inner ones, gradients.

    Parameters
    ----------
    excluded
        The names of the rewrites that the mode of the outer graph excludes.
    """
    return optdb.query(linked_query().excluding(*excluded))
