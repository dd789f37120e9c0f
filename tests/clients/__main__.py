"""``python -m tests.clients FOLDER``: a client's tests under the default mode and under ours."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.peer.suite import results, run

MODES = ("default", "JAXSELECTIVE")
SLOW = 3.0  # times the default mode's CPU time
NAMED = 0.3  # seconds more than under the default mode, below which a slower test is only counted

Found = Mapping[str, Mapping[str, Any]]


def with_names(found: Found) -> dict[str, Mapping[str, Any]]:
    """Tests under names that are the same in each run: some hold the address of a function."""
    named: dict[str, Mapping[str, Any]] = {}
    for test, line in found.items():
        name = re.sub(r" at 0x[0-9a-f]+", "", test)
        same = sum(other == name or other.startswith(f"{name} #") for other in named)
        named[f"{name} #{same + 1}" if same else name] = line
    return named


def passed(found: Found) -> list[str]:
    """The tests that passed."""
    return [test for test, line in found.items() if line["outcome"] == "passed"]


def reason_of(found: Found, test: str) -> str:
    """Why a test did not pass."""
    line = found.get(test)
    return "not run: its process ended" if line is None else line["reason"] or line["outcome"]


def hanging(found: Found) -> list[str]:
    """The tests that pytest-timeout or our last resort ended."""
    marks = "Timeout (>", "crashed while running"
    return [test for test, line in found.items() if any(mark in line["reason"] for mark in marks)]


def slower(default: Found, ours: Found) -> list[tuple[str, float, float]]:
    """Tests that pass under both and take more than `SLOW` times the CPU time, dearest first."""
    both = [(t, default[t]["cpu"], ours[t]["cpu"]) for t in passed(ours) if t in passed(default)]
    found = [(test, before, now) for test, before, now in both if now > SLOW * before]
    return sorted(found, key=lambda each: each[1] - each[2])


def main() -> None:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("folder", type=Path, help="the test folder of a library")
    parser.add_argument("--only", nargs="*", default=["."], help="files and folders of it")
    parser.add_argument("-k", dest="expression", help="which tests, as pytest's -k")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES, help="what to run anew")
    parser.add_argument("--reports", type=Path, default=Path("client-reports"))
    parser.add_argument("--workers", default="2")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for each test")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    arguments.reports.mkdir(parents=True, exist_ok=True)
    reports = {mode: arguments.reports.resolve() / f"{mode}.jsonl" for mode in MODES}
    tests = [str(Path(folder.name) / each) for each in arguments.only]
    tests += ["-k", arguments.expression] if arguments.expression else []
    for mode in arguments.modes:
        run(folder.parent, tests, mode, reports[mode], arguments.workers, arguments.timeout)
    missing = [mode for mode, report in reports.items() if not report.exists()]
    if missing:
        parser.exit(
            1, f"no test has run under {', '.join(missing)}: see {arguments.reports}/*.log\n"
        )
    show(*(with_names(results(report)) for report in reports.values()))


def show(default: Found, ours: Found) -> None:
    """Print the figures."""
    before = passed(default)
    kept = set(before) & set(passed(ours))
    lost = [test for test in before if test not in kept]
    print(f"{len(before)} tests pass under the default mode, {len(passed(ours))} under ours")
    print(f"of those {len(kept)} pass under both: {len(kept) / max(len(before), 1):.2%}")
    for test in lost:
        print(f"  lost: {test}\n        {reason_of(ours, test)}")
    for name, found in zip(MODES, (default, ours), strict=True):
        for test in hanging(found):
            print(f"  hangs under {name}: {test}")
    times = [sum(found[test]["cpu"] for test in kept) for found in (default, ours)]
    print(f"CPU seconds of these: {times[0]:.0f} and {times[1]:.0f}")
    slow = slower(default, ours)
    named = [each for each in slow if each[2] - each[1] > NAMED]
    print(f"{len(slow)} tests take more than {SLOW:.0f} times the default mode's CPU time,")
    print(f"{len(named)} of them more than {NAMED} s longer:")
    for test, one, other in named:
        print(f"  {one:7.2f} -> {other:7.2f} s: {test}")


if __name__ == "__main__":
    main()
