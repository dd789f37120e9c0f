"""A plan as a Graphviz digraph."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pytensor_jaxlink.link.pictures.limits import DEPTH, counted, short, shown_and_hidden
from pytensor_jaxlink.link.sketch import Box, Sketch

_SHAPES = {"region": "box", "fetch": "cds", "sizes": "note"}
_PARTS = {"loop": ("each step",), "branch": ("if it holds", "else")}


def as_dot(sketch: Sketch) -> str:
    """The digraph: regions as boxes, what runs on the host as ellipses, loops as clusters.

    An arrow is a value, under its name; where it crosses between host and device it is bold, and
    its size is there.
    """
    body = _plan(sketch, count(), 1)
    return "\n".join(["digraph plan {", *(f"  {line}" for line in body), "}"])


def quoted(text: str) -> str:
    """A string of the language DOT.  A backslash would begin an escape sequence."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _plan(sketch: Sketch, numbers: Iterator[int], depth: int) -> Iterator[str]:
    start, end = f"n{next(numbers)}", f"n{next(numbers)}"
    yield f'{start} [shape=plain, label="inputs"];'
    yield f'{end} [shape=plain, label="outputs"];'
    source = dict.fromkeys(sketch.inputs, start)
    boxes, hidden = shown_and_hidden(sketch.boxes, depth)
    for box in boxes:
        name = f"n{next(numbers)}"
        title = f"{box.kind} {short(box.title)}"
        label = "\n".join(filter(None, (title, short(box.where))))
        yield f"{name} [shape={_SHAPES.get(box.kind, 'ellipse')}, label={quoted(label)}];"
        for value in dict.fromkeys(box.reads):
            if value in source:
                crosses = value in box.to_host or value in box.to_device
                yield _arrow(sketch, source[value], name, value, crosses=crosses)
        source.update(dict.fromkeys(box.writes, name))
        yield from _inner(box, name, numbers, depth)
    if hidden:
        name = f"n{next(numbers)}"
        yield f"{name} [shape=plain, label={quoted(counted(hidden))}];"
        source.update({value: name for box in hidden for value in box.writes})
    for value in sketch.outputs:
        if value in source:
            yield _arrow(sketch, source[value], end, value, crosses=False)


def _inner(box: Box, name: str, numbers: Iterator[int], depth: int) -> Iterator[str]:
    if depth >= DEPTH:
        return
    for label, plan in zip(_PARTS.get(box.kind, ()), box.inner, strict=False):
        number = next(numbers)
        yield f"subgraph cluster_{number} {{"
        yield f"  label={quoted(f'{short(box.title)}: {label}')};"
        first, *lines = _plan(plan, numbers, depth + 1)
        yield from (f"  {line}" for line in (first, *lines))
        yield "}"
        yield f"{name} -> {first.split(' ')[0]} [style=dotted];"


def _arrow(sketch: Sketch, source: str, target: str, value: int, *, crosses: bool) -> str:
    found = sketch.values[value]
    if not crosses:
        return f"{source} -> {target} [label={quoted(short(found.name))}];"
    text = "\n".join(filter(None, (short(found.name), found.size)))
    return f"{source} -> {target} [style=bold, label={quoted(text)}];"
