"""Many random graphs, in processes of their own: a crash or a hang is a difference, too."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from typing import Any

from tests.differential.report import Counts

PERIOD = 20
"""The graphs after which a process reports, and forgets what JAX has kept."""

PATIENCE = 100.0
"""The seconds after which a graph counts as hanging."""

MOST_MEMORY = 4_000_000
"""The kilobytes that a process may take; with some 100 graphs it takes about 1,000,000."""


ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false --xla_cpu_parallel_codegen_split_count=1",
}
"""The environment of a process: there are as many processes as cores."""

QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Flags with which LLVM optimises little.  XLA's own passes, which fuse and simplify, all run."""

WITHOUT_GCC = "cxx="
"""PyTensor's flag with which it compiles no inner graph of the reference in C (0.1 s each)."""


@dataclass(frozen=True)
class Task:
    """Graphs that one process compares."""

    seeds: tuple[int, ...]
    options: tuple[str, ...]
    without: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    quickly: bool = False
    """Whether LLVM optimises little, and the inner graphs of the reference run in Python too."""
    low: bool = False
    """Whether bounds by size are lowered; see `bounds`."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which the process starts."""
        flags = [os.environ.get("XLA_FLAGS", ""), ONE_THREAD["XLA_FLAGS"]]
        pytensor_flags = [os.environ.get("PYTENSOR_FLAGS", ""), *[WITHOUT_GCC] * self.quickly]
        return ONE_THREAD | {
            "XLA_FLAGS": " ".join([*flags, *[QUICKLY] * self.quickly]),
            "PYTENSOR_FLAGS": ",".join(filter(None, pytensor_flags)),
        }


@dataclass
class Part:
    """What a process has reported: a seed when it begins, counts when it ends."""

    process: Any
    task: Task
    last: int = -1
    since: float = field(default_factory=time.monotonic)

    def rest(self) -> Task:
        """The graphs after the one at which the process ended."""
        seeds = self.task.seeds
        done = seeds.index(self.last) + 1 if self.last in seeds else len(seeds)
        return replace(self.task, seeds=seeds[done:])


def search(tasks: Sequence[Task], workers: int) -> Iterator[Counts | tuple[int, list[str]]]:
    """Compare all graphs.  Gives counts, and each seed that differs with its differences."""
    waiting, running = list(tasks), dict[Connection, Part]()
    context = multiprocessing.get_context("spawn")
    while waiting or running:
        while waiting and len(running) < workers:
            task = waiting.pop(0)
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=compare_all, args=(task, there), daemon=True)
            with _variables(task.environment):  # NumPy and XLA read them when they are imported
                process.start()
            there.close()
            running[here] = Part(process, task)
        for connection in wait(list(running), timeout=5):
            yield from _read(connection, running, waiting)
        for connection, part in list(running.items()):
            if time.monotonic() - part.since > PATIENCE:
                part.process.kill()
                del running[connection]
                yield part.last, [f"it takes more than {PATIENCE} s"]
                waiting.append(part.rest())


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _read(connection: Any, running: dict[Connection, Part], waiting: list[Task]) -> Iterator[Any]:
    part = running[connection]
    try:
        message = connection.recv()
    except EOFError:
        part.process.join()
        del running[connection]
        if part.process.exitcode:
            yield part.last, [f"the process ends with {part.process.exitcode}"]
            waiting.append(part.rest())
        return
    if isinstance(message, int):
        part.last, part.since = message, time.monotonic()
    else:
        yield message


def compare_all(task: Task, connection: Any) -> None:
    """Compare the graphs of a task; the body of a process."""
    import jax
    import pytensor

    from tests.differential.bounds import lower_bounds
    from tests.differential.compare import compare
    from tests.differential.grammar import random_graph
    from tests.differential.shared_code import shared_code

    logging.disable(logging.CRITICAL)  # rewrites of PyTensor that fail
    pytensor.config.traceback__limit = 0  # the user's lines take time, and no comparison reads them
    # PyTensor's graphs are cycles of many objects, and most of them die with the graph.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    if task.low:
        lower_bounds()
    counts, most = Counts(), 0
    # Most options give the same program for a region, which XLA then compiles once.
    with TemporaryDirectory() as folder, shared_code(folder):
        for number, seed in enumerate(task.seeds):
            connection.send(seed)
            graph = random_graph(seed, without=task.without, only=task.only)
            found = compare(graph, task.options)
            counts.add(graph, found)
            if found.differences:
                note = ["the bounds are lowered, as with --low-every 1"] if task.low else []
                connection.send((seed, [*found.differences, *note]))
            before, most = most, getrusage(RUSAGE_SELF).ru_maxrss
            if before <= MOST_MEMORY < most:
                connection.send((seed, [f"the process takes {most} kB of memory"]))
            if number % PERIOD == PERIOD - 1:
                jax.clear_caches()
                connection.send(counts)
                counts = Counts()
        connection.send(counts)
    connection.close()
