"""Measurements that need a process of their own.

``python -m tests.benchmarks.fresh TASK ARGUMENT...`` runs one of the tasks and writes what it
found as JSON; `fresh` is that, from another process.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
# Freed arrays go back to the system at once, so that the peak of the process is the peak of what
# was alive: glibc would raise the threshold when the first one is freed.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONWARNINGS": "ignore"}
TASKS = {
    "workload": "tests.benchmarks.first_result:first_result",
    "constant": "tests.benchmarks.first_result:first_with_constant",
    "state": "tests.benchmarks.growth:peak_of_updates",
}


def fresh(task: str, *arguments: str) -> dict[str, float]:
    """What a task measures in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, task, *arguments],
        cwd=REPOSITORY,
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def resident(kind: str = "VmRSS") -> int:
    """Bytes of this process in memory now, or at their peak (``VmHWM``).  Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status has no {kind}")


def forget_peak() -> None:
    """Measure the peak from now on."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def _run(task: str, *arguments: str) -> Any:
    import jax

    import pytensor_jaxlink  # noqa: F401 -- registers the mode

    jax.config.update("jax_enable_x64", True)
    module, _, name = TASKS[task].partition(":")
    return getattr(importlib.import_module(module), name)(*arguments)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_run(*sys.argv[1:])) + "\n")
