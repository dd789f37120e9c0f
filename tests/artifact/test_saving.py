"""What is saved is what is loaded; and how files are written."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax import export
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.io import In
from pytensor.compile.mode import Mode
from pytensor.gradient import NullTypeGradError
from pytensor.scan.utils import until
from scipy import sparse

import pytensor_jaxlink
from pytensor_jaxlink import ArtifactError, JAXLinker, JAXLinkWarning, inspect, load, save
from pytensor_jaxlink.__main__ import main
from pytensor_jaxlink.compat import ifelse
from tests.artifact.damage import members_of, relisted
from tests.helpers import as_list, black_box, sort_down

ROOT = Path(__file__).resolve().parents[2]

LAYERS = ("compiled", "graph")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.jaxlink"


def both(f: Any, path: Path, **options: Any) -> list[Any]:
    """A function, and what is loaded from each layer of its file."""
    save(f, path, **options)
    return [f, *(load(path, prefer=prefer, allow=("tests",)) for prefer in LAYERS)]


@pytest.mark.parametrize("prefer", LAYERS)
def test_state(path: Path, prefer: Any) -> None:
    x = pt.dvector("x")
    total, count = pytensor.shared(1.5, name="total"), pytensor.shared(3, name="count")
    updates = {total: total + x.sum(), count: count + 1}
    f = pytensor.function([x], total * count, updates=updates, mode="JAXSELECTIVE", name="add")
    f(np.ones(2))
    save(f, path)
    g = load(path, prefer=prefer)
    assert g.name == "add"
    for _ in range(3):
        assert f(np.ones(2)) == g(x=np.ones(2))
    state = g.state if prefer == "compiled" else g.graph.state
    assert [cell.name for cell in state] == ["total", "count"]
    assert float(state[0].get_value()) == float(total.get_value())
    state[0].set_value(0.0)
    assert g(np.ones(2)) == 0


@pytest.mark.parametrize("prefer", LAYERS)
def test_several_functions_share_state_and_arrays(path: Path, prefer: Any) -> None:
    weights = pytensor.shared(np.arange(1000.0), name="weights")
    table = np.random.default_rng(0).normal(size=1000)
    x = pt.dvector("x")
    logp = pytensor.function([x], (weights * table * x).sum(), mode="JAXSELECTIVE")
    step = pytensor.function([x], [], updates={weights: weights + x * table}, mode="JAXSELECTIVE")
    save({"logp": logp, "step": step}, path)
    assert path.stat().st_size < 2 * 8000 + 30_000
    functions = load(path, prefer=prefer)
    ones = np.ones(1000)
    before = float(functions["logp"](ones))
    functions["step"](ones)
    step(ones)
    assert functions["logp"](ones) == logp(ones) != before


def test_one_array_is_one_object(path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(40, 40))
    one, other = pt.constant(table), pt.constant(table)
    first = pytensor.shared(table, borrow=True)
    part = pytensor.shared(table[5:], borrow=True)
    x = pt.dmatrix("x")
    f = pytensor.function([x], [one @ x, other - x, first.sum() + part.sum()], mode="JAXSELECTIVE")
    save(f, path)
    members = inspect(path).manifest["members"]
    assert [name for name in members if name.endswith(".npy")] == ["arrays/0.npy"]
    g = load(path, prefer="graph")
    state = [variable.get_value(borrow=True) for variable in g.graph.state]
    assert np.shares_memory(*state)
    loaded = g.graph.outputs[0].owner.inputs[0].data
    assert loaded is g.graph.outputs[1].owner.inputs[0].data is state[0]


def test_signature(path: Path) -> None:
    x, y = pt.dvector("x"), pt.dscalar("y")
    default = pytensor.link.basic.Container(y, [np.array(2.0)])
    f = pytensor.function(
        [x, In(y, value=default, implicit=False)], {"a": x * y}["a"], mode="JAXSELECTIVE"
    )
    for g in both(f, path):
        np.testing.assert_array_equal(g([1, 2]), [2, 4])
        np.testing.assert_array_equal(g(x=[1, 2], y=3), [3, 6])
        with pytest.raises(TypeError):
            g()
        with pytest.raises(TypeError):
            g([1], 2, 3)
        with pytest.raises(TypeError):
            g([1], z=3)
        with pytest.raises(TypeError):
            g(np.ones((2, 2)))
        with pytest.raises(TypeError):
            g(np.ones(2, "complex128"))


def test_forms_of_outputs(path: Path) -> None:
    x = pt.dvector("x")
    for outputs in (x + 1, [x + 1], [x + 1, x], None):
        f = pytensor.function([x], outputs, mode="JAXSELECTIVE", on_unused_input="ignore")
        expected = f(np.ones(2))
        for g in both(f, path):
            found = g(np.ones(2))
            assert type(found) is type(expected)
            for one, other in zip(as_list(found), as_list(expected), strict=True):
                assert other is None or (np.asarray(one) == np.asarray(other)).all()


def test_options_are_kept(path: Path) -> None:
    x = pt.dvector("x")
    mode = Mode(JAXLinker(outputs="numpy", checks="ignore"), "fast_run").excluding("jaxlink_masks")
    f = pytensor.function([x], x[x > 0].sum(), mode=mode)
    assert f.explain().graph_break_count == 1
    _, compiled, graph = both(f, path)
    assert type(compiled(np.ones(2))) is type(graph(np.ones(2))) is type(f(np.ones(2)))
    assert graph.explain().graph_break_count == 1


def test_an_option_that_load_does_not_have(tmp_path: Path) -> None:
    options = "prefer, allow, mode, compilation_cache, compiler_options, device"
    expected = f"load has no option prefr; its options are {options} [PJL808]"
    with pytest.raises(TypeError, match=re.escape(expected)):
        load(tmp_path / "f", prefr="graph")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("prefer", LAYERS)
@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_generators(path: Path, prefer: Any, kind: str) -> None:
    bits = getattr(np.random, kind)(7)
    rng = pytensor.shared(np.random.Generator(bits), name="rng")
    following, draw = pt.random.normal(size=(3,), rng=rng).owner.outputs
    f = pytensor.function([], draw, updates={rng: following}, mode="JAXSELECTIVE")
    save(f, path)
    g = load(path, prefer=prefer)
    for _ in range(3):
        assert np.asarray(f()).tobytes() == np.asarray(g()).tobytes()


def test_generators_spawn_the_same(path: Path) -> None:
    rng = pytensor.shared(np.random.default_rng(5), name="rng")
    f = pytensor.function([], pt.random.normal(rng=rng), mode="JAXSELECTIVE")
    save(f, path)
    [found] = [cell.get_value() for cell in load(path).state]
    assert found.spawn(1)[0].random() == rng.get_value().spawn(1)[0].random()


@pytest.mark.cpu("the order of a sum of cuSPARSE changes between calls")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("prefer", LAYERS)
def test_sparse(path: Path, prefer: Any) -> None:
    import pytensor.sparse as ps

    matrix = sparse.random(20, 30, 0.2, format="csr", rng=np.random.default_rng(0))
    x, held = ps.csr_matrix("x", dtype="float64"), pytensor.shared(matrix, name="held")
    y = pt.dmatrix("y")
    f = pytensor.function([x, y], [ps.dot(x, y), ps.dot(held, y), x * 2.0], mode="JAXSELECTIVE")
    dense = np.random.default_rng(1).normal(size=(30, 4))
    expected = f(matrix, dense)
    save(f, path)
    found = load(path, prefer=prefer)(matrix, dense)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert (found[2] != expected[2]).nnz == 0


def test_what_cannot_be_saved_is_named(path: Path) -> None:
    x = pt.vector("x", dtype="float64")

    def local(values: np.ndarray) -> np.ndarray:
        return values

    f = pytensor.function([x], black_box(local)(x), mode="JAXSELECTIVE")
    with pytest.raises(ArtifactError, match=r"FromFunctionOp\{local\}.*cannot be imported"):
        save(f, path)
    with pytest.raises(ArtifactError, match="the function is a Function"):
        save(pytensor.function([x], x, mode="FAST_COMPILE"), path)
    with pytest.raises(ArtifactError, match="there is none"):
        save({}, path)
    assert list(path.parent.iterdir()) == []


def test_only_allowed_modules_are_imported(path: Path) -> None:
    x = pt.vector("x", dtype="float64")
    f = pytensor.function([x], black_box(sort_down)(x), mode="JAXSELECTIVE")
    save(f, path)
    for prefer in LAYERS:
        with pytest.raises(ArtifactError, match=r"load\(path, allow=\('tests',\)\)"):
            load(path, prefer=prefer)
        g = load(path, prefer=prefer, allow=["tests.helpers"])
        np.testing.assert_array_equal(g(np.arange(3.0)), [2, 1, 0])
    with pytest.raises(TypeError, match="is a string"):
        load(path, allow="tests")


def test_a_crash_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = pt.dvector("x")
    save(pytensor.function([x], x + 1, mode="JAXSELECTIVE"), path)
    before = path.read_bytes()

    def crash(handle: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="full"):
        save(pytensor.function([x], x + 2, mode="JAXSELECTIVE"), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


WRITER = """
import sys, time
from pathlib import Path
from pytensor_jaxlink.artifact.abandoned import writing
with writing(Path(sys.argv[1])) as (temporary, file):
    print(temporary, flush=True)
    time.sleep(100)
