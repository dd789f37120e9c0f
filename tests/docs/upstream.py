"""The programs of ``docs/upstream.md``, and what they print.

As a script, ``python tests/docs/upstream.py``, it reads a list of programs as JSON, runs them one
after the other and writes what each has printed.  It imports nothing of this package, because a
defect of somebody else shows without it.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "upstream.md"

_CODE = r"```python\n(?P<program>.*?)```\n"
_TEXT = r"\n{}:\n\n```text\n(?P<{}>.*?)\n```\n"
_ENTRY = re.compile(
    _CODE + _TEXT.format("Found", "found") + _TEXT.format("Expected", "expected"), re.DOTALL
)
_APART = ("import pymc", "pytensor.tensor.var", 'environ["XLA_FLAGS"]')
"""Programs with one of these change the process for those after them."""


@dataclass(frozen=True)
class Defect:
    """One entry of the page."""

    title: str
    program: str
    found: str
    expected: str
    lines: dict[str, str]

    @classmethod
    def of(cls, section: str) -> Defect:
        title, _, text = section.partition("\n")
        entry = _ENTRY.search(text)
        assert entry is not None, f"{title!r} lacks a program, or what it prints"
        lines = dict(re.findall(r"^- (.*?): (.*)$", text[entry.end() :], re.MULTILINE))
        return cls(title, entry["program"], entry["found"], entry["expected"], lines)

    @property
    def package(self) -> str:
        """The package that has the defect."""
        return self.lines["Shown with"].split()[0]

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that the program was run with."""
        return tuple(self.lines["Shown with"].removeprefix(self.package).strip().split(", "))

    @property
    def mended(self) -> str | None:
        """The version from which on it is mended."""
        line = self.lines.get("Mended in")
        return line and line.removeprefix(self.package).strip()

    @property
    def apart(self) -> bool:
        """True where the program needs a process of its own."""
        return self.found.startswith("SIG") or any(each in self.program for each in _APART)

    def expected_with(self, installed: str) -> bool:
        """Return True if a version of the package is to show no defect."""
        return self.mended is not None and _parts(installed) >= _parts(self.mended)

    def verdict(self, installed: str, printed: str) -> str | None:
        """The problem with what the program has printed, or None."""
        package = f"{self.package} {installed}"
        if printed == (self.expected if self.expected_with(installed) else self.found):
            return None
        if printed == self.expected:
            return f"no longer shown with {package}: the workaround can go: {self.lines['Here']}"
        if printed == self.found:
            return f"shown with {package} again; the page says that {self.mended} has mended it"
        return f"with {package} the program prints neither of both:\n{printed}"


def defects() -> list[Defect]:
    """The entries of the page, in its order."""
    return [Defect.of(part) for part in re.split(r"^### ", PAGE.read_text(), flags=re.M)[1:]]


def installed(package: str) -> str | None:
    """The version of a package, or None where it is not there."""
    try:
        return version(package.lower())
    except PackageNotFoundError:
        return None


def outputs(programs: Sequence[str]) -> list[str]:
    """What programs print in one process of their own; the signal that ends it, if one does."""
    ended = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(programs),
        env={**os.environ, "PYTENSOR_FLAGS": "cxx="},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode < 0 and len(programs) == 1:
        return [signal.Signals(-ended.returncode).name]
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1])


def _parts(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"[0-9]+", text)))


def _run(program: str) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        try:
            exec(compile(program, "program.py", "exec"), {"__name__": "__main__"})
        except Exception as error:
            name, text = type(error).__name__, f"{error}".partition("\n")[0]
            printed.write(f"{name}: {text}" if text else name)
    return printed.getvalue().strip()


if __name__ == "__main__":
    found = [_run(program) for program in json.load(sys.stdin)]
    sys.stdout.write(f"\n{json.dumps(found)}\n")
