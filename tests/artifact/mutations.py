"""Mutations of saved files: each is read, and called where it can be, in a child process.

``python -m tests.artifact.mutations --count N --seed S`` makes N of each kind, and prints for each
kind what became of them.  A file may be refused by `ArtifactError`, or give a function; a call of
that may raise what the program of the file raises.  All else is a failure: another exception, a
process that dies, a file below 1 MB that takes long or much memory to read.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink import ArtifactError, inspect, load, save
from tests.artifact import code, damage

ROOT = Path(__file__).resolve().parents[2]
SECONDS, MEGABYTES = 1.0, 200

_FOREIGN = (
    *("os:system", "subprocess:Popen", "builtins:exec", "numpy:save", "numpy.lib.npyio:save"),
    *("pytensor.breakpoint:PdbBreakpoint", "pytensor.compile.ops:FromFunctionOp", "shutil:rmtree"),
    *("pytensor.printing:Print", "pytensor.raise_op:CheckAndRaise", "pytensor.tensor.math:Sum"),
    *("pytensor.tensor.io:LoadFromDisk", "pytensor.link.c.op:ExternalCOp", "a:b:c", "", ":"),
    *("pytensor_jaxlink.ops.control_flow:Branch", "pytensor_jaxlink.ops.control_flow:WhileLoop"),
    *("pytensor.scan.op:Scan", "pytensor.tensor.elemwise:Elemwise", "pytensor.tensor.type:Bad"),
    *("pytensor.tensor.random.basic:NormalRV", "pytensor.tensor.blockwise:Blockwise"),
)
_PROPERTIES = (
    *({"function": "os:system"}, {"class": "os:_wrap_close"}, {"override": "os:system"}),
    *({"part": 0}, {"part": 10**9}, {"data": 0}, {"list": []}, "__reduce__", None, -1, [[1]]),
    {"slice": [1, 2, 3]},
)


def foreign_op(content: bytes, rng: random.Random) -> bytes:
    """Ops of other names and properties, and nodes of other Ops."""
    members = dict(damage.members_of(content))
    document = json.loads(members["graph.json"])
    parts = document["parts"]
    ops = [place for place, part in enumerate(parts) if "op" in part]
    for _ in range(rng.choice([1, 1, 2])):
        part = parts[rng.choice(ops)]
        nodes = document["functions"][""]["nodes"]
        match rng.randrange(4):
            case 0:
                part["op"] = rng.choice(_FOREIGN)
            case 1:
                key = rng.choice([*part["of"], "name", "perform", "scalar_op", "axis"])
                part["of"][key] = rng.choice(_PROPERTIES)
            case 2:
                rng.choice(nodes)[0] = rng.choice(ops)
            case _:
                node = rng.choice(nodes)
                node[1] = [rng.randrange(len(document["functions"][""]["variables"]))] * len(
                    node[1]
                )
    members["graph.json"] = json.dumps(document).encode()
    return damage.relisted(list(members.items()))


_ROUTINES = (
    *("potrf", "geqrf", "orgqr", "getrf", "gesdd", "syevd"),
    *("geev", "gees", "gehrd", "sytrd", "trsm", "gtsv"),
)
_SHAPES = (
    *("4x4xf64", "4xf64", "f64", "i32", "4xi32", "3xf64"),
    *("1xf64", "9x9xf64", "4x4xf32", "16xf64", "4x4xcomplex<f64>"),
)
_OPERANDS = ("x 4x4xf64", "x 4x4xf64 t 9xf64", "x 4x4xf64 b 4x9xf64", "t 9xf64 x 4x4xf64")


def custom_call(content: bytes, rng: random.Random) -> bytes:
    """A kernel of LAPACK with shapes by chance, or an operation of another kind."""
    if rng.random() < 0.2:
        return code.changed(content, code.module_of(rng.choice(list(code.PLAIN.values()))))
    target = f"lapack_{rng.choice('sdcz')}{rng.choice(_ROUTINES)}_ffi"
    if rng.random() < 0.1:
        target = rng.choice(["xla_python_gpu_callback", "cu_threefry2x32_ffi", "Qr", "Eigh", "x"])
    results = " ".join(rng.choice(_SHAPES) for _ in range(rng.randrange(1, 6)))
    names = ("uplo", "mode", "side", "diag", "trans_x", "compute_left", "compute_right", "sort")
    config = ", ".join(
        f"{name} = {rng.choice([65, 76, 78, 79, 82, 83, 85, 86, 0])} : ui8"
        for name in rng.sample(names, rng.randrange(len(names)))
    )
    body = code.call(target, rng.choice(_OPERANDS), results, code.PREPARED, config)
    return code.changed(content, code.module_of(body))


def manifest_of_trees(content: bytes, rng: random.Random) -> bytes:
    """A manifest whose trees, parameters or types of leaves say something else."""
    [(_, head), *others] = damage.members_of(content)
    manifest = json.loads(head)
    function = manifest["functions"][""]
    part = rng.choice(["trees", "trees", "inputs", "outputs"])
    for _ in range(rng.choice([1, 1, 2])):
        function[part] = damage.mutated(function[part], rng)
    return damage.relisted([("manifest.json", json.dumps(manifest).encode()), *others])


Way = Callable[[bytes, random.Random], bytes]


def _any_of(ways: list[Way]) -> Way:
    return lambda content, rng: rng.choice(ways)(content, rng)


KINDS: dict[str, Way] = {
    "chance": _any_of(damage.CHANCE),
    "intent": _any_of(damage.INTENT),
    "documents": damage.document_changed,
    "sealed": damage.flipped_and_sealed,
    "zip64": damage.zip64,
    "colliding": damage.colliding,
    "foreign_op": foreign_op,
    "custom_call": custom_call,
    "trees": manifest_of_trees,
}
_FILES = {"custom_call": "code", "trees": "trees"}  # the others are of the graph
_CALLED = ("foreign_op", "custom_call", "trees")
_OWN = ("pytensor", "encodings", "jax", "_suggestions")  # what reading and errors may import


# -- the child -------------------------------------------------------------------------------------


def _outcome(kind: str, path: Path) -> str:
    """What became of a file: a word, or a problem that starts with an exclamation mark."""
    told = []
    for name, read in (
        ("inspect", inspect),
        ("compiled", load),
        ("graph", lambda path: load(path, prefer="graph")),
    ):
        if name == "graph" and kind in _FILES:
            continue
        start, before = time.process_time(), _peak()
        try:
            found = read(path)
        except ArtifactError as error:
            told.append("refused" if str(path) in str(error) else f"!{name}: {error}")
            continue
        except Exception as error:
            told.append(f"!{name}: {type(error).__name__}: {error}")
            continue
        finally:
            seconds = time.process_time() - start
            if name != "graph" and (seconds > SECONDS or _peak() - before > MEGABYTES):
                told.append(f"!{name}: {seconds:.1f} s, {_peak() - before} MB")
        told.append("read" if name == "inspect" else _called(kind, name, found))
    return next((each for each in told if each.startswith("!")), told[-1])


def _called(kind: str, layer: str, function: Any) -> str:
    if kind not in _CALLED or (kind == "foreign_op") != (layer == "graph"):
        return "read"
    try:
        jax.block_until_ready(function(*_ARGUMENTS.get(kind, (np.eye(4),))))
    except ArtifactError:
        return "refused when called"
    except Exception as error:
        expected = kind == "foreign_op" or (kind == "trees" and isinstance(error, _OF_TREES))
        return f"{'' if expected else '!'}raises {type(error).__name__}"
    return "gives values"


_LAYERS = {"graph": ("compiled", "graph"), "code": ("compiled",), "trees": ("compiled",)}
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "trees": ({"w": np.eye(4), "n": None}, [2.0, np.ones(4)], "text")
}
_OF_TREES = (TypeError, ValueError)  # arguments of other trees and types


def of_trees(params: Any, rest: Any, mode: str, *, scale: float = 1.0) -> Any:
    """A function whose arguments and results are trees."""
    return {"y": params["w"] @ rest[1] * rest[0] * scale, "mode": mode}, (params["w"], None)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _child(folder: Path, kinds: list[str], seed: int, count: int, start: int) -> None:
    warnings.simplefilter("ignore")
    contents = {name: (folder / name).read_bytes() for name in _LAYERS}
    for name, layers in _LAYERS.items():
        for prefer in layers:  # imports what any file needs
            load(folder / name, prefer=prefer)(*_ARGUMENTS.get(name, (np.eye(4),)))
    path = folder / "changed.jaxlink"
    for kind, number in _cases(kinds, count)[start:]:
        rng = random.Random(f"{kind} {seed} {number}")
        path.write_bytes(KINDS[kind](contents[_FILES.get(kind, "graph")], rng))
        before = set(sys.modules)
        outcome = _outcome(kind, path)
        imported = {name for name in set(sys.modules) - before if not name.startswith(_OWN)}
        _say(json.dumps(f"!imports {sorted(imported)}" if imported else outcome))


# -- the parent ------------------------------------------------------------------------------------


def write_files(folder: Path) -> None:
    """The files that are mutated: of a graph with state, and of code for (4, 4)."""
    import pytensor
    import pytensor.tensor as pt

    x = pt.dmatrix("x")
    weights = pytensor.shared(np.arange(120.0).reshape(4, 30), name="weights")
    rng = pytensor.shared(np.random.default_rng(1), name="rng")
    following, noise = pt.random.normal(size=(3,), rng=rng).owner.outputs
    outputs = [pt.exp(x @ weights).sum(axis=0), pt.unique(x).sum() + noise.sum()]
    f = pytensor.function([x], outputs, updates={rng: following}, mode="JAXSELECTIVE")
    f(np.eye(4))
    save(f, folder / "graph")
    g = pytensor.function([x], [x * 2, x + 1], mode="JAXSELECTIVE")
    g(np.eye(4))
    save(g, folder / "code", graph=False, dims=None)
    save(of_trees, folder / "trees", examples=_ARGUMENTS["trees"])


def _cases(kinds: list[str], count: int) -> list[tuple[str, int]]:
    return [(kind, number) for kind in kinds for number in range(count)]


def outcomes(folder: Path, kinds: list[str], seed: int, count: int) -> dict[str, Counter[str]]:
    """For each kind, how many mutations became what; a child that dies is followed by another."""
    cases, found = _cases(kinds, count), {kind: Counter[str]() for kind in kinds}
    done = 0
    while done < len(cases):
        options = [str(folder), ",".join(kinds), str(seed), str(count), str(done)]
        command = [sys.executable, "-m", "tests.artifact.mutations", "--child", *options]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        if ran.returncode:
            lines.append(f"!the process ended with {ran.returncode}: {ran.stderr[-500:]}")
        for (kind, number), what in zip(cases[done:], lines, strict=False):
            found[kind][f"{what} (number {number})" if what.startswith("!") else what] += 1
        done += len(lines)
        assert lines, ran.stderr
    return found


def problems(found: dict[str, Counter[str]]) -> list[str]:
    """The failures among outcomes."""
    return [f"{kind}: {what}" for kind, each in found.items() for what in each if what[0] == "!"]


def main() -> int:
    """Returns 1 if there is a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        folder, kinds, *numbers = given.child
        _child(Path(folder), kinds.split(","), *map(int, numbers))
        return 0
    failed = False
    with TemporaryDirectory() as folder:
        write_files(Path(folder))
        for kind in given.kind or KINDS:
            start = time.perf_counter()
            found = outcomes(Path(folder), [kind], given.seed, given.count)
            failed |= bool(problems(found))
            told = ", ".join(f"{count} {what[:200]}" for what, count in found[kind].most_common())
            _say(f"{kind}: {told} ({time.perf_counter() - start:.0f} s)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