"""


def test_files_of_a_killed_save_are_deleted_by_the_next(path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x + 1, mode="JAXSELECTIVE")
    command = [sys.executable, "-c", WRITER, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        temporary = Path(writer.stdout.readline().strip())
        os.utime(temporary, (0, 0))
        save(f, path, compiled=False)
        assert temporary.exists()  # its writer lives
        writer.kill()
    save(f, path, compiled=False)
    assert list(path.parent.iterdir()) == [path]


def test_the_same_function_gives_the_same_file(path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x + 1, mode="JAXSELECTIVE")
    save(f, path, compiled=False)
    first = path.read_bytes()
    save(load(path, prefer="graph"), path, compiled=False)
    assert path.read_bytes() == first


class Pipe(io.BytesIO):
    """A file that cannot seek."""

    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("place", [".", "", "..", os.sep])
def test_a_folder_is_no_place_for_a_file(place: str) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x.sum(), mode="JAXSELECTIVE")
    with pytest.raises(ArtifactError, match=r"is a folder, and a file is written \[PJL704\]"):
        save(f, place)


@pytest.mark.parametrize("examples", [None, (np.ones(2),)])
def test_a_loaded_function_is_saved_from_its_graph(path: Path, examples: Any) -> None:
    x, total = pt.dvector("x"), pytensor.shared(0.0, name="total")
    f = pytensor.function([x], x.sum(), updates={total: total + x.sum()}, mode="JAXSELECTIVE")
    f(np.ones(2))
    save(f, path)
    other = path.with_name("other")
    with pytest.raises(ArtifactError, match=r"^f: a LoadedFunction, .*='graph'\), or copy"):
        save({"f": load(path), "g": f}, other, examples=examples)
    assert not other.exists()
    save(load(path, prefer="graph"), other)
    assert load(other)(np.ones(3)) == 3


def test_a_file_has_a_layer(path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x.sum(), mode="JAXSELECTIVE")
    with pytest.raises(ArtifactError, match=r"leave nothing to save \[PJL704\]"):
        save(f, path, graph=False, compiled=False)
    assert not path.exists()


def test_open_files(path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x + 1, mode="JAXSELECTIVE")
    save(f, path, compiled=False)
    memory = io.BytesIO()
    save(f, memory, compiled=False)
    assert memory.getvalue() == path.read_bytes()
    with path.open("wb") as file:
        save(f, file)
        assert not file.closed
    with path.open("rb") as file:
        for opened in (file, io.BytesIO(path.read_bytes())):
            for _ in range(2):
                np.testing.assert_array_equal(load(opened)(np.ones(2)), [2, 2])
            assert str(inspect(opened)).endswith(str(inspect(path)).partition(":")[2])
        assert str(inspect(file)) == str(inspect(path))
    np.testing.assert_array_equal(load(Pipe(path.read_bytes()))(np.ones(2)), [2, 2])
    with pytest.raises(ArtifactError, match=r"^<_io\.BytesIO object at .*>: it is not a saved"):
        load(io.BytesIO(b"PK"))


def test_inspection(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, w = pt.dmatrix("x"), pytensor.shared(np.ones(3), name="w")
    save({"f": pytensor.function([x], x @ w, updates={w: w * 2}, mode="JAXSELECTIVE")}, path)
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    for part in (
        "format version 1",
        "f(x: Matrix(float64, shape=(?, ?)))",
        "updates w",
        "layers: compiled, graph",
        "f: region 0: (x_0, 3), (3,)",
        f"pytensor {pytensor.__version__}",
        "graph.json",
    ):
        assert part in text
    assert main(["inspect", "--json", str(path)]) == 0
    assert '"single": false' in capsys.readouterr().out
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["inspect", str(path)]) == 1
    assert "truncated" in capsys.readouterr().err


def test_versions(path: Path) -> None:
    x = pt.dvector("x")
    save(pytensor.function([x], x + 1, mode="JAXSELECTIVE"), path)
    content = path.read_bytes().replace(b"pytensor_jaxlink 0001 sha", b"pytensor_jaxlink 0002 sha")
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="has format version 2, and this version of"):
        load(path)


def test_graphs_in_other_modes(path: Path) -> None:
    x, w = pt.dvector("x"), pytensor.shared(2.0, name="w")
    f = pytensor.function([x], x * w, updates={w: w + 1}, mode="JAXSELECTIVE")
    save(f, path)
    g = load(path, prefer="graph", mode="FAST_COMPILE")
    assert not isinstance(g, pytensor_jaxlink.JAXFunction)
    np.testing.assert_array_equal(g(np.ones(2)), [2, 2])
    graph = g.graph
    [(variable, update)] = graph.updates.items()
    assert variable is graph.state[0]
    h = pytensor.function(graph.inputs, pytensor.grad(graph.outputs[0].sum(), graph.inputs[0]))
    np.testing.assert_array_equal(h(np.ones(2)), [3, 3])
    assert update.eval() == 4


def test_gradients_that_were_functions_are_missed_when_they_are_taken(path: Path) -> None:
    from pytensor.compile.builders import OpFromGraph

    x = pt.dvector("x")
    op = OpFromGraph([x], [pt.exp(x)], pullback=lambda i, o, g: [g[0] * 2])
    f = pytensor.function([x], op(x), mode="JAXSELECTIVE")
    save(f, path)
    g = load(path, prefer="graph")
    np.testing.assert_array_equal(g(np.zeros(2)), [1, 1])
    with pytest.raises(NullTypeGradError, match="pullback of this OpFromGraph was a Python func"):
        pytensor.grad(g.graph.outputs[0].sum(), g.graph.inputs[0])


def test_a_loop_that_ends_by_itself_needs_no_permission(path: Path) -> None:
    """Its fallback is a host step of an Op of ours."""
    start = pt.dscalar("start")
    states = pytensor.scan(
        lambda s: (s * 2 + 1, until(s > 20)),
        outputs_info=[start],
        n_steps=5,
        return_updates=False,
    )
    f = pytensor.function([start], states, mode="JAXSELECTIVE")
    expected = f(3.0)
    save(f, path)
    np.testing.assert_array_equal(load(path)(3.0), expected)


def test_a_branch_among_host_steps(path: Path) -> None:
    """Sizes follow from the side that is taken, and one of the sides runs on the host."""
    which, k, i = pt.bscalar("which"), pt.bscalar("k"), pt.vector("i", dtype="uint16")
    y = pt.dvector("y")
    chosen = ifelse(which, i.astype("float64") * 2, black_box(sort_down)(y))
    gradient = pytensor.grad(pt.exp(-chosen[k:]).sum(), chosen)
    f = pytensor.function([which, i, y, k], gradient, mode="JAXSELECTIVE")
    short, long = np.arange(3, dtype="uint16"), np.arange(5.0)
    calls = [(np.int8(side), short, long, np.int8(1)) for side in (0, 1)]
    expected = [f(*call) for call in [*calls, *calls]][2:]  # the first changes the plan
    save(f, path)
    for prefer in LAYERS:
        loaded = load(path, prefer=prefer, allow=["tests.helpers"])
        for call, value in zip(calls, expected, strict=True):
            np.testing.assert_allclose(loaded(*call), value, rtol=1e-14)


def test_sizes_without_code_are_compiled_from_the_graph(path: Path) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    total = pytensor.shared(0.0, name="total")
    outputs = x[:n].sum() + total
    f = pytensor.function([x, n], outputs, updates={total: outputs}, mode="JAXSELECTIVE")
    save(f, path, static={"n": [2]})
    g = load(path)
    assert g(np.ones(5), 2) == 2
    with pytest.warns(JAXLinkWarning, match="no code was saved for n = 3"):
        assert g(np.ones(5), 3) == 5
    assert g(np.ones(5), 2) == 7
    assert float(g.state[0].get_value()) == 7
    save(f, path, static={"n": [2]}, graph=False)
    with pytest.raises(ArtifactError, match="There is code for"):
        load(path)(np.ones(5), 3)


def test_the_user_is_told_where_there_is_no_code(path: Path) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], x[:n].sum(), mode="JAXSELECTIVE")
    with pytest.warns(JAXLinkWarning, match=r"no code is saved for region 0"):
        save(f, path)
    with pytest.raises(ArtifactError, match="static names m, and the inputs are n, x"):
        save(f, path, static={"m": 1})
    with pytest.raises(ArtifactError, match="dims names z"):
        save(f, path, dims={"z": ("a",)})


def test_options_of_xla_are_not_taken_from_a_file(tmp_path: Path) -> None:
    """Some have XLA write files."""
    x, dump = pt.dvector("x"), tmp_path / "dump"
    asked = {"xla_dump_to": str(dump), "xla_cpu_enable_fast_min_max": True}
    f = pytensor.function([x], pt.exp(x).sum(), mode=JAXLinker(compiler_options=asked))
    save(f, tmp_path / "f")
    assert not dump.exists()
    for prefer in ("compiled", "graph"):
        assert load(tmp_path / "f", prefer=prefer)(np.zeros(3)) == 3
    load(tmp_path / "f", compiler_options=None)(np.zeros(4))
    assert not dump.exists()
    assert "  was compiled with compiler_options={'xla_dump_to': " in str(inspect(tmp_path / "f"))
    for prefer in ("compiled", "graph"):
        other = {"xla_dump_to": str(tmp_path / prefer)}
        g = load(tmp_path / "f", prefer=prefer, compiler_options=other)
        assert g(np.zeros(3)) == 3
        assert (tmp_path / prefer).exists()


def test_options_of_xla_that_are_none(tmp_path: Path) -> None:
    x = pt.dvector("x")
    save(pytensor.function([x], x.sum(), mode="JAXSELECTIVE"), tmp_path / "f")
    wrong = "load: compiler_options=['xla_dump_to'] is not a mapping with names of options"
    with pytest.raises(ValueError, match=rf"^{re.escape(wrong)} \[PJL808\]$"):
        load(tmp_path / "f", compiler_options=["xla_dump_to"])
    wrong = (
        "load: compiler_options are for the mode of the saved function; give them to the mode "
        "that takes its place, mode=JAXLinker(compiler_options=...)"
    )
    with pytest.raises(ValueError, match=rf"^{re.escape(wrong)} \[PJL808\]$"):
        load(tmp_path / "f", prefer="graph", mode="FAST_COMPILE", compiler_options={"a": 1})


def test_parts_of_memory_that_repeat_it(tmp_path: Path) -> None:
    """What shows the same memory many times stays so; somebody else's may not be of any size."""
    values = np.arange(24.0)
    windows = np.lib.stride_tricks.sliding_window_view(values, 5)
    first, second = (pytensor.shared(each, borrow=True) for each in (windows, windows[:1]))
    save(pytensor.function([], first.sum() + second.sum(), mode="JAXSELECTIVE"), tmp_path / "f")
    one, two = (state.get_value(borrow=True) for state in load(tmp_path / "f").state)
    assert np.shares_memory(one, two)
    np.testing.assert_array_equal(one, windows)
    members = dict(members_of((tmp_path / "f").read_bytes()))
    data = json.loads(members["data.json"])
    [view, *_] = [entry["view"] for entry in data if "view" in entry]
    view.update(shape=[1 << 40], strides=[0])
    members["data.json"] = json.dumps(data).encode()
    (tmp_path / "f").write_bytes(relisted(list(members.items())))
    with pytest.raises(ArtifactError, match=r"of shape \(1099511627776,\) in memory of 192 bytes"):
        load(tmp_path / "f")


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("size", [0, 3, 50, 3000])
def test_data_of_loaded_functions_goes_to_the_device_once(
    size: int, graph: bool, tmp_path: Path
) -> None:
    x, rows = pt.dscalar("x"), pytensor.shared(np.arange(float(size)), "rows")
    save(pytensor.function([x], (rows * x).sum(), mode="JAXSELECTIVE"), tmp_path / "f", graph=graph)
    f = load(tmp_path / "f")
    [state] = f.state
    assert isinstance(state.storage[0], jax.Array)
    total = rows.get_value().sum()
    assert f(2.0) == 2 * total
    borrowed = state.get_value(borrow=True)
    borrowed += 1
    for _ in range(30):
        assert f(2.0) == 2 * (total + size)
    borrowed += 1
    assert f(2.0) == 2 * (total + 2 * size)
    assert type(state.storage[0]) is np.ndarray
    del borrowed
    for _ in range(30):
        assert f(2.0) == 2 * (total + 2 * size)
    assert isinstance(state.storage[0], jax.Array)
    state.set_value(np.ones(size))
    assert isinstance(state.storage[0], jax.Array) == (size == 3000)
    mine = np.ones(size)
    state.set_value(mine, borrow=True)
    for k in range(30):
        mine[:] = k
        assert f(2.0) == 2 * k * size
    assert f.stats.fallbacks == 0


