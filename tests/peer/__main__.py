"""``python -m tests.peer FOLDER [TEST...]``: our figure beside that of upstream's mode "JAX"."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.peer.suite import results, run

MODES = ("python", "jax", "ours")
# Other backends, printing, the machinery of rewriting, and benchmarks: nothing that a mode runs.
LEFT_OUT = ("link", "d3viz", "benchmarks", "misc", "graph", "assumptions")


def comparable(python: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The tests that the figure is about."""
    return [
        test
        for test, found in python.items()
        if found["outcome"] == "passed"
        and found.get("compiled")
        and not found["graph"]
        and not found["draws"]
    ]


def main() -> None:
    """Run, count and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.peer", description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of PyTensor (it contains tests/)")
    parser.add_argument("tests", nargs="*", default=["tests"], help="what to run of it")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES, help="what to run anew")
    parser.add_argument("--reports", type=Path, default=Path("peer-reports"))
    parser.add_argument("--workers", default="2")
    arguments = parser.parse_args()
    reports = {mode: arguments.reports.resolve() / f"{mode}.jsonl" for mode in MODES}
    arguments.reports.mkdir(exist_ok=True)
    tests = [*(f"--ignore=tests/{name}" for name in LEFT_OUT), *arguments.tests]
    for mode in arguments.modes:
        run(arguments.folder, tests, mode, reports[mode], arguments.workers)
    found = {mode: results(path) for mode, path in reports.items() if path.exists()}
    chosen = comparable(found["python"])
    print(f"{len(chosen)} tests pass under the Python linker, compile a function with the default")
    print("mode, and look neither at graphs nor at NumPy's draws")
    for mode in MODES[1:]:
        if mode not in found:
            continue
        failed = [t for t in chosen if found[mode].get(t, {}).get("outcome") != "passed"]
        share = 1 - len(failed) / max(len(chosen), 1)
        print(f"{mode:>5}: {len(chosen) - len(failed)} of {len(chosen)} pass ({share:.2%})")
        folders = Counter("/".join(test.split("::")[0].split("/")[1:]) for test in failed)
        for folder, count in folders.most_common():
            print(f"       {count:4} fail in {folder}")
        listing = reports[mode].with_suffix(".failed.txt")
        listing.write_text(
            "".join(f"{t}\n    {found[mode].get(t, {}).get('reason', 'not run')}\n" for t in failed)
        )
        print(f"       named in {listing}")


if __name__ == "__main__":
    main()
