"""Explanations as HTML, DOT and text.

``UPDATE_GOLDEN=1 pytest tests/link/test_pictures.py`` writes the texts anew; read the difference.
"""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.typed_list import make_list

import pytensor_jaxlink as pjl
from pytensor_jaxlink import jaxify
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.link.pictures.dot import quoted
from pytensor_jaxlink.link.sketch import shown_bytes
from tests.helpers import black_box, sort_down

GOLDEN = Path(__file__).parent / "golden"
sort = black_box(sort_down)

X = pt.dvector("x<b>&\"y'\\")
WEIGHTS = pytensor.shared(np.zeros(800), "weights", shape=(800,))


def host_steps() -> Any:
    return pytensor.function([X], sort(pt.exp(X)).sum() + sort(WEIGHTS).sum(), mode="JAXSELECTIVE")


def loop() -> Any:
    rows = pt.dmatrix("rows")
    start = [pt.zeros(rows.shape[1])]
    states = pytensor.scan(
        lambda row, state: sort(state) + row,
        sequences=[rows],
        outputs_info=start,
        return_updates=False,
    )
    return pytensor.function([rows], states[-1], mode="JAXSELECTIVE")


def branch() -> Any:
    output = ifelse(pt.gt(X.sum(), 0), sort(pt.exp(X)), sort(X))
    return pytensor.function([X], output, mode="JAXSELECTIVE")


def fetched_size() -> Any:
    n = pt.lscalar("n")
    return pytensor.function([X, n], X[: X.argmax() + n, None] * X, mode="JAXSELECTIVE")


FUNCTIONS = {make.__name__: make for make in (host_steps, loop, branch, fetched_size)}


def long_chain(length: int) -> Any:
    output = X
    for _ in range(length):
        output = sort(pt.exp(output) * 0.5)
    return pytensor.function([X], output, mode="JAXSELECTIVE").explain()


def check(name: str, text: str) -> None:
    text = re.sub(r"/[^\s\"\\>]*test_pictures.py:\d+", "HERE", text) + "\n"
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


class TestGolden:
    @pytest.mark.parametrize("name", ["host_steps", "fetched_size"])
    def test_text(self, name: str) -> None:
        check(f"{name}.txt", str(FUNCTIONS[name]().explain()))

    @pytest.mark.parametrize("name", ["host_steps"])
    def test_html(self, name: str) -> None:
        html = FUNCTIONS[name]().explain()._repr_html_()
        check(f"{name}.html", html.replace("</div>", "</div>\n"))

    @pytest.mark.parametrize("name", ["host_steps", "fetched_size"])
    def test_dot(self, name: str) -> None:
        check(f"{name}.dot", FUNCTIONS[name]().explain().to_dot())

    def test_rich(self) -> None:
        check("host_steps.rich", in_rich(host_steps().explain()))


def in_rich(explanation: Any) -> str:
    console = pytest.importorskip("rich.console", reason="rich is in the extra `demo`")
    writer = console.Console(width=400, record=True, file=StringIO())  # as wide as paths are long
    writer.print(explanation)
    return "\n".join(line.rstrip() for line in writer.export_text().splitlines())


ATTRIBUTES = {"style", "role", "tabindex", "aria-label", "aria-level", "aria-hidden", "open"}