def test_states_of_common_memory_do_not_part(tmp_path: Path) -> None:
    values = np.arange(4000.0)
    first, second, third = (
        pytensor.shared(each, borrow=True) for each in (values, values[1:], np.ones(3))
    )
    total = first.sum() + second.sum() + third.sum()
    save(pytensor.function([], total, mode="JAXSELECTIVE"), tmp_path / "f")
    f = load(tmp_path / "f")
    for _ in range(30):
        assert f() == 2 * values.sum() + 3
    assert [type(state.storage[0]) is np.ndarray for state in f.state] == [True, True, False]
    f.state[0].get_value(borrow=True)[1] += 1
    assert f() == 2 * values.sum() + 5


def test_code_that_jax_cannot_read(tmp_path: Path) -> None:
    x = pt.dvector("x")
    save(pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE"), tmp_path / "f")
    members = dict(members_of((tmp_path / "f").read_bytes()))
    code = members["regions/0.stablehlo"]
    reads = r"f: region 0: JAX [\d.]+ cannot read the code, because it is "
    for changed in (b"", code[: len(code) // 2], bytes(1000)):
        members["regions/0.stablehlo"] = changed
        (tmp_path / "f").write_bytes(relisted(list(members.items())))
        with pytest.raises(ArtifactError, match=f"{reads}damaged or too old"):
            load(tmp_path / "f")(np.ones(3))
        assert load(tmp_path / "f", prefer="graph")(np.zeros(3)) == 3


def test_code_that_is_no_module(tmp_path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], [pt.exp(x).sum(), x * 2], mode="JAXSELECTIVE")
    f(np.ones(3))
    save(f, tmp_path / "f")
    members = dict(members_of((tmp_path / "f").read_bytes()))
    code = members["regions/0.stablehlo"]
    module = export.deserialize(bytearray(code)).mlir_module_serialized
    assert code.count(module) == 1
    reads = f"JAX {jax.__version__} cannot read the code, because it is damaged or too old"
    runs = "XLA cannot run the code for shapes (3,), because it is damaged or not what JAX has "
    runs += "exported"
    for changed, problem, cause in (
        (bytes(len(module)), runs, KeyError),
        (module[:-100] + bytes(100), reads, jax.errors.JaxRuntimeError),
    ):
        members["regions/0.stablehlo"] = code.replace(module, changed)
        (tmp_path / "f").write_bytes(relisted(list(members.items())))
        loaded = load(tmp_path / "f")
        for _ in range(2):
            with pytest.raises(ArtifactError) as raised:
                loaded(np.ones(3))
            start = f"{tmp_path / 'f'}: region 0: {problem} ({cause.__name__}: "
            assert str(raised.value).startswith(start)
            assert isinstance(raised.value.__cause__, cause)


def test_code_with_another_signature(tmp_path: Path) -> None:
    x = pt.dvector("x")
    for name, outputs in (("f", [x + 1]), ("g", [x + 1, x + 2]), ("h", [x.sum()])):
        f = pytensor.function([x], outputs, mode="JAXSELECTIVE")
        f(np.ones(3 if name != "h" else 4))
        save(f, tmp_path / name, dims=None)
    members = dict(members_of((tmp_path / "f").read_bytes()))
    for other, problem in (
        ("g", "gives PyTreeDef(([*, *], ())), and the file says it gives 1 arrays and at most one"),
        ("h", "takes float64(4,), and the file says it takes float64(3,). Save the function again"),
    ):
        code = dict(members_of((tmp_path / other).read_bytes()))["regions/0.stablehlo"]
        members["regions/0.stablehlo"] = code
        (tmp_path / "changed").write_bytes(relisted(list(members.items())))
        with pytest.raises(ArtifactError) as raised:
            load(tmp_path / "changed")(np.ones(3))
        start = f"{tmp_path / 'changed'}: region 0: the code {problem}"
        assert str(raised.value).startswith(start)


def test_errors_that_are_not_the_files(tmp_path: Path) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], pt.alloc(x.sum(), n) * 2, mode="JAXSELECTIVE")
    save(f, tmp_path / "f", static={"n": [3, 1 << 50]})
    with pytest.raises(MemoryError, match=r"RESOURCE_EXHAUSTED|emory"):
        jax.block_until_ready(load(tmp_path / "f")(np.ones(3), 1 << 50))
    loaded = load(tmp_path / "f", compiler_options={"xla_no_such_option": True})
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        loaded(np.ones(3), 3)


