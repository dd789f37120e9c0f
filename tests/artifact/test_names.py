"""A file leads to known names of PyTensor, to those that are allowed, and to no C code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.configdefaults import config
from pytensor.graph.utils import MissingInputError
from pytensor.link.c.basic import CLinker, OpWiseCLinker
from pytensor.link.c.op import COp
from pytensor.link.vm import VMLinker
from pytensor.printing import Print
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic, math
from pytensor.scalar.basic import ScalarOp

from pytensor_jaxlink import ArtifactError, JAXLinker, load, save
from pytensor_jaxlink.artifact import known
from pytensor_jaxlink.artifact.names import name_of
from tests.artifact.damage import members_of, relisted
from tests.ops.table import written

X = pt.dvector("x")


def saved(path: Path, outputs: Any, **options: Any) -> Path:
    save(pytensor.function([X], outputs, mode=JAXLinker()), path, compiled=False, **options)
    return path


def changed(path: Path, change: Callable[[list[Any]], None]) -> Path:
    """A file whose parts are others."""
    members = dict(members_of(path.read_bytes()))
    document = json.loads(members["graph.json"])
    change(document["parts"])
    members["graph.json"] = json.dumps(document).encode()
    path.write_bytes(relisted(list(members.items())))
    return path


def test_the_ops_are_those_of_the_table() -> None:
    ours = {name.replace(":", ".") for name in known.OPS}
    assert ours - {"pytensor.tensor.random.op.RandomVariable"} == written().keys() - {
        "pytensor.breakpoint.PdbBreakpoint"
    }


def test_the_functions_are_those_of_all_scalar_ops() -> None:
    ops = [
        op for module in (basic, math) for op in vars(module).values() if isinstance(op, ScalarOp)
    ]
    chosen = {
        vars(op)["output_types_preference"] for op in ops if "output_types_preference" in vars(op)
    }
    functions = [each for each in chosen if isinstance(each, FunctionType)]
    assert len(functions) > 5
    assert {name_of(each, "a scalar Op") for each in functions} <= set(known.FUNCTIONS)


@pytest.mark.parametrize("dtype", ["uint16", "int8", "float32"])
def test_signs(dtype: str, tmp_path: Path) -> None:
    numbers = pt.vector("numbers", dtype=dtype)
    save(pytensor.function([numbers], pt.sign(numbers), mode=JAXLinker()), tmp_path / "f")
    value = np.array([3, 0], dtype)
    np.testing.assert_array_equal(load(tmp_path / "f", prefer="graph")(value), np.sign(value))


@pytest.mark.parametrize(
    "name",
    [
        "pytensor.raise_op:ExceptionType",
        "pytensor.link.c.type:CDataType",
        "pytensor.link.c.op:ExternalCOp",
        "pytensor.breakpoint:PdbBreakpoint",
        "pytensor.tensor.basic:as_tensor_variable",
        "pytensor.misc.pkl_utils:load",
        "os:system",
    ],
)
@pytest.mark.parametrize("kind", ["op", "type", "object"])
def test_other_names(name: str, kind: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "f", pt.exp(X))
    module = name.partition(":")[0]
    needed = module if module.startswith("pytensor") else module.partition(".")[0]
    with pytest.raises(ArtifactError, match=rf"'{name}'.*load\(path, allow=\('{needed}',\)\)"):
        load(changed(path, lambda parts: parts.insert(0, {kind: name, "of": {}})))


@pytest.mark.parametrize("kind", [np.linalg.LinAlgError, MissingInputError, KeyError])
def test_exceptions_of_checks(kind: type[Exception], tmp_path: Path) -> None:
    checked = CheckAndRaise(kind, "not positive")(X, pt.all(X > 0))
    loaded = load(saved(tmp_path / "f", checked * 2))
    with pytest.raises(kind, match="not positive"):
        loaded(-np.ones(2))


def test_functions_are_those_that_choose_types(tmp_path: Path) -> None:
    def change(parts: list[Any]) -> None:
        entry = next(each for each in parts if each.get("op", "").endswith(":Exp"))
        entry["of"]["output_types_preference"] = {"function": "pytensor.scalar.basic:as_scalar"}

    with pytest.raises(ArtifactError, match="as_scalar"):
        load(changed(saved(tmp_path / "f", pt.exp(X)), change))


def test_special_methods_are_not_called(tmp_path: Path) -> None:
    printed = Print("here", attrs=("shape",))(X)
    draw = pt.random.normal(X, rng=pt.random.type.random_generator_type("rng"))

    def print_another(parts: list[Any]) -> None:
        entry = next(each for each in parts if each.get("op", "").endswith(":Print"))
        assert "shape" in json.dumps(entry)
        entry["of"] = json.loads(json.dumps(entry["of"]).replace("shape", "__reduce__"))

    with pytest.raises(ArtifactError, match="'__reduce__' is no public attribute"):
        load(changed(saved(tmp_path / "f", printed), print_another))

    rng = draw.owner.inputs[0]
    f = pytensor.function([rng, X], draw, mode=JAXLinker())
    save(f, tmp_path / "g", compiled=False)

    def draw_otherwise(parts: list[Any]) -> None:
        entry = next(each for each in parts if each.get("op", "").endswith(":NormalRV"))
        entry["of"]["name"] = "__setstate__"

    with pytest.raises(ArtifactError, match="'__setstate__' is no public attribute"):
        load(changed(tmp_path / "g", draw_otherwise))


@pytest.mark.parametrize("linker", [VMLinker(c_thunks=True), OpWiseCLinker(), CLinker()])
def test_modes_with_c_code(linker: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "f", pt.exp(X).sum())
    with pytest.raises(ArtifactError, match="generates C code, and none is generated from a file"):
        load(path, mode=Mode(linker, "fast_run"))


@pytest.mark.parametrize("mode", [None, Mode("py"), Mode(VMLinker(c_thunks=False))])
def test_no_c_code(mode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make_c_thunk(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(COp, "make_c_thunk", make_c_thunk)
    path = saved(tmp_path / "f", pt.exp(X).sum())
    with config.change_flags(cxx="g++"):
        f = load(path, mode=mode)
        assert config.cxx == "g++"
        assert f(np.zeros(3)) == 3


def test_no_c_code_when_it_is_rewritten_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start-up cache has the function, which is rewritten when somebody looks at it."""
    path = saved(tmp_path / "f", pt.exp(X).sum())
    mode = JAXLinker(cache_dir=tmp_path / "cache")
    load(path, mode=mode)(np.ones(3))
    with config.change_flags(cxx="g++"):
        f = load(path, mode=mode)
        assert f.stats.start_up_cache == "hit"
        seen: list[str] = []
        prepare = type(f.maker).__mro__[1].prepare_fgraph

        def noting(*args: Any) -> Any:
            seen.append(config.cxx)
            return prepare(*args)

        monkeypatch.setattr(type(f.maker).__mro__[1], "prepare_fgraph", staticmethod(noting))
        again = load(path, mode=mode)
        assert again.maker.fgraph.apply_nodes
        assert seen == [""]
