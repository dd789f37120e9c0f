"""The places of PyMC that get NumPy arrays; tests/integration/test_pymc.py runs them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from pytensor.compile.mode import get_mode

from pytensor_jaxlink.link import step_methods


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("a_sampler")
    module.compile = lambda outputs, mode=None: mode
    monkeypatch.setitem(sys.modules, "a_sampler", module)
    monkeypatch.setattr(step_methods, "WITH_COMPILE_KWARGS", ())
    monkeypatch.setattr(step_methods, "WITH_ARRAYS", ())
    return module


def test_a_place_that_this_version_of_pymc_does_not_have_is_left_out(
    sampler: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pymc.tuning.scipy_interface` is new in PyMC 6.4: without this, `import pymc` 6.3 failed."""
    places = (
        ("pymc_of_another_version.tuning", "compile"),
        ("json.of_another_version", "compile"),
        ("a_sampler", "NoClass.__init__"),
        ("a_sampler", "compile"),
    )
    monkeypatch.setattr(step_methods, "WITH_MODE", places)
    step_methods.give_numpy_to_samplers()
    assert sampler.compile([], mode="JAXSELECTIVE").linker.options.outputs == "numpy"
    assert sampler.compile([], mode=get_mode("FAST_COMPILE")) is get_mode("FAST_COMPILE")


def test_what_a_module_of_pymc_lacks_is_not_hidden(
    sampler: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "a_module_that_needs_more.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(step_methods, "WITH_MODE", (("a_module_that_needs_more", "compile"),))
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        step_methods.give_numpy_to_samplers()
