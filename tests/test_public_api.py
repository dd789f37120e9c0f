"""The names that users import, and what importing them does."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import pytensor_jaxlink

NAMES = {
    "CheckFailedError",
    "DonatedArgumentError",
    "ArtifactError",
    "BrokenShapeError",
    "Explanation",
    "ForkedProcessError",
    "JAXFunction",
    "JAXLinkError",
    "JAXLinkWarning",
    "JAXLinker",
    "NotDifferentiableError",
    "NotJittableError",
    "NotSavedError",
    "Profile",
    "RecompileLimitError",
    "UntranspilableOpError",
    "explain",
    "inspect",
    "jaxify",
    "load",
    "profile",
    "save",
    "static_inputs",
}


def public_names() -> set[str]:
    return {
        name
        for name in dir(pytensor_jaxlink)
        if not name.startswith("_") and not inspect.ismodule(getattr(pytensor_jaxlink, name))
    }


def test_the_list_is_complete() -> None:
    assert public_names() == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_documented(name: str) -> None:
    found = getattr(pytensor_jaxlink, name)
    assert inspect.getdoc(found)
    if inspect.isclass(found):
        for attribute, value in vars(found).items():
            if not attribute.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{attribute}"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


REGISTERED = """
import sys
{imports}
assert "JAXSELECTIVE" in pytensor.compile.mode.predefined_modes
assert [finder.name for finder in sys.meta_path if "_Watch" in str(type(finder))] == ["pymc"]
import importlib.resources
assert importlib.resources.files("pytensor").joinpath("py.typed").is_file()
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import pytensor_jaxlink, pytensor",
        "import pytensor, pytensor_jaxlink",
        "import pytensor_jaxlink\nfrom importlib.util import find_spec\nfind_spec('pytensor')\n"
        "import pytensor",
        "from pytensor_jaxlink import JAXLinker\nimport pytensor",
        "import pytensor_jaxlink.lowering\nimport pytensor",
        "import pytensor_jaxlink.graph.view\nimport pytensor",
        "import pytensor_jaxlink.plan\nimport pytensor",
        "from pytensor_jaxlink.artifact.graphs import properties_of\nimport pytensor",
        "import pytensor_jaxlink\nfrom pytensor.tensor import exp\nimport pytensor",
    ],
)
def test_the_mode_is_there_when_pytensor_is(imports: str) -> None:
    run(REGISTERED.format(imports=imports))


def test_pymc_may_be_what_imports_pytensor(tmp_path: Path) -> None:
    """In its place a package of its name, so that this runs without it."""
    folder = tmp_path / "pymc" / "sampling"
    folder.mkdir(parents=True)
    (tmp_path / "pymc" / "__init__.py").write_text(
        "import pytensor\nimport pymc.distributions\nfrom pymc.sampling import parallel\n"
    )
    distributions = "from pymc import dist_math\nimport sys\n"
    distributions += "sys.modules['pymc.distributions.dist_math'] = dist_math\n"
    (tmp_path / "pymc" / "distributions.py").write_text(distributions)
    (tmp_path / "pymc" / "dist_math.py").write_text("class SplineWrapper: pass\n")
    (folder / "__init__.py").write_text("")
    (folder / "parallel.py").write_text("class JAXLinker: pass\n")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from typing import get_args
import pytensor_jaxlink, pymc
print(pytensor_jaxlink.JAXLinker in get_args(sys.modules["pymc.sampling.parallel"].JAXLinker))
"""
    assert run(code) == "True\n"


def test_importing_imports_no_pytensor() -> None:
    code = "from pytensor_jaxlink import load; import sys; print('pytensor' in sys.modules)"
    assert run(code) == "False\n"


def test_importing_imports_no_jax() -> None:
    assert run("import pytensor_jaxlink, sys; print('jax' in sys.modules)") == "False\n"


OTHER_MODES = """
{first}
import warnings
warnings.simplefilter("ignore")
import numpy as np, pytensor, pytensor.tensor as pt
x, n = pt.dvector("x"), pt.lscalar("n")
for mode in ("JAX", "FAST_COMPILE", "NUMBA"):
    for output in (pt.exp(x).sum() * n, x[:n], pt.unique(x), pt.nonzero(x)[0]):
        try:
            f = pytensor.function([x, n], output, mode=mode, on_unused_input="ignore")
            print(type(f).__name__, type(f.maker).__name__, f(np.arange(4.0), 2))
        except Exception as error:
            print(type(error).__name__, str(error).splitlines()[0])
import jax
print(jax.config.jax_enable_x64, type(pytensor.compile.mode.get_mode("JAX").linker))
"""


def test_other_modes_are_as_they_were() -> None:
    with_us, without = (
        run(OTHER_MODES.format(first=first)) for first in ("import pytensor_jaxlink", "")
    )
    assert with_us == without
    assert "JAXFunction" not in with_us


def test_float32_without_64_bit_types() -> None:
    code = """
import os
os.environ["PYTENSOR_FLAGS"] = "floatX=float32,cxx="
import numpy as np, pytensor, pytensor.tensor as pt, pytensor_jaxlink, jax
x, n = pt.vector("x"), pt.lscalar("n")
f = pytensor.function([x, n], [x[:n] * 2, x.argmax(), n * 2**40], mode="JAXSELECTIVE")
print(*[str(value.dtype) for value in f(np.ones(3, "float32"), 2)], jax.config.jax_enable_x64)
print(int(f(np.ones(3, "float32"), 2)[2]) == 2**41, f.stats.fallbacks)
"""
    assert run(code) == "float32 int64 int64 False\nTrue 0\n"


def test_importing_does_not_start_jax() -> None:
    """The number of devices and `jax.distributed.initialize` have to come before JAX starts."""
    names = "\n".join(f"pytensor_jaxlink.{name}" for name in sorted(NAMES))
    code = f"""
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, pytensor_jaxlink, pytensor_jaxlink.lowering, pytensor_jaxlink.pymc
{names}
jax.config.update("jax_num_cpu_devices", 3)
print(len(jax.devices()))
"""
    assert run(code) == "3\n"
