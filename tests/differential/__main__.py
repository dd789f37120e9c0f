"""``python -m tests.differential --seed 0 --count 5000``: compare any number of random graphs.

Prints each graph that differs from the Python linker, smaller if ``--shrink`` is given, and how
many comparisons were made for each production and each option.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import pytensor_jaxlink  # noqa: F401 -- registers the mode
from tests.differential.grammar import PRODUCTIONS, random_graph
from tests.differential.options import OPTIONS
from tests.differential.report import Counts, in_words
from tests.differential.search import Task, search
from tests.differential.shrink import shrunk

CHUNK = 100
"""The graphs that one process compares: what JAX and PyTensor keep grows."""


def main() -> None:
    """Print every difference, and what was compared."""
    asked = _parser().parse_args()
    options = tuple(asked.options)
    selection: dict[str, Any] = {"without": tuple(asked.without), "only": tuple(asked.only)}
    seeds = range(asked.seed, asked.seed + asked.count)
    tasks = [
        Task(
            tuple(seeds[start : start + CHUNK]), turn(options, asked.in_turn, start // CHUNK),
            **selection, quickly=start // CHUNK % asked.full_every > 0,
            low=asked.low_every > 0 and (start // CHUNK + 1) % asked.low_every == 0,
        )
        for start in range(0, asked.count, CHUNK)
    ]  # fmt: skip
    quick = sum(len(task.seeds) for task in tasks if task.quickly)
    low = sum(len(task.seeds) for task in tasks if task.low)
    print(f"LLVM optimises little for {quick} of {asked.count} graphs", end="; ", flush=True)
    print(f"bounds by size are lowered for {low}", flush=True)
    started, counts, shown = time.monotonic(), Counts(), 0
    for found in search(tasks, asked.workers):
        if isinstance(found, Counts):
            counts.merge(found)
            if counts.graphs - shown >= asked.progress:
                shown = counts.graphs
                _print_rate(counts, started)
        else:
            _print_difference(*found, options, selection, smaller=asked.shrink)
    print(counts.table(sorted(PRODUCTIONS), list(options)))
    _print_rate(counts, started)


def turn(options: Sequence[str], count: int, number: int) -> tuple[str, ...]:
    """The default and some of the other options, the next ones for each process; 0 for all."""
    first, *others = options
    if not 0 < count < len(others):
        return tuple(options)
    return (first, *[others[(number * count + k) % len(others)] for k in range(count)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--count", type=int, default=300, help="how many graphs")
    parser.add_argument("--workers", type=int, default=1, help="how many processes")
    parser.add_argument(
        "--full-every", type=int, default=8,
        help="of so many processes one lets LLVM optimise as for users, the others little",
    )  # fmt: skip
    parser.add_argument(
        "--low-every", type=int, default=3,
        help="one of so many processes lowers the bounds by size; 0 for none",
    )  # fmt: skip
    parser.add_argument("--options", nargs="+", default=OPTIONS, choices=OPTIONS)
    parser.add_argument(
        "--in-turn", type=int, default=0,
        help="beside the first option a process takes so many of the others, in turn; 0 for all",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", default=(), help="prefixes of productions")
    parser.add_argument("--without", nargs="+", default=(), help="prefixes of productions")
    parser.add_argument("--shrink", action="store_true", help="make graphs that differ smaller")
    parser.add_argument("--progress", type=int, default=1000, help="graphs between two reports")
    return parser


def _print_difference(
    seed: int,
    lines: list[str],
    options: tuple[str, ...],
    selection: dict[str, Any],
    *,
    smaller: bool,
) -> None:
    graph = None
    try:
        if smaller and any(":" in line for line in lines):  # not a crash
            graph, again = shrunk(seed, options, **selection)
            lines = again or lines
        words = in_words(graph or random_graph(seed, **selection))
    except Exception as error:  # of the grammar, and the reason why the process ended
        words = f"it cannot be shown: {error!r}"
    print(f"seed {seed}", *lines, words, sep="\n  ", end="\n\n", flush=True)


def _print_rate(counts: Counts, started: float) -> None:
    seconds = time.monotonic() - started
    values, exceptions = sum(counts.of_all("values")), sum(counts.of_all("exceptions"))
    print(
        f"{counts.graphs} graphs, {counts.different} with differences; {values} calls with values "
        f"and {exceptions} with exceptions compared; {counts.rounded} differences of rounding; "
        f"PyTensor refuses {counts.refused}; {counts.graphs / seconds:.2f} graphs a second",
        flush=True,
    )


if __name__ == "__main__":
    main()
