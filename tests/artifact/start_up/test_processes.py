"""In a new process: no rewriting, no tracing, no compiling; and what is damaged is made anew."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PROCESS = """
import json, sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "(?s).*g\\\\+\\\\+")
warnings.filterwarnings("ignore", "Error reading persistent compilation cache entry")
import jax, numpy as np
from jax import monitoring
found = []
monitoring.register_event_listener(lambda event, **_: found.append(event.rpartition("/")[2]))
import pytensor, pytensor.tensor as pt
from pytensor_jaxlink import JAXLinker
x = pt.dvector("x")
f = pytensor.function([x], [pt.exp(x).sum(), pytensor.grad(pt.exp(x).sum(), x)],
                      mode=JAXLinker(cache_dir=sys.argv[1]))
found.clear()  # what JAX compiled for itself
value = float(f(np.arange(float(sys.argv[2])))[0])
compiler = "pytensor_jaxlink.link.compiler" in sys.modules
print(json.dumps([f.stats.start_up_cache, value.hex(), found.count("cache_hits"), compiler,
                  jax.config.jax_enable_x64]))
"""


def process(folder: Path, length: int = 3) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, str(folder), str(length)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_new_processes(tmp_path: Path) -> None:
    status, value, hits, compiler, x64 = process(tmp_path)
    assert (status, hits, compiler, x64) == ("miss", 0, True, True)
    assert process(tmp_path) == ["hit", value, 1, False, True]
    status, _, hits, compiler, _ = process(tmp_path, 5)  # another shape
    assert (status, hits, compiler) == ("hit", 0, True)
    assert process(tmp_path, 5)[2:4] == [1, False]
    # Damaged files are made anew.  Of JAX's, which stay, it warns.
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[::-1])
    assert process(tmp_path)[:4] == ["miss", value, 0, True]
    assert process(tmp_path)[:4] == ["hit", value, 0, False]
