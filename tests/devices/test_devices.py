"""Arrays on several devices, and in two processes.

JAX fixes the number of devices when it starts, so the cases run in processes of their own: one for
all cases of a module (two for the cases on two processes).
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def _cases(module: str) -> list[str]:
    return re.findall(r"^def (case_\w+)", (HERE / f"{module}.py").read_text(), re.MULTILINE)


def _start(devices: int, *arguments: str) -> subprocess.Popen[str]:
    flags = {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PYTENSOR_FLAGS": "cxx=",
        "JAX_PLATFORMS": "cpu",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.devices", *arguments],
        cwd=HERE.parents[1],
        env={**os.environ, **flags},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _results(processes: Sequence[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    found = []
    try:
        for process in processes:
            printed, errors = process.communicate(timeout=180)
            lines = [line for line in printed.splitlines() if line.startswith("FOUND ")]
            assert lines, errors[-3000:]
            found.append(json.loads(lines[0].removeprefix("FOUND ")))
    finally:
        for process in processes:
            process.kill()
    return found


@cache
def _eight() -> list[dict[str, Any]]:
    return _results([_start(8, "eight")])


@cache
def _two() -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return _results([_start(4, "two", number, port) for number in ("0", "1")])


@pytest.mark.parametrize("case", _cases("eight"))
def test_eight_devices(case: str) -> None:
    [found] = _eight()
    assert found[case] is None, found[case]


@pytest.mark.parametrize("case", _cases("two"))
def test_two_processes(case: str) -> None:
    for found in _two():
        assert found[case] is None, found[case]
