"""Codes in messages: once, in every form, and one for every reason."""

from __future__ import annotations

import ast
import copy
import io
import pickle
import re
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify

import pytensor_jaxlink
from pytensor_jaxlink import JAXLinker, errors, jaxify, load, save
from pytensor_jaxlink.analysis import Obstacle
from pytensor_jaxlink.catalogue import Code, WithCode, code_of, without_codes
from pytensor_jaxlink.catalogue.codes import BASES, GROUPS
from pytensor_jaxlink.errors import (
    ArtifactError,
    BrokenShapeError,
    CheckFailedError,
    JAXLinkError,
    JAXLinkWarning,
    NotJittableError,
    NotSavedError,
    NotTranspilableOrJittableError,
    RecompileLimitError,
)
from tests.helpers import PYTHON, black_box, sort_down

PACKAGE = Path(pytensor_jaxlink.__file__).parent
X = np.array([0.3, -0.9, 0.1, 0.7])
CLASSES = [each for each in vars(errors).values() if isinstance(each, type)]
OURS = [each for each in CLASSES if issubclass(each, WithCode) and each is not WithCode]
sort = black_box(sort_down)

CALLED = ("link/", "trees.py", "pymc.py", "runtime/devices.py", "runtime/padding.py")
"""Modules with ValueErrors for the user; elsewhere they stop a trace or stand for NumPy's."""
CAUGHT = ("lowering/program.py", "lowering/coercion.py", "size_functions.py")
"""Modules with TypeErrors that stop a trace, which is then tried in another way."""


class TestTheTable:
    def test_codes_are_different_and_stand_in_their_groups(self) -> None:
        texts = [code.text for code in Code]
        assert texts == sorted(set(texts))
        assert all(re.fullmatch(r"PJL[1-9][0-9]{2}", text) for text in texts)
        assert {code.group for code in Code} == {*GROUPS.values()}
        assert len({code.title for code in Code}) == len(texts)

    @pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
    def test_every_class_has_a_code(self, kind: Any) -> None:
        assert kind.__name__ in {name for code in Code for name in code.classes}
        if kind.__name__ not in BASES:
            assert kind.__name__ in code_of(kind("text").code).classes

    def test_public_classes_are_among_them(self) -> None:
        names = [name for name in dir(pytensor_jaxlink) if name.endswith(("Error", "Warning"))]
        assert names
        assert all(getattr(pytensor_jaxlink, name) in OURS for name in names)

    def test_an_obstacle_cannot_have_the_code_of_an_error(self) -> None:
        with pytest.raises(AssertionError, match="no reason of a graph break"):
            _ = Obstacle(Code.DONATED, "", "").kind


@cache
def nodes_of_package() -> list[tuple[str, ast.AST]]:
    """The calls, attributes and raised errors of the package, with their places."""
    return [
        (f"{path.relative_to(PACKAGE)}:{node.lineno}", node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call | ast.Attribute | ast.Raise)
    ]


def named(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


class TestTheSource:
    def test_every_code_is_used(self) -> None:
        used = {
            node.attr
            for _, node in nodes_of_package()
            if isinstance(node, ast.Attribute)
            and getattr(node.value, "id", "") in ("Code", "_Code")
        }
        of_classes = {
            code_of(kind("text").code).name for kind in OURS if kind.__name__ not in BASES
        }
        assert {code.name for code in Code} == used | of_classes

    def test_obstacles_are_made_with_a_code(self) -> None:
        made = [
            (where, node)
            for where, node in nodes_of_package()
            if isinstance(node, ast.Call) and named(node) == "Obstacle"
        ]
        assert len(made) > 5
        for where, node in made:
            first = ast.unparse(node.args[0])
            assert first == "code" or Code[first.removeprefix("Code.")].kind is not None, where

    def test_a_message_of_a_base_class_says_its_code(self) -> None:
        """So does each error with a remedy, unless its class has one reason only."""
        for where, node in nodes_of_package():
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call):
                continue
            said = {keyword.arg for keyword in call.keywords} | {
                each.attr for each in ast.walk(call) if isinstance(each, ast.Attribute)
            }
            if named(call) in BASES:
                assert "code" in said, where
            if named(call) == "ArtifactError" and "Remedy" in ast.unparse(call):
                assert "code" in said, where
            if isinstance(node, ast.Raise) and named(call) in ("TypeError", "ValueError"):
                assert "Remedy" not in ast.unparse(call) or "mark" in said, where

    def test_refusals_of_built_in_classes_have_a_code(self) -> None:
        """What users do is a TypeError anywhere, and a ValueError where they call us."""
        for where, node in nodes_of_package():
            if not isinstance(node, ast.Call) or named(node) not in ("TypeError", "ValueError"):
                continue
            at_the_top = where.startswith(CALLED)
            if named(node) == "TypeError" or at_the_top:
                assert "mark" in ast.unparse(node) or where.startswith(CAUGHT), where

    def test_warnings_go_through_the_class(self) -> None:
        calls = [
            (where, node)
            for where, node in nodes_of_package()
            if isinstance(node, ast.Call) and named(node) in ("warn", "warn_explicit")
        ]
        assert len(calls) == 2
        for where, node in calls:
            assert isinstance(node.args[0], ast.Call), where
            assert named(node.args[0]) == "JAXLinkWarning", where


