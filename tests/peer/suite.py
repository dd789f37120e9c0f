"""Runs a test-suite that is not ours under one default mode, and reads what became of each test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]


def run(
    folder: Path, tests: Sequence[str], mode: str, report: Path, workers: str, timeout: int = 120
) -> None:
    """Run tests from a folder under one mode; what pytest says goes to a log beside the report.

    Parameters
    ----------
    folder
        The working directory.
    tests
        What pytest is given: files, folders, options.
    mode
        Its name, see `peer_plugin`.
    report
        The file that takes a line for each test.
    workers
        The number of processes.
    timeout
        The seconds after which a test counts as hanging.
    """
    report.unlink(missing_ok=True)
    compiled = report.parent / f"compiled-{mode}"
    shutil.rmtree(compiled, ignore_errors=True)  # each run compiles for itself, so that times agree
    options = ["-q", "-n", workers, f"--timeout={timeout}", "-W", "ignore"]
    options += ["-p", "no:cacheprovider", "-p", "peer_plugin"]
    environment = os.environ | {
        "PEER_MODE": mode,
        "PEER_REPORT": str(report),
        "PEER_TIMEOUT": str(timeout),
        # The plugin is no module of a package: the others' tests are a package "tests" as ours are.
        "PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent, REPOSITORY))),
        "PYTENSOR_FLAGS": f"cxx=,on_opt_error=warn,base_compiledir={compiled}",
    }
    with report.with_suffix(".log").open("w") as log:
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            check=False,
        )


def results(report: Path) -> dict[str, dict[str, Any]]:
    """The last line of each test: a failed teardown comes after the call."""
    lines = map(json.loads, report.read_text().splitlines())
    return {line["test"]: line for line in lines}
