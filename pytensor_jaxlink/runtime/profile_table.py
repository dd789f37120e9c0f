"""The table of a profile, as text and as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from pytensor_jaxlink.plan import how_many
from pytensor_jaxlink.runtime.clocks import CALL, Row, Total

_HEADER = ("step", "share", "time", "runs", "each", "moved", "line")


class ProfileRow(NamedTuple):
    """One row of a profile.

    Attributes
    ----------
    name
        The step, as ``f.explain()`` names it, or what else takes time.
    where
        ``file:line`` of the user's code; empty where no line is known.
    depth
        In how many loops and branches the step is.
    runs
        How often it ran.
    seconds
        The time of all runs, without that of the rows inside of it.
    bytes
        The bytes that it moved between host and device.
    """

    name: str
    where: str
    depth: int
    runs: int
    seconds: float
    bytes: int


def rows_of(totals: Mapping[Row, Total]) -> tuple[ProfileRow, ...]:
    """The rows in the order in which they begin; those inside of a loop follow it."""

    def begins(row: Row | None) -> list[float]:
        if row is None:
            return []
        if row is CALL:
            return [float("inf")]
        # A loop that has not ended has no sum yet.
        return [*begins(row.inside), totals[row].first if row in totals else 0]

    return tuple(
        ProfileRow(
            "between the steps" if row is CALL else row.name,
            row.where,
            row.depth,
            totals[row].count,
            totals[row].time / 1e9,
            totals[row].bytes,
        )
        for row in sorted(totals, key=begins)
    )


def as_text(name: str, calls: int, rows: Sequence[ProfileRow]) -> str:
    """The table in lines of text."""
    cells = [[*_HEADER], *_cells(rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, numbers, widths[1:]), where]).rstrip()
        for first, *numbers, where in cells
    ]
    return "\n".join([_headline(name, calls, rows), *(lines if rows else [])])


def table_as_html(name: str, calls: int, rows: Sequence[ProfileRow]) -> str:
    """The table as one `<div>`: styles on the elements, translucent colours, the text's own colour.

    A bar behind each name is as long as its share.
    """
    body = "".join(
        f'<th scope="col" style="{style}">{text}</th>'
        for text, style in zip(_HEADER, (_TEXT, *_NUMBERS, _TEXT), strict=True)
    )
    for first, *numbers, where in _cells(rows):
        bar = f"linear-gradient(to right,rgba(66,133,244,.25) {numbers[0]},transparent 0)"
        style = f"{_TEXT};font-weight:normal;background:{bar}"
        body += f'</tr><tr><th scope="row" style="{style}">{escape(first)}</th>'
        body += "".join(f'<td style="{_NUMBER}">{text}</td>' for text in numbers)
        body += f'<td style="{_TEXT}">{escape(where)}</td>'
    headline = escape(_headline(name, calls, rows))
    style = "line-height:1.35;font-family:sans-serif;font-size:13px;overflow-x:auto"
    table = f'<table style="border-collapse:collapse;font-size:inherit"><tr>{body}</tr></table>'
    return (
        f'<div role="region" aria-label="profile: {headline}" tabindex="0" style="{style}">'
        f"<b>{headline}</b>{table}</div>"
    )


_TEXT = "padding:2px .5em;text-align:left;white-space:pre-wrap;overflow-wrap:anywhere;min-width:9em"
_NUMBER = "padding:2px .5em;text-align:right;white-space:nowrap"
_NUMBERS = [_NUMBER] * (len(_HEADER) - 2)


def _headline(name: str, calls: int, rows: Sequence[ProfileRow]) -> str:
    each = f", {_shown(sum(row.seconds for row in rows) / calls)} each" if calls else ""
    return f"{name}: {how_many(calls, 'call')}{each}"


def _cells(rows: Sequence[ProfileRow]) -> list[list[str]]:
    """The rows in words."""
    total = sum(row.seconds for row in rows)
    return [
        [
            "  " * row.depth + row.name,
            f"{row.seconds / total:.1%}",
            _shown(row.seconds),
            str(row.runs),
            _shown(row.seconds / row.runs),
            shown_bytes(row.bytes) if row.bytes else "",
            row.where,
        ]
        for row in rows
    ]


def _shown(seconds: float) -> str:
    """A time, in the unit in which it is short."""
    unit, size = ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    return f"{seconds * size:.3g} {unit}"


def shown_bytes(count: int) -> str:
    """A number of bytes, in the unit in which it is short."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return how_many(count, "byte") if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
