"""The programs of the pages, and what they print.

Most run in the process of the test.  Those that fork, need several devices or hide a package run in
one process of their own: ``python -m tests.catalogue.programs FOLDER CODE...``.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from pytensor_jaxlink.catalogue import Code, code_of
from pytensor_jaxlink.catalogue.pages import page_of

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ["What it means", "A program that shows it", "How to mend it", "When to ignore it"]

APART = ("PJL611", "PJL705", "PJL805", "PJL621", "PJL622")
"""In this order: the first sets the number of devices, the last ones fork."""

ALONE = {
    *(("PJL705", 0), ("PJL622", 1), ("PJL722", 1)),
    *(("PJL902", 0), ("PJL902", 1), ("PJL903", 0), ("PJL903", 1)),
}
"""Programs that do something before the first import, or that others read as files."""

ALSO = {
    "PJL121": {"PJL102"},  # the reason inside
    "PJL201": {"PJL111"},
    "PJL202": {"PJL102"},
    "PJL203": {"PJL111"},
}
"""The codes of the breaks that a message lists."""

MENDED = {code: {"PJL504"} for code in ("PJL102", "PJL108", "PJL121")}
"""The codes that a mended program prints: where its operation is a callback."""

_CODE = re.compile(r"\bPJL[0-9]{3}\b")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A page in its parts: the heading, and the sections by their titles."""

    heading: str
    sections: dict[str, str]

    @classmethod
    def of(cls, code: Code) -> Page:
        heading, *parts = re.split(r"^## (.*)$", page_of(code), flags=re.MULTILINE)
        return cls(heading.strip(), dict(zip(parts[::2], parts[1::2], strict=True)))

    @property
    def programs(self) -> tuple[str, str]:
        """The one that shows the message, and the mended one."""
        [shows], [mended] = (_BLOCK.findall(self.sections[name]) for name in SECTIONS[1:3])
        return shows, mended


@dataclass(frozen=True)
class Outcome:
    """The end of a program: its error, and all that it has printed, warnings included."""

    error: Exception | None
    text: str

    @property
    def codes(self) -> set[str]:
        return {*_CODE.findall(self.text)}


def run_here(program: str, folder: Path) -> Outcome:
    """Run a program in this process."""
    output, error = io.StringIO(), None
    with chdir(folder), redirect_stdout(output), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(program, "/home/you/program.py", "exec"), {"__name__": "program"})
        except Exception as raised:
            error = raised
    ours = [f"{each.category.__name__}: {each.message}" for each in caught]
    end = [] if error is None else traceback.format_exception_only(error)
    return Outcome(error, "\n".join([output.getvalue(), *ours, *end]))


def run_alone(program: str, folder: Path) -> Outcome:
    """Run a program as a file of its own."""
    path = folder / "program.py"
    path.write_text(program)
    ended = subprocess.run(
        [sys.executable, str(path)],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(Exception(ended.returncode) if ended.returncode else None, ended.stdout)


@cache
def run_apart() -> dict[str, dict[str, str]]:
    """The texts of the programs that share a process of their own, by code and number."""
    with TemporaryDirectory() as folder:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.catalogue.programs", folder, *APART],
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def _environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return {**found, "PYTENSOR_FLAGS": "cxx="}


def outcome_of(code: Code, number: int, folder: Path) -> Outcome:
    """The outcome of one of the two programs of a page."""
    program = Page.of(code).programs[number]
    if (code.text, number) in ALONE:
        return run_alone(program, folder)
    if code.text in APART:
        text = run_apart()[code.text][str(number)]
        return Outcome(Exception(text) if "Error" in text else None, text)
    return run_here(program, folder)


@contextmanager
def _all_output() -> Iterator[Any]:
    """A file that gets what this process and its children write."""
    with TemporaryFile("w+") as file:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = [os.dup(1), os.dup(2)]
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for old, number in zip(kept, (1, 2), strict=True):
                os.dup2(old, number)
                os.close(old)


def _texts(code: Code) -> Iterator[tuple[str, str]]:
    """What the programs of a page print that run in this process, by their numbers."""
    for number, program in enumerate(Page.of(code).programs):
        if (code.text, number) in ALONE:
            continue
        with _all_output() as file:
            try:
                # A forked process finds functions in the main module by their names.
                exec(
                    compile(program, "/home/you/program.py", "exec"), vars(sys.modules["__main__"])
                )
            except Exception as error:
                sys.stderr.writelines(traceback.format_exception_only(error))
            for name in [name for name, module in sys.modules.items() if module is None]:
                del sys.modules[name]  # the program has hidden it
            sys.stderr.flush()
            file.seek(0)
            yield str(number), file.read()


def _main(folder: str, *codes: str) -> None:
    warnings.simplefilter("always")
    with chdir(folder):
        texts = {text: dict(_texts(code_of(text))) for text in codes}
    sys.stdout.write(json.dumps(texts) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
