"""The command line: ``python -m pytensor_jaxlink inspect FILE``."""

from __future__ import annotations

import argparse
import json
import sys

from pytensor_jaxlink.artifact import inspect
from pytensor_jaxlink.errors import ArtifactError


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pytensor_jaxlink")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("inspect", help="show what a saved file holds")
    show.add_argument("file", nargs="+")
    show.add_argument("--json", action="store_true", help="the manifest, for programs")
    given = parser.parse_args(arguments)
    for path in given.file:
        try:
            found = inspect(path)
        except (ArtifactError, OSError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        text = json.dumps(found.to_dict(), indent=2) if given.json else str(found)
        sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
