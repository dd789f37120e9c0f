"""The names of the mode and the linker in PyTensor's configuration."""

from __future__ import annotations

import subprocess
import sys

import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import config

from pytensor_jaxlink import JAXFunction


def is_ours() -> bool:
    x = pt.dvector("x")
    return isinstance(pytensor.function([x], x + 1), JAXFunction)


def test_the_mode_is_set_by_its_name() -> None:
    before = config.mode
    assert not is_ours()
    with config.change_flags(mode="JAXSELECTIVE"):
        assert config.mode == "JAXSELECTIVE"
        assert is_ours()
    assert config.mode == before
    config.mode = "JAXSELECTIVE"
    try:
        assert is_ours()
        config.mode = "FAST_COMPILE"
        assert not is_ours()
    finally:
        config.mode = before


def test_the_linker_is_set_by_its_name() -> None:
    with config.change_flags(mode="Mode", linker="jaxselective"):
        assert is_ours()


@pytest.mark.parametrize("name", ["JAXSELECT", "jaxselective", 3])
def test_other_names_are_refused_as_before(name: object) -> None:
    with pytest.raises(ValueError, match="Expected one of"):
        config.mode = name


def run(flags: str, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTENSOR_FLAGS": f"cxx=,{flags}"},
    )


def test_a_mode_given_by_flags_is_kept() -> None:
    code = "import pytensor_jaxlink, pytensor; print(pytensor.config.mode)"
    assert run("mode=FAST_COMPILE", code).stdout == "FAST_COMPILE\n"


def test_flags_are_refused_with_the_line_that_works() -> None:
    done = run("mode=JAXSELECTIVE", "import pytensor_jaxlink, pytensor")
    line = 'pytensor.config.mode = "JAXSELECTIVE"'
    assert done.stderr.strip().endswith(f"{line} [PJL902]")
    assert run("", f"import pytensor_jaxlink, pytensor\n{line}").returncode == 0
