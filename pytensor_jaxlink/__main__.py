"""The command line: ``python -m pytensor_jaxlink``.

``explain`` and ``--version`` import neither PyTensor nor JAX.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys

from pytensor_jaxlink import __version__
from pytensor_jaxlink.catalogue import pages
from pytensor_jaxlink.errors import ArtifactError

_WIDEST, _NARROWEST = 88, 20  # characters in a line of text


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    given = _parser().parse_args(arguments)
    commands = {"explain": _explain, "info": _info, "inspect": _inspect}
    try:
        status = commands[given.command](given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pytensor_jaxlink")
    parser.add_argument("--version", action="version", version=f"pytensor_jaxlink {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    explain = commands.add_parser("explain", help="show the page of a code, or list all codes")
    explain.add_argument("code", nargs="?", help="PJL201, pjl201 or 201")
    commands.add_parser("info", help="show versions, devices, flags and caches for a bug report")
    show = commands.add_parser("inspect", help="show what a saved file holds")
    show.add_argument("file", nargs="+")
    show.add_argument("--json", action="store_true", help="the manifest, for programs")
    return parser


def _explain(given: argparse.Namespace) -> int:
    if given.code is None:
        return _printed(pages.listing())
    code = pages.find(given.code)
    if code is None:
        sys.stderr.write(f"{pages.problem(given.code)}\n")
        return 2
    width = max(min(shutil.get_terminal_size().columns, _WIDEST), _NARROWEST)
    return _printed(pages.wrapped(pages.page_of(code), width))


def _info(given: argparse.Namespace) -> int:
    from pytensor_jaxlink.system_info import system_info

    for number, part in enumerate(system_info()):
        _printed(f"\n{part}" if number else part)
        sys.stdout.flush()
    return 0


def _inspect(given: argparse.Namespace) -> int:
    from pytensor_jaxlink.artifact import inspect

    for path in given.file:
        try:
            found = inspect(path)
        except (ArtifactError, OSError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        _printed(json.dumps(found.to_dict(), indent=2) if given.json else str(found))
    return 0


def _printed(text: str) -> int:
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