class Checker(HTMLParser):
    """Every tag is closed, nothing is loaded or run, and a screen reader is told of each place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.roles: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "b", "span", "details", "summary")
        found = {name: value or "" for name, value in attrs}
        assert set(found) <= ATTRIBUTES
        role = found.get("role", "")
        if self.attributes and self.attributes[-1].get("role") == "list":
            assert role == "listitem" or found.get("aria-hidden") == "true"
        if "color:" in found.get("style", "").replace("background", ""):
            assert (role, found["aria-label"].split()[0]) == ("img", "transfer")
        self.open.append(tag)
        self.attributes.append(found)
        self.roles.append(role)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.attributes.pop()

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


@pytest.mark.parametrize("name", FUNCTIONS)
class TestEveryForm:
    def test_html(self, name: str) -> None:
        explanation, checker = FUNCTIONS[name]().explain(), Checker()
        html = explanation._repr_html_()
        checker.feed(html)
        assert checker.open == []
        assert checker.roles[0] == "region"
        assert checker.roles.count("heading") == 1
        assert html.count("<summary>") == len(explanation.breaks)
        assert 'tabindex="0"' in html.partition(">")[0]
        assert "url(" not in html
        assert "http" not in html
        for cut in explanation.breaks:
            assert cut.where in checker.text
            assert cut.reason in checker.text
        for region in range(explanation.graph_count):
            assert f" {region}: " in checker.text

    def test_dot(self, name: str) -> None:
        parse_dot(FUNCTIONS[name]().explain().to_dot())

    def test_rich(self, name: str) -> None:
        text = in_rich(FUNCTIONS[name]().explain())
        assert text.splitlines()[0] == str(FUNCTIONS[name]().explain()).splitlines()[0]


_STRING = r'"(?:[^"\\]|\\.)*"'
_STATEMENT = re.compile(
    rf"(n\d+( -> n\d+)? \[((shape|style)=\w+, )?label={_STRING}\]|n\d+ \[shape=\w+\]"
    rf"|n\d+ -> n\d+ \[style=\w+\]|label={_STRING});"
)


def parse_dot(text: str) -> set[str]:
    """Check that a text is DOT, as far as we write it; returns the nodes."""
    first, *lines, last = text.splitlines()
    assert (first, last) == ("digraph plan {", "}")
    depth, nodes, used = 0, set(), set()
    for line in map(str.strip, lines):
        if re.fullmatch(r"subgraph cluster_\d+ \{", line):
            depth += 1
        elif line == "}":
            depth -= 1
        else:
            assert _STATEMENT.fullmatch(line), line
            outside = re.sub(_STRING, "", line)
            if "->" in outside:
                used |= set(re.findall(r"n\d+", outside))
            elif outside.startswith("n"):
                nodes |= set(re.findall(r"^n\d+", outside))
        assert depth >= 0
    assert depth == 0
    assert used <= nodes
    return nodes


def test_strings_of_dot() -> None:
    assert quoted('a "b" \\ {c}\né') == '"a \\"b\\" \\\\ {c}\\né"'


def test_large_plans_are_cut() -> None:
    explanation = long_chain(50)
    boxes = len(explanation.sketch.boxes)
    assert boxes > 90
    assert f"{boxes - 40} more steps" in explanation._repr_html_()
    assert "10 more breaks" in explanation._repr_html_()
    assert explanation._repr_html_().count("<details open") == 3
    assert explanation._repr_html_().count("<details ") == 40
    assert len(explanation._repr_html_()) < 100_000
    assert len(parse_dot(explanation.to_dot())) == 40 + 3  # inputs, outputs, what is left out
    assert f"{boxes - 40} more steps" in in_rich(explanation)


def test_a_remedy_is_given_once() -> None:
    cube = pt.dtensor3("cube")

    def outer(matrix: Any, state: Any) -> Any:
        inner = pytensor.scan(
            lambda row, before: sort(before) + row,
            sequences=[matrix],
            outputs_info=[state],
            return_updates=False,
        )
        return sort(inner[-1])

    start = [pt.zeros(cube.shape[2])]
    states = pytensor.scan(outer, sequences=[cube], outputs_info=start, return_updates=False)
    [cut] = pjl.explain(states[-1]).breaks
    assert cut.reason.count("sort_down") > 1
    assert len(set(cut.remedies)) == len(cut.remedies) > 1


def test_what_crosses() -> None:
    explanation = host_steps().explain()
    boxes = explanation.sketch.boxes
    crossing = [
        [str(value) for value in explanation.sketch.named(box.to_host)]
        for box in boxes
        if box.kind == "host step"
    ]
    assert sorted(crossing) == [
        ["exp(x<b>&\"y'\\), float64, 8 bytes an element"],
        ["weights, float64[800], 6.2 KiB"],
    ]
    [last] = [box for box in boxes if box.to_device]
    assert (last.kind, len(last.to_device)) == ("region", 2)
    copied = [str(value) for cut in explanation.breaks for value in cut.transfers]
    assert sorted(copied) == sorted(name for names in crossing for name in names)


def test_bytes() -> None:
    amounts = [shown_bytes(count) for count in (8, 1023, 1536, 5 << 20, 3 << 30)]
    assert amounts == ["8 bytes", "1023 bytes", "1.5 KiB", "5.0 MiB", "3.0 GiB"]


def test_of_anything() -> None:
    for explanation in (
        pjl.explain([sort(X) * 2]),
        pjl.explain(pytensor.function([X], sort(X) * 2, mode="FAST_COMPILE")),
        jaxify([X], sort(X) * 2).explain(),
    ):
        assert "sort_down" in explanation._repr_html_()
        assert repr(explanation) == str(explanation)
        parse_dot(explanation.to_dot())
        assert explanation.to_dict()["sketch"]["boxes"][0]["kind"] == "host step"


def test_show(capsys: Any, monkeypatch: Any) -> None:
    explanation = host_steps().explain()
    monkeypatch.setattr("pytensor_jaxlink.link.explanation.find_spec", lambda name: None)
    explanation.show()
    assert capsys.readouterr().out == f"{explanation}\n"
    monkeypatch.undo()
    pytest.importorskip("rich", reason="rich is in the extra `demo`")
    explanation.show()
    assert "├── host step sort_down(exp(" in capsys.readouterr().out


class Cube(Op):
    """An Op that only Python can run, with a known shape."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [x], [x.type()])

    def infer_shape(self, *arguments: Any) -> Any:
        return arguments[-1]

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] ** 3


def test_callbacks() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(Cube()(x)), mode=pjl.JAXLinker(host_ops="callback"))
    html = f.explain()._repr_html_()
    assert "<b>callback 1</b> Cube(x) [PJL504]</summary>" in html
    assert "transfer to host:</span> x, float64, 8 bytes an element, each time it runs" in html


def test_a_list_of_arrays() -> None:
    left, right = pt.dmatrices("left", "right")
    f = pytensor.function([left, right], make_list([left, right]), mode="JAXSELECTIVE")
    assert "transfer to host: left, float64, 8 bytes an element" in str(f.explain())
    assert "make_list(left, right)" in f.explain()._repr_html_()
