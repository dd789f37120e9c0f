"""An explanation as HTML for notebooks.

Two lanes, the host on the left and the device on the right; time runs downwards.  Each step is a
card in its lane, and between the lanes stands what crosses, with its size.  Styles are written on
the elements, because a style sheet would hold for the whole notebook; colours are laid over the
notebook's own, so they suit light and dark ones.  Text has the notebook's colour, and what a colour
or a place says is also said in words, for those who do not see it.  The page takes the focus, so
that a keyboard scrolls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import count
from typing import TYPE_CHECKING

from pytensor_jaxlink.link.pictures.limits import (
    DEPTH,
    OPEN,
    counted,
    listed,
    short,
    shown_and_hidden,
)
from pytensor_jaxlink.link.sketch import Box, Sketch, Value

if TYPE_CHECKING:
    from pytensor_jaxlink.link.explanation import Break, CallbackSummary, Explanation

_HOST, _DEVICE, _PLAIN = "224,134,20", "66,133,244", "128,128,128"
_GRID = (
    "display:grid;grid-template-columns:minmax(0,2fr) minmax(0,1.5fr) minmax(0,2fr);"
    "gap:6px 0;align-items:center"
)
_FAINT = "opacity:.7;font-size:85%"
_ARROWS = (
    ("{sign} {text}", "&#x2190;", "transfer to host", _HOST),
    ("{text} {sign}", "&#x2192;", "transfer to device", _DEVICE),
)
_HEADING = 'role="heading" aria-level="3"'  # without the notebook's own style of headings
_PARTS = {"loop": ("each step",), "branch": ("if it holds", "else")}


def as_html(explanation: Explanation) -> str:
    """One `<div>`: the plan as a picture, then its breaks and callbacks."""
    headline, *rest = str(explanation).splitlines()
    notes = [line for line in rest if line.startswith("static inputs")] + [*explanation.notes]
    breaks, hidden = shown_and_hidden(explanation.breaks)
    if hidden:
        notes.insert(0, counted(hidden, "break"))
    callbacks, hidden = shown_and_hidden(explanation.callbacks)
    if hidden:
        notes.insert(0, counted(hidden, "callback"))
    parts = [
        f'<div {_HEADING} style="font-weight:bold;margin-bottom:6px">{escape(headline)}</div>',
        *_plan(explanation.sketch, 1),
        *(_break(number, cut) for number, cut in enumerate(breaks, start=1)),
        *(_callback(number, called) for number, called in enumerate(callbacks, start=1)),
        *(f'<div style="{_FAINT};margin-top:4px">{escape(note)}</div>' for note in notes),
    ]
    style = "max-width:60em;line-height:1.35;font-family:sans-serif;font-size:13px"
    label = f'role="region" aria-label="explanation: {escape(headline)}" tabindex="0"'
    return f'<div {label} style="{style}">{"".join(parts)}</div>'


def _plan(sketch: Sketch, depth: int) -> Iterator[str]:
    yield f'<div role="list" aria-label="steps" style="{_GRID}">'
    for column, lane in ((1, "host"), (3, "device")):
        yield _cell(f"1/{column}", lane, f"{_FAINT};text-align:center", 'aria-hidden="true"')
    yield _across(f"inputs: {_names(sketch, sketch.inputs)}")
    rows = count(3)
    boxes, hidden = shown_and_hidden(sketch.boxes, depth)
    for box in boxes:
        yield '<div role="listitem" style="display:contents">'
        yield from _step(box, sketch, depth, rows)
        yield "</div>"
    if hidden:
        yield _across(counted(hidden))
    yield _across(f"outputs: {_names(sketch, sketch.outputs)}")
    yield "</div>"


def _step(box: Box, sketch: Sketch, depth: int, rows: Iterator[int]) -> Iterator[str]:
    """The card of a step in its lane, and beside it what crosses; a loop's card takes both."""
    row = next(rows)
    yield _crossing(row, sketch.named(box.to_host), sketch.named(box.to_device))
    if box.kind == "region":
        yield _cell(f"{row}/3", _card(_DEVICE, "region", box))
    elif box.inner:
        nested = [
            f'<div style="{_FAINT};margin-top:4px">{label}</div>{"".join(_plan(plan, depth + 1))}'
            for label, plan in zip(_PARTS[box.kind], box.inner, strict=True)
            if depth < DEPTH
        ]
        card = _card(_HOST, box.kind, box, "".join(nested))
        yield f'<div style="grid-area:{next(rows)}/1/auto/4">{card}</div>'
    else:
        colour = _PLAIN if box.kind == "sizes" else _HOST
        yield _cell(f"{row}/1", _card(colour, box.kind, box))


def _card(colour: str, label: str, box: Box, inner: str = "") -> str:
    lines = []
    if box.operations:
        lines.append(listed(box.operations))
    if box.static:
        lines.append(f"compiled for each value of {listed(box.static)}")
    if box.where:
        lines.append(box.where)
    style = (
        f"border:1px solid rgba({colour},.9);border-left-width:4px;border-radius:4px;"
        f"background:rgba({colour},.12);padding:4px 8px;overflow-wrap:anywhere"
    )
    details = "".join(f'<div style="{_FAINT}">{escape(line)}</div>' for line in lines)
    title = f"<b>{escape(label)}</b> {escape(short(box.title))}"
    return f'<div style="{style}">{title}{details}{inner}</div>'


def _crossing(row: int, to_host: Sequence[Value], to_device: Sequence[Value]) -> str:
    """The values that cross to the left and to the right; empty where there are none."""
    lines = []
    for values, (order, arrow, label, colour) in zip((to_host, to_device), _ARROWS, strict=True):
        if values:
            style = f"color:rgb({colour});font-weight:bold"
            sign = f'<span role="img" aria-label="{label}" style="{style}">{arrow}</span>'
            line = order.format(sign=sign, text=escape(_brief(values)))
            lines.append(f"<div>{line}</div>")
    style = "text-align:center;font-size:85%;padding:0 8px;overflow-wrap:anywhere"
    return _cell(f"{row}/2", "".join(lines), style)


def _brief(values: Sequence[Value]) -> str:
    return listed(value.brief for value in values)


def _break(number: int, cut: Break) -> str:
    return _noted("break", number, f"{short(cut.operation)} {cut.label}", cut.lines)


def _callback(number: int, called: CallbackSummary) -> str:
    return _noted("callback", number, f"{short(called.operation)} {called.label}", called.lines)


def _noted(label: str, number: int, title: str, rows: Sequence[tuple[str, str]]) -> str:
    lines = "".join(
        f'<div><span style="opacity:.7">{name}:</span> {escape(text)}</div>' for name, text in rows
    )
    style = f"border-left:4px solid rgba({_HOST},.9);padding:2px 8px;margin-top:8px"
    head = f"<summary><b>{label} {number}</b> {escape(title)}</summary>"
    unfolded = " open" if number <= OPEN else ""
    return f'<details{unfolded} style="{style};overflow-wrap:anywhere">{head}{lines}</details>'


def _names(sketch: Sketch, numbers: Sequence[int]) -> str:
    return escape(listed(value.name for value in sketch.named(numbers)) or "none")


def _cell(place: str, content: str, style: str = "", role: str = "") -> str:
    """Something at a place in the grid, ``row/column``."""
    return f'<div{role and " "}{role} style="grid-area:{place};{style}">{content}</div>'


def _across(content: str) -> str:
    style = f"grid-column:1/4;{_FAINT};text-align:center"
    return f'<div role="listitem" style="{style}">{content}</div>'
