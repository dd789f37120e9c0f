"""The tables of docs/design.md, section 7, name all that we change and each private name we use."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pytensor_jaxlink"

USES_EVERYTHING = r"""
import importlib, pkgutil, sys, tempfile, types, warnings
from pathlib import Path

warnings.simplefilter("ignore")
import jax, jax.export, jax.numpy, jax.scipy
import numpy as np
import pytensor
import pytensor.tensor as pt

for module in pkgutil.walk_packages(pytensor.__path__, "pytensor."):
    try:
        importlib.import_module(module.name)
    except Exception:  # numba, torch, mlx, ...: those that are not installed
        pass

OTHERS = "pytensor", "jax", "numpy", "scipy"
MADE_BY_PYTHON = "__slotnames__", "__annotations__"  # when something asks for them


def attributes():
    found = {}
    for name, module in [*sys.modules.items()]:
        if name.split(".")[0] not in OTHERS:
            continue
        for key, value in [*vars(module).items()]:
            if isinstance(value, type) and value.__module__ == name:
                for attribute, part in [*vars(value).items()]:
                    found[name, f"{value.__qualname__}.{attribute}"] = part
            elif isinstance(value, types.FunctionType):
                found[name, key] = value
    return found


before, modules = attributes(), {*sys.modules}
import pytensor_jaxlink as jaxlink

x, v = pt.dvector("x"), pt.lvector("v")
state = pytensor.shared(np.zeros(3), "state")
rng = pytensor.shared(np.random.default_rng(1))
next_rng, draw = pt.random.normal(size=3, rng=rng).owner.outputs
f = pytensor.function(
    [x, v],
    [x[x > 0].sum(), draw, pt.unique(v), pt.grad((x**2).sum(), x)],
    updates={state: state + x, rng: next_rng},
    mode="JAXSELECTIVE",
)
r = f(np.ones(3), np.arange(3))
pt.as_tensor(r[0]), x[r[2]], pt.zeros(r[2]), pytensor.shared(r[1])
f.explain(), f.warmup, state.get_value(), f.copy()
jaxlink.jaxify([x], x.sum())
path = Path(tempfile.mkdtemp()) / "f.jaxlink"
jaxlink.save(f, path)
for layer in "compiled", "graph":
    jaxlink.load(path, prefer=layer)(np.ones(3), np.arange(3))
with pytensor.config.change_flags(mode="JAXSELECTIVE"):
    pytensor.function([x], x.sum())(np.ones(3))
pytensor.function([x], x.sum(), mode=jaxlink.JAXLinker(cache_dir=path.parent / "cache"))(np.ones(3))

for (module, name), value in attributes().items():
    # What was imported only now nobody can have seen otherwise.
    changed = module in modules and before.get((module, name)) is not value
    if changed and not name.endswith(MADE_BY_PYTHON):
        print(module.split(".")[0], name)
"""


def rows(column: str) -> list[str]:
    """The lines of the table of docs/design.md whose first column has this head."""
    lines = iter((ROOT / "docs" / "design.md").read_text().splitlines())
    while not next(lines).startswith(f"| {column} |"):
        pass
    next(lines)
    found = []
    while (line := next(lines)).startswith("|"):
        found.append(line)
    return found


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_changed_attributes() -> None:
    program = [sys.executable, "-c", USES_EVERYTHING]
    run = subprocess.run(program, check=False, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    listed = [name for row in rows("Attribute of PyTensor's") for name in names(row.split("|")[1])]
    # Some modules of PyTensor are scripts, which print about the folder of compiled code.
    printed = [line for line in run.stdout.splitlines() if re.fullmatch(r"pytensor [\w.]+", line)]
    assert sorted(printed) == sorted(f"pytensor {name}" for name in listed)


def test_private_names() -> None:
    listed = {
        (name, module)
        for row in rows("Name")
        for name in names(row.split("|")[1])
        for module in names(row.split("|")[2])
    }
    assert set(_private_names()) == {
        (name.rsplit(".", 1)[-1], f"pytensor_jaxlink.{module}") for name, module in listed
    }


def _private_names() -> Iterator[tuple[str, str]]:
    """The private names in the source that nothing in the source defines, with their modules."""
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    own = {name for tree in trees.values() for node in ast.walk(tree) for name in _defined(node)}
    for path, tree in trees.items():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        pieces = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in ast.walk(node)
        }
        for node in ast.walk(tree):
            for name in [] if id(node) in pieces else _used(node):
                if re.fullmatch(r"_[a-zA-Z]\w*", name) and name not in own:
                    yield name, module


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
            yield name


def _used(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(attr=name):
            yield name
        case ast.Constant(value=str(name)):
            yield name
        case ast.ImportFrom(module=str(module), names=aliases):
            package, *parts = module.split(".")
            if package not in sys.stdlib_module_names:
                yield from (package, *parts, *(alias.name for alias in aliases))
