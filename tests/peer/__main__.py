"""``python -m tests.peer FOLDER [TEST...]``: our figure beside that of upstream's mode "JAX"."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
MODES = ("python", "jax", "ours")
# Other backends, printing, the machinery of rewriting, and benchmarks: nothing that a mode runs.
LEFT_OUT = ("link", "d3viz", "benchmarks", "misc", "graph", "assumptions")


def run(folder: Path, tests: Sequence[str], mode: str, report: Path, workers: str) -> None:
    """Run the tests under one mode; what it says goes to a log beside the report."""
    report.unlink(missing_ok=True)
    left_out = [f"--ignore=tests/{name}" for name in LEFT_OUT]
    options = ["-q", "-n", workers, "--timeout=120", "-W", "ignore", "-p", "no:cacheprovider"]
    environment = os.environ | {
        "PEER_MODE": mode,
        "PEER_REPORT": str(report),
        # The plugin is no module of a package: PyTensor's tests are a package "tests" as ours are.
        "PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent, REPOSITORY))),
        "PYTENSOR_FLAGS": f"cxx=,on_opt_error=warn,base_compiledir={report.parent}/compiled-{mode}",
    }
    with report.with_suffix(".log").open("w") as log:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "peer_plugin", *options, *left_out, *tests],
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
    for mode in arguments.modes:
        run(arguments.folder, arguments.tests, mode, reports[mode], arguments.workers)
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
