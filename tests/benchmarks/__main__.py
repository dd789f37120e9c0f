"""``make bench``, ``python -m tests.benchmarks``: tables of ratios, taken side by side."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import jax

import pytensor_jaxlink  # noqa: F401 -- registers the mode
from tests.benchmarks.calls import call_overhead, calls_with_more, one_host_step
from tests.benchmarks.first_result import LARGE, first_results, large_constant
from tests.benchmarks.growth import large_state, many_lengths
from tests.benchmarks.measure import QUICK, THOROUGH
from tests.benchmarks.report import DOCS, Table, machine
from tests.benchmarks.steady import pymc_densities, small_densities, ten_workloads

HEAD = """# Benchmarks

Written by `make bench BENCH="--write --plots"` on {machine}

A figure is a ratio of times taken in turns in one process, the median over the rounds; times to a
first result and peaks of memory are those of processes of their own. "Ours" is the mode
"JAXSELECTIVE" with its default options, "JAX" is PyTensor's mode. Everything is float64, and every
call is waited for, if the table does not say otherwise.

![a call against the size of its argument](benchmark_size.svg)
![a log density and its gradient against the number of nodes](benchmark_nodes.svg)
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    options.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), metavar="NAME")
    options.add_argument("--quick", action="store_true", help="few rounds, one process each")
    options.add_argument("--constant", type=int, default=LARGE, help="elements of the large one")
    options.add_argument("--write", action="store_true", help="all tables, to docs/benchmarks.md")
    options.add_argument("--plots", action="store_true", help="two of them, to docs/")
    options.epilog = "names: " + ", ".join(TABLES)
    return options


Make = Callable[[argparse.Namespace], Table]
TABLES: dict[str, Make] = {
    "calls": lambda chosen: call_overhead(chosen.effort),
    "more": lambda chosen: calls_with_more(chosen.effort),
    "steady": lambda chosen: ten_workloads(chosen.effort),
    "small": lambda chosen: small_densities(chosen.effort),
    "pymc": lambda chosen: pymc_densities(chosen.effort),
    "first": lambda chosen: first_results(1 if chosen.quick else 3),
    "constant": lambda chosen: large_constant(chosen.constant),
    "host": lambda chosen: one_host_step(chosen.effort),
    "lengths": lambda chosen: many_lengths(),
    "state": lambda chosen: large_state(),
}


def main() -> None:
    """Print the tables as they are measured, then write what was asked for."""
    options = parser()
    chosen = options.parse_args()
    if chosen.write and set(chosen.only) != set(TABLES):
        options.error("--write needs all tables: they are of one run")
    chosen.effort = QUICK if chosen.quick else THOROUGH
    warnings.simplefilter("ignore")  # of PyTensor, that it found no C compiler
    jax.config.update("jax_enable_x64", True)
    print(machine(), end="\n\n", flush=True)
    pages = []
    for name in chosen.only:
        table = TABLES[name](chosen)
        print(table.markdown(), flush=True)
        if table.rows:  # that of PyMC's models needs PyMC
            pages.append(table.markdown())
    if chosen.write:
        (DOCS / "benchmarks.md").write_text("\n".join([HEAD.format(machine=machine()), *pages]))
    if chosen.plots:
        from tests.benchmarks.plots import draw_all

        for path in draw_all(chosen.effort):
            print(path)


if __name__ == "__main__":
    main()
