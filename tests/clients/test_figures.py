"""What the command makes of the reports of two runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.__main__ import show, with_names


def line(cpu: float, outcome: str = "passed", reason: str = "") -> dict[str, Any]:
    return {"outcome": outcome, "reason": reason, "cpu": cpu}


def test_figures(capsys: pytest.CaptureFixture[str]) -> None:
    default = {
        "a": line(1.0),
        "b": line(0.5),
        "c": line(0.5),
        "d": line(0.5),
        "failed before": line(1.0, "failed", "no network"),
        "short": line(0.01),
    }
    ours = {
        "a": line(1.5),
        "b": line(2.0),
        "c": line(0.1, "failed", "TypeError: unhashable"),
        "failed before": line(1.0),
        "short": line(0.1),
        "hung": line(0.1, "failed", "Failed: Timeout (>120.0s) from pytest-timeout."),
    }
    show(default, ours)
    assert capsys.readouterr().out.splitlines() == [
        "5 tests pass under the default mode, 4 under ours",
        "of those 3 pass under both: 60.00%",
        "  lost: c",
        "        TypeError: unhashable",
        "  lost: d",
        "        not run: its process ended",
        "  hangs under JAXSELECTIVE: hung",
        "CPU seconds of these: 2 and 4",
        "2 tests take more than 3 times the default mode's CPU time,",
        "1 of them more than 0.3 s longer:",
        "     0.50 ->    2.00 s: b",
    ]


def test_addresses_in_names() -> None:
    first, second = line(1.0), line(2.0)
    found = with_names({"t[<f at 0x7f1>-9]": first, "t[<f at 0x7a2>-9]": second, "u": first})
    assert found == {"t[<f>-9]": first, "t[<f>-9] #2": second, "u": first}