class TestOnce:
    @pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
    def test_however_it_travels(self, kind: Any) -> None:
        first = kind("text", code=Code.FORKED)
        again = [
            pickle.loads(pickle.dumps(first)),
            copy.copy(first),
            copy.deepcopy(first),
            type(first)(*first.args, code=first.reason),
        ]
        if kind.raised_again:
            again.append(type(first)(str(first)))
        for each in again:
            assert type(each) is kind
            assert (str(each), each.code) == ("text [PJL621]", "PJL621")

    def test_a_part_of_another_message(self) -> None:
        inner = BrokenShapeError("no code", code=Code.UNREADABLE_CODE)
        again = BrokenShapeError(f"file: {inner}, and more")
        assert str(again) == "file: no code, and more [PJL807]"
        assert str(BrokenShapeError(str(inner), code=Code.DAMAGED)) == "no code [PJL801]"
        assert without_codes(f"{inner}; {inner}") == "no code; no code"

    @pytest.mark.parametrize("kind", [ArtifactError, NotSavedError])
    def test_errors_of_files_read_no_code_from_text(self, kind: Any) -> None:
        """It may be a user's: the name of an input, of a file, the text of an Op."""
        error = kind("see [PJL801] of x", code=Code.NO_GRAPH_LAYER)
        assert (error.code, error.text) == ("PJL710", "see [PJL801] of x")
        assert str(error) == "see [PJL801] of x [PJL710]"
        assert kind("x [PJL801]").code == kind("x").code != "PJL801"

    def test_the_codes_of_breaks_stay(self) -> None:
        text = str(NotJittableError("1. x [PJL111]\n2. y [PJL102]"))
        assert text == "1. x [PJL111]\n2. y [PJL102] [PJL201]"

    def test_words_that_only_look_like_a_code(self) -> None:
        assert str(RecompileLimitError("x [PJL000]")) == "x [PJL000] [PJL302]"

    @pytest.mark.parametrize("arguments", [(), ("one", "two"), (None,), (b"text",), (3,)])
    def test_other_arguments(self, arguments: Any) -> None:
        error = CheckFailedError(*arguments)
        assert error.args == arguments
        assert str(error) == f"{Exception(*arguments)} [PJL813]".strip()

    def test_a_class_of_somebody_else(self) -> None:
        class TheirsError(JAXLinkError):
            pass

        class TheirLimitError(RecompileLimitError):
            pass

        assert str(TheirsError("text")) == "text"
        assert TheirsError("text").code is None
        assert str(TheirLimitError("text")) == "text [PJL302]"

    def test_pytensor_raises_it_again_with_more_text(self) -> None:
        """PyTensor makes a new error from the text of one that a node raises."""

        class Refusing(Op):
            def make_node(self, x: Any) -> Apply:
                return Apply(self, [x], [x.type()])

            def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
                raise BrokenShapeError("no file", code=Code.DAMAGED)

        x = pt.dvector("x")
        for mode in (PYTHON, JAXLinker()):
            f = pytensor.function([x], Refusing()(x), mode=mode)
            with pytest.raises(BrokenShapeError, match="no file") as caught:
                f(X)
            assert str(caught.value).count("[PJL801]") == 1
            assert caught.value.code == "PJL801"