BLOCKED = """
import sys
import numpy as np, pytensor, pytensor.tensor as pt
sys.modules["flatbuffers"] = None
from pytensor_jaxlink import ArtifactError, load, save
x = pt.dvector("x")
for action in (
    lambda: save(pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE"), sys.argv[2]),
    lambda: load(sys.argv[1])(np.zeros(3)),
):
    try:
        action()
    except ArtifactError as error:
        print(error)
print(load(sys.argv[1], prefer="graph")(np.zeros(3)))
"""


def test_without_flatbuffers(tmp_path: Path) -> None:
    x = pt.dvector("x")
    save(pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE"), tmp_path / "f")
    command = [sys.executable, "-W", "ignore", "-c", BLOCKED, tmp_path / "f", tmp_path / "g"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines() == [
        "saving compiled code needs the package flatbuffers, which is not installed: pip install "
        "'pytensor_jaxlink[save]', or save(..., compiled=False). [PJL705]",
        "running saved code needs the package flatbuffers, which is not installed: pip install "
        "'pytensor_jaxlink[save]', or load(path, prefer='graph'). [PJL705]",
        "3.0",
    ]
    assert not (tmp_path / "g").exists()


def test_a_file_of_another_float_type(tmp_path: Path) -> None:
    """The quotient of integers has the ``floatX`` under which the function was built."""
    i = pt.bvector("i")
    with pytensor.config.change_flags(floatX="float32"):
        f = pytensor.function([i], i / i.shape[0], mode="JAXSELECTIVE")
        given = np.arange(4, dtype="int8")
        expected = np.asarray(f(given))
        save(f, tmp_path / "f")
    with jax.enable_x64(True):
        found = np.asarray(load(tmp_path / "f", prefer="graph")(given))
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_a_function_of_jax_inside_has_no_graph_layer(path: Path) -> None:
    x, weights = pt.dvector("x", shape=(3,)), pytensor.shared(np.ones(3), "weights")

    @pytensor.wrap_jax
    def in_graph(values: Any) -> Any:
        return jax.numpy.sin(values) * 2

    inner = pt.dvector("inner", shape=(3,))
    inside = OpFromGraph([inner], [in_graph(inner) + 1])
    for y in (in_graph(x * weights), inside(x * weights)):
        outputs = [y.sum(), pytensor.grad(y.sum(), x)]
        f = pytensor.function([x], outputs, mode="JAXSELECTIVE")
        reason = (
            r"no graph layer, because (vjp_)?in_graph is a function of JAX \(pytensor\.wrap_jax\)"
        )
        with pytest.warns(
            JAXLinkWarning, match=f"the function has {reason}. Its compiled layer is"
        ):
            save(f, path)
        assert re.search(f"the function has {reason}", str(inspect(path)))
        for loaded in (load(path), load(path, prefer="graph")):
            for one, other in zip(loaded(np.ones(3)), f(np.ones(3)), strict=True):
                np.testing.assert_array_equal(one, other)
        with pytest.raises(ArtifactError, match=reason):
            save(f, path, compiled=False)
        with pytest.raises(ArtifactError, match=reason):
            load(path).explain()
    total = pytensor.function([x], (x * weights).sum(), mode="JAXSELECTIVE")
    with pytest.warns(JAXLinkWarning, match="wrapped has no graph layer"):
        save({"wrapped": f, "total": total}, path)
    both = load(path)
    assert both["total"].explain().graph_break_count == 0
    assert both["total"](np.ones(3)) == 3
    assert both["wrapped"].state[0] is both["total"].state[0]


def test_an_override_in_a_loop(path: Path) -> None:
    """The gradient of a loop contains the Op, and a loop is equal if its Ops are."""
    x = pt.dvector("x")
    op = OpFromGraph([x], [pt.sin(x)], pullback=lambda i, o, g: [g[0] * i[0] * 3])
    states = pytensor.scan(lambda s: op(s) * 0.5, outputs_info=[x], n_steps=2, return_updates=False)
    f = pytensor.function([x], pytensor.grad(states[-1].sum(), x), mode="JAXSELECTIVE")
    expected = f(np.ones(3))
    save(f, path)
    for layer in ("graph", "compiled"):
        np.testing.assert_allclose(load(path, prefer=layer)(np.ones(3)), expected)
