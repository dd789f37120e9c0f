"""``python -m tests.edges NAME`` runs the whole of one table of edge values: a module of here."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings

import conftest  # noqa: F401  (the flags of PyTensor that every test shares)
from tests.edges import known

NAMES = ("elementwise", "expressions", "indexing", "random", "linalg")


def main() -> int:
    """Print the differences that no row names; 1 where there are some."""
    parser = argparse.ArgumentParser(prog="python -m tests.edges", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--start", type=int, help="of `expressions`: the first case")
    parser.add_argument("--step", type=int, help="of `expressions`: each so many cases one")
    asked = vars(parser.parse_args())
    name, known.whole = asked.pop("name"), True
    warnings.simplefilter("ignore")
    part = {key: value for key, value in asked.items() if value is not None}
    found = importlib.import_module(f"tests.edges.{name}").run(**part)
    print(*found, f"{len(found)} differences", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
