"""``python -m docs.gallery [names]`` runs the examples and writes their pages.

Each runs in a process of its own.  The index is written when all have run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.gallery import page
from docs.gallery.example import FOLDER, NAMES, compare, load, sample, without_kept_code

DRAWS = 400


def run(name: str, folder: Path, *, draws: int, turns: int) -> dict[str, str]:
    """Run one example and write its page; the row of the index."""
    script = load(name)
    found = compare(script, turns)
    posterior = sample(script, draws)
    if draws >= DRAWS:
        script.check(posterior)
    page.write(name, script, found, posterior, folder)
    return page.summary(name, script, found)


def main() -> None:
    """Run the examples that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m docs.gallery", description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="name")
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        [name] = arguments.names
        row = run(name, FOLDER, draws=DRAWS, turns=300)
        arguments.row.write_text(json.dumps(row))
        return
    rows = [_in_a_process(name) for name in arguments.names or NAMES]
    if not arguments.names:
        (FOLDER / "README.md").write_text(page.index(rows))


def _in_a_process(name: str) -> dict[str, str]:
    print(name, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        row = Path(folder) / "row.json"
        command = [sys.executable, "-m", "docs.gallery", name, "--row", str(row)]
        subprocess.run(command, check=True, env=without_kept_code(folder))
        return json.loads(row.read_text())


if __name__ == "__main__":
    main()
