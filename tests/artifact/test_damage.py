"""Every damaged file gives `ArtifactError`, and executes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import ArtifactError, inspect, load, save
from pytensor_jaxlink.artifact.documents import parse_document
from pytensor_jaxlink.link.options import Options
from tests.artifact import mutations
from tests.artifact.damage import TRAILER, members_of, rebuilt, relisted, sealed


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    x = pt.dmatrix("x")
    weights = pytensor.shared(np.arange(1200.0).reshape(40, 30), name="weights")
    rng = pytensor.shared(np.random.default_rng(1), name="rng")
    following, noise = pt.random.normal(size=(3,), rng=rng).owner.outputs
    outputs = [x @ weights, pt.unique(x).sum() + noise.sum()]
    f = pytensor.function([x], outputs, updates={rng: following}, mode="JAXSELECTIVE")
    f(np.ones((2, 40)))
    path = tmp_path_factory.mktemp("damage") / "whole.jaxlink"
    save(f, path)
    return path.read_bytes()


def test_mutations(tmp_path: Path) -> None:
    """A few of each kind; ``python -m tests.artifact.mutations`` makes many."""
    mutations.write_files(tmp_path)
    found = mutations.outcomes(tmp_path, list(mutations.KINDS), seed=0, count=20)
    assert mutations.problems(found) == []
    assert [sum(each.values()) for each in found.values()] == [20] * len(mutations.KINDS)
    assert found["custom_call"]["refused when called"] > 15


def with_options(content: bytes, **options: Any) -> bytes:
    """A file whose manifest has more options for its function."""
    [(name, head), *others] = members_of(content)
    manifest = json.loads(head)
    manifest["functions"][""]["options"].update(options)
    return rebuilt([(name, json.dumps(manifest).encode()), *others])


@pytest.mark.parametrize("prefer", ["compiled", "graph"])
def test_options_of_a_file_name_no_places(prefer: Any, content: bytes, tmp_path: Path) -> None:
    """Neither a folder is emptied, nor JAX's cache moved, nor a file written by XLA."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        (folder / f"code-{number:064x}.jaxlink").write_bytes(bytes(1000))
    path = tmp_path / "f.jaxlink"
    path.write_bytes(
        with_options(
            content,
            cache_dir=str(folder),
            cache_limit=1,
            compilation_cache=str(folder),
            compiler_options={"xla_dump_to": str(folder)},
            device="nowhere:7",
            future_option=3,
        )
    )
    before = jax.config.jax_compilation_cache_dir
    f = load(path, prefer=prefer, compilation_cache=None)
    assert f(np.ones((2, 40)))[0].shape == (2, 30)
    assert f(np.ones((3, 40)))[0].shape == (3, 30)
    assert jax.config.jax_compilation_cache_dir == before
    assert len(list(folder.iterdir())) == 3
    if prefer == "graph":
        assert f.maker.mode.linker.options == Options()


def with_graph(content: bytes, change: Callable[[Any, list[str]], None]) -> bytes:
    """A sealed file with another graph; the change is given it, and the kinds of its parts."""
    members = dict(members_of(content))
    document = json.loads(members["graph.json"])
    change(document, [json.dumps(part) for part in document["parts"]])
    members["graph.json"] = json.dumps(document).encode()
    return relisted(list(members.items()))


def _position(parts: list[str], text: str) -> int:
    return next(place for place, part in enumerate(parts) if text in part)


def draws_from_a_matrix(document: Any, parts: list[str]) -> None:
    """`RandomVariable.perform` calls a method of its first input, by a name from the file."""
    op = _position(parts, "NormalRV")
    graph = document["functions"][""]
    [node] = [node for node in graph["nodes"] if node[0] == op]
    node[1][0] = node[1][-1]


def gives_another_type(document: Any, parts: list[str]) -> None:
    """What the next node gets is not what the Op gives."""
    graph = document["functions"][""]
    op = _position(parts, "NormalRV")
    [node] = [node for node in graph["nodes"] if node[0] == op]
    generator, draw = (graph["variables"][place] for place in node[2])
    draw[0] = generator[0]


def constant_of_another_type(document: Any, parts: list[str]) -> None:
    """A tuple, which its type would make an array of."""
    graph = document["functions"][""]
    kinds = {place: parts[graph["variables"][place][0]] for place, _ in graph["constants"]}
    [constant] = [each for each in graph["constants"] if "int64" in kinds[each[0]]]
    constant[1] = [3]


@pytest.mark.parametrize(
    "change", [draws_from_a_matrix, gives_another_type, constant_of_another_type]
)
def test_graphs_that_pytensor_would_refuse(change: Any, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f.jaxlink"
    path.write_bytes(with_graph(content, lambda document, parts: None))
    assert load(path, prefer="graph")(np.ones((2, 40)))[0].shape == (2, 30)
    path.write_bytes(with_graph(content, change))
    with pytest.raises(ArtifactError, match=re.escape(str(path))):
        load(path, prefer="graph")


def test_inspect_escapes_what_a_terminal_would_obey(content: bytes, tmp_path: Path) -> None:
    [(name, head), *others] = members_of(content)
    manifest = json.loads(head)
    name_of_input = "\x1b]0;title\x07\x1b[2J\r\u202e x"
    manifest["functions"][""]["inputs"][0]["name"] = name_of_input
    manifest["saved_by"]["jax\n\x1b[31m"] = "1"
    path = tmp_path / "f.jaxlink"
    path.write_bytes(rebuilt([(name, json.dumps(manifest).encode()), *others]))
    found = inspect(path)
    assert all(line.isprintable() for line in str(found).split("\n"))
    assert "\\x1b[2J" in str(found)
    assert found.to_dict()["functions"][""]["inputs"][0]["name"] == name_of_input


def test_damage_with_intent_gets_past_the_seal(content: bytes, tmp_path: Path) -> None:
    """Or the tests above would look at nothing but the checksum at the end."""
    path = tmp_path / "rebuilt.jaxlink"
    path.write_bytes(relisted(members_of(content)))
    assert load(path)(np.ones((2, 40)))[0].shape == (2, 30)


@pytest.mark.parametrize("depth", [150, 250, 5_000, 200_000])
def test_depth_does_not_depend_on_python(depth: int) -> None:
    """PyTensor raises the limit of recursion, which on some versions holds for documents too."""
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        text = opening * depth + b"1" + closing * depth
        if depth < 200:
            assert parse_document(text) is not None
        else:
            with pytest.raises(
                ArtifactError, match=r"^the document is nested too deeply \[PJL801\]$"
            ):
                parse_document(text)


def test_members_outside_of_the_file(content: bytes, tmp_path: Path) -> None:
    """The mark of files above 4 GiB, in a small one: offsets become negative."""
    place = content.rindex(b"PK\5\6") + 16
    path = tmp_path / "f.jaxlink"
    path.write_bytes(sealed(content[:place] + b"\xff" * 4 + content[place + 4 : -TRAILER]))
    with pytest.raises(ArtifactError, match="the directory at its end is damaged"):
        load(path)