class TestBreaks:
    def function(self, **options: Any) -> Any:
        x = pt.dvector("x")
        return pytensor.function([x], sort(pt.exp(x)) * 2, mode=JAXLinker(**options))

    def test_every_form(self) -> None:
        explanation = self.function().explain()
        [cut] = explanation.breaks
        assert cut.code == "PJL102"
        assert explanation.to_dict()["breaks"][0]["code"] == "PJL102"
        headings = [line for line in str(explanation).splitlines() if line.startswith("break")]
        assert headings == ["break 1: sort_down(exp(x)) (no JAX implementation) [PJL102]"]
        assert explanation._repr_html_().count("[PJL102]") == 1

    def test_rich_shows_it(self) -> None:
        console = pytest.importorskip("rich.console")  # in the extra `demo`
        page = console.Console(width=200, record=True, file=io.StringIO())
        page.print(self.function().explain())
        assert "[PJL102]" in page.export_text()

    def test_an_inner_reason_has_its_own(self) -> None:
        x = pt.dvector("x")
        positive = pytensor.wrap_py([pt.dscalar], [pt.dscalar])(abs)
        totals = pytensor.scan(
            lambda e, s: s + positive(e),
            sequences=[x],
            outputs_info=[pt.zeros((), "float64")],
            return_updates=False,
        )
        [cut] = pytensor.function([x], totals[-1], mode="JAXSELECTIVE").explain().breaks
        assert cut.code == "PJL121"
        assert "[PJL102]" in cut.reason

    @pytest.mark.parametrize("options", [{"jit": True}, {"jit": False}, {"host_ops": "error"}])
    def test_errors_list_them(self, options: Any) -> None:
        with pytest.raises(JAXLinkError) as caught:
            self.function(**options)
        expected = {"jit": {True: "PJL201", False: "PJL202"}, "host_ops": {"error": "PJL203"}}
        [(name, value)] = options.items()
        assert caught.value.code == expected[name][value]
        assert str(caught.value).count("[PJL") == 2
        assert "no JAX implementation [PJL102]: " in str(caught.value)

    def test_jaxify(self) -> None:
        x = pt.dvector("x")
        fn = jaxify([x], sort(x))
        with pytest.raises(NotTranspilableOrJittableError) as caught:
            _ = fn.static_argnums
        assert caught.value.code == "PJL201"
        assert [cut.code for cut in fn.explain().breaks] == ["PJL102"]

    def test_a_reason_does_not_quote_a_code(self) -> None:
        class Refused(Op):
            __props__ = ()

            def make_node(self, x: Any) -> Apply:
                return Apply(self, [x], [x.type()])

            def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
                output_storage[0][0] = inputs[0]

        def refuse(x: Any) -> Any:
            raise NotJittableError("no")

        jax_funcify.register(Refused, lambda op, **_: refuse)
        x = pt.dvector("x")
        f = pytensor.function([x], Refused()(x) + 1, mode="JAXSELECTIVE")
        f(X)
        assert re.findall(r"PJL\d+", str(f.explain())) == ["PJL131"]


