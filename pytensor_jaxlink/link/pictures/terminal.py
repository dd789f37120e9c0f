"""An explanation as what rich shows in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pytensor_jaxlink.link.pictures.limits import DEPTH, counted, listed, short, shown_and_hidden
from pytensor_jaxlink.link.sketch import Box, Sketch

if TYPE_CHECKING:
    from pytensor_jaxlink.link.explanation import Explanation

_STYLES = {"region": "blue", "sizes": "dim"}
_ON_HOST = "yellow"


def as_rich(explanation: Explanation) -> Iterator[Any]:
    """A tree of the plan, then the breaks.  Rich is imported: it is who asks for this."""
    from rich.text import Text
    from rich.tree import Tree

    headline, *rest = str(explanation).splitlines()
    tree = Tree(Text(headline, style="bold"))
    _add(tree, explanation.sketch, 1)
    yield tree
    for line in rest:
        if not line.startswith("region "):
            yield Text(line, style=_ON_HOST if line.startswith(("break ", "callback ")) else "")


def _add(tree: Any, sketch: Sketch, depth: int) -> None:
    from rich.text import Text

    boxes, hidden = shown_and_hidden(sketch.boxes, depth)
    for box in boxes:
        branch = tree.add(_line(box, sketch))
        for inner in box.inner:
            if depth < DEPTH:
                _add(branch, inner, depth + 1)
    if hidden:
        tree.add(Text(counted(hidden), style="dim"))


def _line(box: Box, sketch: Sketch) -> Any:
    from rich.text import Text

    line = Text(f"{box.kind} ", style=_STYLES.get(box.kind, _ON_HOST))
    line.append(short(box.title), style="bold")
    if box.operations and box.kind == "region":
        line.append(f"  {listed(box.operations)}", style="dim")
    if box.static:
        line.append(f"\n  compiled for each value of {listed(box.static)}")
    if box.where:
        line.append(f"\n  {box.where}")
    if box.to_host:
        line.append(f"\n  transfer to host: {_brief(box.to_host, sketch)}", style=_ON_HOST)
    if box.to_device:
        line.append(f"\n  transfer to device: {_brief(box.to_device, sketch)}", style="blue")
    return line


def _brief(numbers: Iterable[int], sketch: Sketch) -> str:
    return listed(value.brief for value in sketch.named(numbers))
