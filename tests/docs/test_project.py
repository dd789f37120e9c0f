"""The files around the code agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser

import pytest

import pytensor_jaxlink
from tests.docs.test_blocks import ROOT
from tests.packaging.__main__ import check_names

SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def listed(section: str, option: str) -> list[str]:
    lines = SETUP[section][option].splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_hooks_have_the_versions_of_the_linters() -> None:
    pinned = {line for line in listed("options.extras_require", "lint") if "==" in line}
    hooks = re.findall(
        r"additional_dependencies: \[(.*)\]", (ROOT / ".pre-commit-config.yaml").read_text()
    )
    assert len(hooks) == 3
    assert set(hooks) <= pinned
    assert {pin.split("==")[0] for pin in pinned - set(hooks)} == {"basedpyright"}  # `make lint`


def test_ci_runs_every_version_that_is_promised() -> None:
    promised = re.findall(r"Python :: (3\.\d+)", SETUP["metadata"]["classifiers"])
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    [matrix] = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r'"(.*?)"', matrix) == promised
    assert SETUP["options"]["python_requires"] == f">={promised[0]}"


def test_ci_calls_targets_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    contributing = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    called = re.findall(r"\bmake ([a-z-]+)", workflow) + re.findall(
        r"`make ([a-z-]+)", contributing
    )
    assert len(called) > 5
    assert set(called) <= targets


def test_fragments_of_the_changelog_have_a_kind() -> None:
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    folder = ROOT / "docs" / "changelog.d"
    fragments = [path.name for path in folder.iterdir() if path.name != "README.md"]
    assert [name for name in fragments if name.split(".")[-2] not in kinds] == []
    table = (folder / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == kinds


def test_the_release_that_is_cited_is_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["tool"]["towncrier"]["start_string"] in changelog
    newest, date = re.findall(r"^## (\S+) \((\S+)\)", changelog, re.MULTILINE)[0]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {newest}\ndate-released: {date}\n" in citation
    assert SETUP["metadata"]["url"] in citation


def test_the_version() -> None:
    code = "import pytensor_jaxlink, sys; print('importlib.metadata' in sys.modules)"
    code = f"import sys; before = 'importlib.metadata' in sys.modules; {code}; print(before)"
    with_us, before = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert with_us == before  # it is found out when somebody asks
    assert re.fullmatch(r"\d+(\.\d+)*(\.dev\d+)?(\+[\w.]+)?", pytensor_jaxlink.__version__)


@pytest.mark.parametrize("names", [["pytensor_jaxlink/py.typed", "tests/a.py"], ["a.py"]])
def test_a_wheel_with_something_else_is_refused(names: list[str]) -> None:
    with pytest.raises(AssertionError):
        check_names(names)
    check_names(["pytensor_jaxlink/py.typed", "pytensor_jaxlink-0.1.dist-info/METADATA"])


def test_the_policy_has_the_oldest_versions() -> None:
    bounds = dict(re.findall(r"^([\w-]+)>=([\d.]+)", SETUP["options"]["install_requires"], re.M))
    policy = (ROOT / "docs" / "policy.md").read_text()
    oldest = dict(re.findall(r"^\| ([\w ]+) \| ([\d.]+) \|", policy, re.M))
    assert oldest == {
        "Python": SETUP["options"]["python_requires"].removeprefix(">="),
        "PyTensor": bounds["pytensor"],
        "JAX and jaxlib": bounds["jax"],
        "NumPy": bounds["numpy"],
        "SciPy": bounds["scipy"],
    }
    assert bounds["jax"] == bounds["jaxlib"]


def test_the_policy_has_the_versions_that_are_tested() -> None:
    pinned = re.findall(
        r"^([\w-]+)==([\d.]+) ; (.*)$", (ROOT / ".ci/versions.txt").read_text(), re.M
    )
    newest = {name: version for name, version, where in pinned if ">=" in where}
    oldest = {name: version for name, version, where in pinned if ">=" not in where}
    policy = (ROOT / "docs" / "policy.md").read_text()
    rows = re.findall(r"^\| ([\w ]+) \| ([\d.]+) \| ([\d.]+) \|", policy, re.M)
    assert len(rows) == 5
    for name, least, most in rows:
        for package in name.lower().replace("python", "").split(" and "):
            if package:
                assert f"{newest[package]}.".startswith(f"{most}.")
            if package in {"pytensor", "jax", "jaxlib"}:
                assert oldest[package] == least
