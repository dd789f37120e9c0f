"""``python -m tests.packaging WHEEL`` installs a wheel into an empty environment and tries it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PROGRAM = """
import numpy as np, pytensor, pytensor.tensor as pt, pytensor_jaxlink
x = pt.dvector("x")
f = pytensor.function([x], pt.unique(pt.exp(x)).sum(), mode="JAXSELECTIVE")
np.testing.assert_allclose(f(np.array([0.0, 0.0, 1.0])), 1 + np.e)
g = pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")
g(np.zeros(3))
pytensor_jaxlink.save(g, "g.jaxlink")
print(pytensor_jaxlink.__version__)
"""
LOADING = """
import sys
import numpy as np
from pytensor_jaxlink import load
assert float(load("g.jaxlink")(np.zeros(3))) == 3
assert "pytensor" not in sys.modules
"""


def check_names(names: list[str]) -> None:
    """The wheel holds the package and its data, and nothing else."""
    folders = {name.split("/")[0] for name in names}
    packages = {name for name in folders if not name.endswith(".dist-info")}
    assert packages == {"pytensor_jaxlink"}, packages
    assert "pytensor_jaxlink/py.typed" in names


def commands(names: list[str]) -> list[list[str]]:
    """What a user runs first; the catalogue of errors from the version on that has one."""
    module = ["-m", "pytensor_jaxlink"]
    found = [["-c", LOADING], [*module, "inspect", "g.jaxlink"]]
    codes = sorted(
        Path(name).stem
        for name in names
        if name.startswith("pytensor_jaxlink/catalogue/") and name.endswith(".md")
    )
    return found + [[*module, "explain", code] for code in codes[:1]]


def main(path: Path) -> None:
    names = zipfile.ZipFile(path).namelist()
    check_names(names)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))

        def run(*arguments: str) -> str:
            return subprocess.run(
                [python, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
            ).stdout

        run("-m", "pip", "install", "--quiet", f"{path.resolve()}[save]")
        version = run("-W", "error::DeprecationWarning:__main__", "-c", PROGRAM).split()[-1]
        assert path.name.startswith(f"pytensor_jaxlink-{version}-"), (path.name, version)
        for arguments in commands(names):
            run(*arguments)
    sys.stdout.write(f"{path.name} works in an empty environment\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