class TestWarnings:
    @staticmethod
    def recompile() -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], x.sum(), mode=JAXLinker(recompile_limit=1, dynamic=False))
        for length in (1, 2):
            f(np.ones(length))

    def test_it_has_a_code(self) -> None:
        with pytest.warns(JAXLinkWarning, match=r"recompile_limit.* \[PJL301\]$") as caught:
            self.recompile()
        assert caught[0].message.code == "PJL301"
        assert caught[0].filename == __file__

    @pytest.mark.parametrize("message", ["region 0 was compiled", r"(?s).*\[PJL301\]"])
    def test_filters_by_message(self, message: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=message, category=JAXLinkWarning)
            self.recompile()

    def test_as_an_error(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", JAXLinkWarning)
            with pytest.raises(JAXLinkWarning, match="PJL301"):
                self.recompile()


class TestNoCode:
    """What the Python linker raises, we raise, word by word."""

    @pytest.mark.parametrize(
        ("graph", "arguments"),
        [
            (lambda x, n: x[n], (X, 9)),
            (lambda x, n: pt.zeros(n) + x.sum(), (X, -2)),
            (lambda x, n: x.reshape((n, -1)), (X, 3)),
            (lambda x, n: pt.specify_shape(x, (n,)), (X, 3)),
            (lambda x, n: x[:n], (X[None], 1)),
            (lambda x, n: x[:n], (X,)),
        ],
    )
    def test_errors_of_calls(self, graph: Any, arguments: Any) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        texts = []
        for mode in ("JAXSELECTIVE", PYTHON):
            f = pytensor.function([x, n], graph(x, n), mode=mode)
            with pytest.raises(Exception) as caught:  # noqa: PT011 -- any, and the same
                f(*arguments)
            assert not isinstance(caught.value, WithCode)
            notes = getattr(caught.value, "__notes__", ())
            assert "PJL" not in "\n".join([str(caught.value), *notes])
            texts.append((type(caught.value), str(caught.value).splitlines()[0]))
        assert texts[0] == texts[1]


WITHOUT_PYTENSOR = """
import sys
sys.modules["pytensor"] = None
import numpy as np
from pytensor_jaxlink import ArtifactError, CheckFailedError, load
for path, call, kind in (
    (sys.argv[1], lambda f: f(np.ones(3), [9]), CheckFailedError),
    (sys.argv[1], lambda f: f.explain(), ArtifactError),
    (sys.argv[1], lambda f: f(np.ones((2, 2)), [1]), TypeError),
):
    try:
        call(load(path))
    except kind as error:
        print(getattr(error, "code", None), str(error)[-9:])
"""


def test_loaded_functions_without_pytensor(tmp_path: Path) -> None:
    x, places = pt.dvector("x"), pt.lvector("places")
    f = pytensor.function([x, places], x[places], mode="JAXSELECTIVE")
    f(X, [1])
    save(f, tmp_path / "f")
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTENSOR, str(tmp_path / "f")],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "PJL813  [PJL813]",
        "PJL805  [PJL805]",
        "None  [PJL816]",
    ], ended.stderr


def test_the_error_of_a_file_keeps_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"PK\3\4 and so on")
    with pytest.raises(ArtifactError, match=r"^/.*\[PJL801\]$") as caught:
        load(path)
    assert str(caught.value).count("PJL") == 1


class TestArguments:
    """What a user gives is not blamed on the file, and is no error of Python's own."""

    @pytest.mark.parametrize(
        ("given", "kind", "code"),
        [
            ({"device": "cpu:99"}, ValueError, "PJL612"),
            ({"device": "cpu:99", "prefer": "graph"}, ValueError, "PJL612"),
            ({"device": "nonsense"}, ValueError, "PJL612"),
            ({"mode": "no such mode", "prefer": "graph"}, ArtifactError, "PJL808"),
            ({"path": 3}, TypeError, "PJL808"),
            ({"path": None}, TypeError, "PJL808"),
            ({"path": b""}, TypeError, "PJL808"),
        ],
        ids=str,
    )
    def test_load(self, given: Any, kind: Any, code: str, tmp_path: Path) -> None:
        x = pt.dvector("x")
        save(pytensor.function([x], x.sum(), mode="JAXSELECTIVE"), tmp_path / "f")
        with pytest.raises(kind) as caught:
            load(**{"path": tmp_path / "f", **given})
        assert re.findall(r"\[(PJL[0-9]+)\]", str(caught.value)) == [code]
        assert isinstance(caught.value, ArtifactError) == (kind is ArtifactError)

    @pytest.mark.parametrize("path", [3, None, b"f"])
    def test_paths(self, path: Any) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], x.sum(), mode="JAXSELECTIVE")
        with pytest.raises(ArtifactError, match=r"neither a path nor .* \[PJL704\]$"):
            save(f, path)
        with pytest.raises(TypeError, match=r"neither a path nor .* \[PJL808\]$"):
            pytensor_jaxlink.inspect(path)
