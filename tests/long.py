"""``python -m tests.long REPORT ...``: which tests are long, by what pytest says of their times?

The reports are outputs of ``pytest --durations=0``; of several, the longest time of a test counts.
The tests that are left take no more than the time that is asked for.  Writes `tests/long.txt`,
whose tests ``make test`` leaves to ``make test-all``.  A test that no report names stays there, so
that reports of ``make test`` are enough to shorten it.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
_LINE = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(\S+?)(?:\[.*)?$", re.MULTILINE)


def seconds(reports: Sequence[str]) -> dict[str, float]:
    """The time of each test function, all its parameters together."""
    longest: dict[str, float] = defaultdict(float)
    for report in reports:
        times: dict[str, float] = defaultdict(float)
        for time, name in _LINE.findall(report):
            times[name] += float(time)
        for name, time in times.items():
            longest[name] = max(longest[name], time)
    return dict(longest)


def long_ones(times: Mapping[str, float], left: float) -> list[str]:
    """The longest tests, as many as have to go so that the others take no more than ``left``.

    The shortest test of a folder stays.
    """
    total, found = sum(times.values()), list[str]()
    kept = Counter(map(_folder, times))
    for name in sorted(times, key=lambda name: -times[name]):
        if total > left and kept[_folder(name)] > 1:
            kept[_folder(name)] -= 1
            total -= times[name]
            found.append(name)
    return sorted(found)


def _folder(name: str) -> str:
    return name.partition("::")[0].rpartition("/")[0]


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("report", nargs="+", type=Path)
    parser.add_argument("--left", type=float, default=350.0, help="seconds of CPU for make test")
    asked = parser.parse_args()
    times = seconds([path.read_text() for path in asked.report])
    found = {*long_ones(times, asked.left), *(set(LIST.read_text().split()) - times.keys())}
    LIST.write_text("".join(f"{name}\n" for name in sorted(found)))


if __name__ == "__main__":
    main()
