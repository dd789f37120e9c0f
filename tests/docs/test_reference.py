"""The reference has every public name and every option, and no page has others."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytensor
import pytest

import pytensor_jaxlink
from docs._inventories.__main__ import FOLDER, PROJECTS, inventory
from pytensor_jaxlink import JAXFunction, JAXLinker, jaxify, load, save
from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
from pytensor_jaxlink.link.jaxify import PureFunction
from pytensor_jaxlink.runtime import Stats
from tests.docs.test_blocks import PAGES, ROOT
from tests.test_public_api import NAMES

REFERENCE = ROOT / "docs" / "reference"
WRITTEN = [*PAGES, ROOT / "CHANGELOG.md"]
ROW = re.compile(r"^\| `(\w+)` \| `([^`]*)` \|", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")

OF_OTHERS = {
    # keyword of another function: whose it is
    "mode": "pytensor.function",
    "updates": "pytensor.function",
    "givens": "pytensor.function",
    "profile": "pytensor.function",
    "mutable": "pytensor.In",
    "linker": "pytensor.Mode",
    "infer_shape": "wrap_py",
    "pullback": "OpFromGraph",
    "return_internal_type": "SharedVariable.get_value",
    "borrow": "SharedVariable.get_value",
    "jac": "pytensor.tensor.optimize.root",
    "compile_kwargs": "pymc.sample",
    "nuts_sampler": "pymc.sample",
    "init": "pymc.sample",
    "scaling": "pymc.NUTS",
    "nuts": "pymc.sample",
    "cores": "pymc.sample",
    "gradient_backend": "pymc.sample",
    "progress_bar": "blackjax",
    "donate": "eqx.filter_jit, and ours",
    "donate_argnums": "jax.jit",
    "out_shardings": "jax.jit",
    "vmap_method": "jax.pure_callback",
    "reverse": "jax.lax.scan",
    "axis_types": "jax.make_mesh",
    "check_vma": "jax.shard_map",
    "floatX": "PYTENSOR_FLAGS",
    "trust_input": "pytensor.function",
    "swap": "Function.copy",
    "axis": "PyTensor's reductions",
    "sharding": "jax.ShapeDtypeStruct",
    "equal_nan": "numpy.array_equal",
    "strict": "Type.filter",
    "jax_compilation_cache_max_size": "jax.config",
    "xla_backend_optimization_level": "XLA_FLAGS",
    "jax_persistent_cache_min_compile_time_secs": "jax.config",
}
"""What pages may give as ``name=value`` that is no argument of ours."""


def arguments(*functions: Any) -> set[str]:
    return {name for each in functions for name in inspect.signature(each).parameters}


OURS = arguments(JAXLinker, jaxify, save, load)


def test_the_table_of_options_is_the_signature() -> None:
    rows = ROW.findall((REFERENCE / "linker.md").read_text())
    parameters = inspect.signature(JAXLinker).parameters
    found = {name: eval(default) for name, default in rows}
    assert len(found) == len(rows)
    assert found == {name: each.default for name, each in parameters.items()}


def test_every_public_name_has_its_place_in_the_reference() -> None:
    text = "".join(page.read_text() for page in sorted(REFERENCE.glob("*.md")))
    found = re.findall(r"^<!-- autodoc: ([\w.]+) -->$", text, re.MULTILINE)
    assert len(set(found)) == len(found)
    assert {f"pytensor_jaxlink.{name}" for name in NAMES} <= set(found)
    index = (REFERENCE / "README.md").read_text()
    for page in REFERENCE.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index


def test_every_public_name_has_an_example() -> None:
    """Errors have theirs in the tests of their messages: a class is no example."""
    names = [getattr(pytensor_jaxlink, name) for name in sorted(NAMES)]
    shown = [x for x in names if not (inspect.isclass(x) and issubclass(x, Exception))]
    assert len(shown) > 8
    assert not [x.__name__ for x in shown if ">>>" not in (inspect.getdoc(x) or "")]


def keywords(text: str) -> Iterator[str]:
    """The names of ``name=value`` in a code span, in calls and alone."""
    try:
        tree = ast.parse(text.replace("...", "_"))
    except SyntaxError:
        tree = ast.parse("")
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Assign) and " =" not in text:  # a keyword alone
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_another_option(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = {name for span in SPAN.findall(prose) for name in keywords(span)}
    known = OURS | set(OF_OTHERS)
    # Capitals are variables of the shell and of make.
    assert not {name for name in found if not name.isupper()} - known


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_another_attribute(page: Path) -> None:
    text = page.read_text()
    stats = set(dir(Stats())) | {"rescues"}  # an old name, in the changelog
    assert set(re.findall(r"\bf\.stats\.(\w+)", text)) <= stats
    of_functions = {*dir(JAXFunction), *dir(LoadedFunction), *dir(PureFunction), "graph", "state"}
    assert set(re.findall(r"`f\.(\w+)", text)) <= of_functions | {"name", "maker", "vm"}


def test_the_inventories_are_written_by_their_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.inv")} == set(PROJECTS)
    for project in PROJECTS:
        assert (FOLDER / f"{project}.inv").read_bytes() == inventory(project), project


@pytest.mark.skipif(pytensor.__version__.startswith("3.0"), reason="named as in PyTensor 3.3")
def test_names_of_inventories_exist() -> None:
    """Those of packages that every test environment has."""
    for project in ("jax", "numpy", "pytensor"):
        for name, _, _ in PROJECTS[project]:
            found: Any = __import__(project)
            for part in name.split(".")[1:]:
                if not hasattr(found, part):
                    __import__(f"{found.__name__}.{part}")
                found = getattr(found, part)
