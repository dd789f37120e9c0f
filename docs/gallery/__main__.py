"""``python -m docs.gallery [names]`` runs the examples and writes their pages.

The index is written from the pages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np

from docs.gallery import page
from docs.gallery.example import (
    FOLDER,
    NAMES,
    Comparison,
    compare,
    load,
    sample,
    without_kept_code,
)

DRAWS = 250


def run(name: str) -> None:
    """Run one example and write its page."""
    script = load(name)
    script.check(finish(name, script, compare(script), FOLDER))


def finish(
    name: str, script: ModuleType, found: Comparison, folder: Path, draws: int = DRAWS
) -> dict[str, np.ndarray]:
    """Sample the posterior and write the page; the draws."""
    posterior = sample(script, draws)
    page.write(name, script, found, posterior, folder)
    return posterior


def main() -> None:
    """Run the examples that are named, or all, each in a process of its own; write the index."""
    parser = argparse.ArgumentParser(prog="python -m docs.gallery", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--here", action="store_true", help="in this process, without the index")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        print(name, flush=True)
        if arguments.here:
            run(name)
        else:
            _in_a_process(name)
    if not arguments.here:
        (FOLDER / "README.md").write_text(page.index(FOLDER))


def _in_a_process(name: str) -> None:
    command = [sys.executable, "-m", "docs.gallery", name, "--here"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, check=True, env=without_kept_code(folder))


if __name__ == "__main__":
    main()
