"""Graphs come back equal, and run to the same bits."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor import sparse
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.op import Op
from pytensor.graph.traversal import io_toposort
from pytensor.scalar.basic import ScalarInnerGraphOp, ScalarOp
from pytensor.tensor.optimize import minimize, minimize_scalar, root, root_scalar
from pytensor.tensor.random.type import random_generator_type

from pytensor_jaxlink import load, save
from pytensor_jaxlink.artifact.graphs import GraphReader, GraphWriter, InnerGraph, check_same
from pytensor_jaxlink.artifact.names import EveryName
from pytensor_jaxlink.artifact.values import DataReader, DataWriter
from tests.corpus.graphs import CORPUS, INPUTS, values
from tests.differential.compare import dense
from tests.differential.grammar import random_graph
from tests.helpers import as_list
from tests.ops.table import installed

N = pt.lscalar("n")
HERE = pytensor.__version__


def there_and_back(value: Any) -> Any:
    """A value, written as JSON and read again."""
    data = DataWriter()
    writer = GraphWriter(data)
    document = writer.value(value)
    document, parts, entries = json.loads(
        json.dumps([document, writer.entries, data.table.entries])
    )
    return GraphReader(DataReader(data, entries), parts, EveryName(), HERE).value(document)


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str, tmp_path: Path) -> None:
    _, graph = CORPUS[name]
    outputs = graph()
    f = pytensor.function(INPUTS, outputs, mode="JAXSELECTIVE", on_unused_input="ignore")
    save(f, tmp_path / "f.jaxlink", compiled=False)
    g = load(tmp_path / "f.jaxlink", prefer="graph", allow=("tests",))
    given = InnerGraph.between(INPUTS, as_list(outputs))
    check_same(InnerGraph.between(g.graph.inputs, g.graph.outputs), given)
    for one, other in zip(as_list(f(*values(1))), as_list(g(*values(1))), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("group", range(6))
def test_random_graphs(group: int) -> None:
    for seed in range(group * 50, group * 50 + 50):
        found = random_graph(seed)
        graph = InnerGraph.between([*found.inputs, *found.shared], found.outputs)
        with pytensor.config.change_flags(floatX=found.float_type):
            check_same(there_and_back(graph), graph)


def test_random_graphs_give_the_same_bits(tmp_path: Path) -> None:
    for seed in range(0, 40, 4):
        graph = random_graph(seed)
        with (
            warnings.catch_warnings(),
            pytensor.config.change_flags(floatX=graph.float_type, on_opt_error="ignore"),
        ):
            warnings.simplefilter("ignore")  # divisions by zero
            try:
                f = pytensor.function(graph.inputs, graph.outputs, mode="JAXSELECTIVE")
                expected = as_list(f(*graph.calls[0]))
            except Exception:  # what both refuse is not the matter here
                continue
            save(f, tmp_path / "f.jaxlink", compiled=False)
            loaded = load(tmp_path / "f.jaxlink", prefer="graph", allow=("tests",))
            found = as_list(loaded(*graph.calls[0]))
        for one, other in zip(found, expected, strict=True):
            assert dense(one).tobytes() == dense(other).tobytes()


def instances() -> Iterator[tuple[str, Op]]:
    """For each Op class of PyTensor, an instance: one that a module holds, or a new one."""
    held: dict[type, Op] = {}
    kinds = installed()  # imports PyTensor's modules
    for name, module in sorted(sys.modules.items()):
        if name.startswith("pytensor."):
            for value in list(vars(module).values()):
                if isinstance(value, Op):
                    held.setdefault(type(value), value)
    for name, kind in kinds.items():
        op = held.get(kind) or _made(kind)
        # A `SymbolicOp` without a graph is a template; nodes hold instances with one.
        graph = isinstance(op, OpFromGraph | ScalarInnerGraphOp)
        if op is not None and (not graph or hasattr(op, "fgraph")):
            yield name, op


SAMPLES: dict[str, Any] = {
    "axis": 0, "axes": (0,), "dtype": "float64", "inplace": False, "ndim": 2, "n": 2, "mode":
    "full", "o_type": pytensor.scalar.float64, "i": 0, "msg": "no", "out_type": "float64",
    "format": "csr", "input_ndim": 1, "new_order": (0, "x"), "scalar_op": pytensor.scalar.add,
    "upper": True, "lower": True, "idx_list": (0,), "n_outs": 1, "exc_type": ValueError,
    "len_splits": 2, "axis1": 0, "axis2": 1, "offset": 0, "b_ndim": 1, "method": "cholesky",
    "sparse": False, "inverse": False, "full_matrices": True, "compute_uv": False, "n_inputs":
    2, "shape": (2,), "broadcastable": (False,), "mmap_mode": None, "pad_mode": "constant",
    "trans": 0, "start_axis": 0, "axis_range": (0, 1), "dims": ("a",), "signature":
    "(n)->(n)", "core_op": pt.linalg.det.core_op if hasattr(pt.linalg.det, "core_op") else
    None, "n_steps": 1, "stack_dims": ("a",), "new_dim_name": "b", "unstacked_dims": ("a",),
    "unstacked_lengths": (2,), "dim": "a", "concat_dim": "a", "assume_a": "gen", "ord": 2,
    "view": False, "side": "left", "structured": True, "grad_preserves_dense": True, "depth":
    0,
}  # fmt: skip


def _made(kind: type[Op]) -> Op | None:
    try:
        parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
        needed = {
            each.name: SAMPLES[each.name]
            for each in parameters
            if each.default is each.empty
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        }
        return kind(**needed)
    except Exception:
        return None


def test_the_ops_of_the_table() -> None:
    problems, reached = [], set()
    for name, op in instances():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some Ops are deprecated
                again = there_and_back(op)
            assert type(again) is type(op), name
            if isinstance(op, ScalarOp) or type(op).__eq__ is not object.__eq__:
                assert again == op, name
            reached.add(name)
        except Exception as error:
            problems.append(f"{name}: {error}")
    missing = sorted({*installed()} - reached)
    sys.stdout.write(f"{len(reached)} {missing}")
    assert not problems, "\n".join(problems)
    assert len(missing) < 65


def test_nodes_keep_their_order_and_sharing() -> None:
    x = pt.vector("x")
    y = pt.exp(x)
    graph = InnerGraph.between([x], [y + y, y])
    again = there_and_back(graph)
    assert again.outputs[0].owner.inputs[0] is again.outputs[1]
    assert len(io_toposort(again.inputs, again.outputs)) == 2


def as_constant(generator: np.random.Generator) -> Any:
    return random_generator_type.make_constant(generator)


@pytest.mark.filterwarnings("ignore")
def test_ops_that_need_arguments() -> None:
    x, y, n = pt.dmatrix("x"), pt.dvector("y"), pt.lscalar("n")
    rng, fixed = random_generator_type("rng"), as_constant(np.random.default_rng(1))
    square = x @ x.T + pt.eye(x.shape[0])
    indices = pt.lvector("indices")
    outputs = [
        pt.linalg.solve(square, y, assume_a="pos"),
        pt.linalg.solve_triangular(square, y, lower=True),
        pt.linalg.cho_solve((pt.linalg.cholesky(square), True), y),
        *pt.linalg.svd(x),
        *pt.linalg.slogdet(square),
        pt.linalg.pinv(x),
        pt.linalg.kron(x, x),
        pt.sort(y, kind="stable"),
        pt.argsort(x, axis=1),
        pt.argmax(x, axis=0),
        pt.max_and_argmax(x, axis=1)[0],
        pt.logsumexp(x, axis=1),
        pt.special.softmax(x, axis=1),
        pt.special.log_softmax(x),
        pt.pad(x, 2, mode="reflect"),
        pt.einsum("ij,kj->ik", x, x),
        pt.choose(indices % 2, [y, y * 2]),
        pt.choose(indices % 2, pt.stack([y, y])),
        pt.diag(y),
        pytensor.gradient.grad_clip(x, -1, 1),
        pytensor.gradient.grad_scale(x, 2.0),
        pt.random.choice(y, size=(2,), replace=False, rng=rng),
        pt.random.permutation(y, rng=rng),
        pt.random.multivariate_normal(y, square, rng=fixed),
        pt.split(y, [2, n], n_splits=2)[0],
        pt.set_subtensor(x[indices, 1:], 3.0),
        pt.inc_subtensor(x[1:n, ::2], 3.0),
        pt.betainc(y, y, y),
        pytensor.grad(pt.gammainc(y, y).sum(), y),  # a loop over scalars
        pt.vectorize(lambda v: v / v.sum(), signature="(n)->(n)")(x),
        pytensor.printing.Print("x", attrs=("shape",))(x),
        pytensor.raise_op.Assert("too small")(x, (x > 0).all()),
        pt.repeat(x, indices, axis=0),
        pt.specify_shape(x, (3, None)),
        pt.linalg.solve_discrete_are(square, square, square, square),
        pt.linalg.solve_sylvester(square, square, square),
    ]
    graph = InnerGraph.between([x, y, n, indices, rng], outputs)
    check_same(there_and_back(graph), graph)


def test_fused_graphs() -> None:
    """What `Function.copy` holds may be fused: a Composite, batched or not."""
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x) * 2 + pt.sin(x) ** 2, mode="FAST_RUN")
    graph = InnerGraph.between(f.maker.fgraph.inputs, f.maker.fgraph.outputs)
    check_same(there_and_back(graph), graph)


def _optimised() -> Iterator[tuple[str, Any]]:
    x, a, s = pt.dvector("x"), pt.dscalar("a"), pt.dscalar("s")
    yield "root", lambda: ([x, a], root(x**3 - a, x)[0])
    yield "root_scalar", lambda: ([s, a], root_scalar(s**3 - a, s, method="newton", jac=True)[0])
    yield "minimize", lambda: ([x, a], minimize(((x - a) ** 2).sum(), x, method="BFGS")[0])
    yield "minimize_scalar", lambda: ([s, a], minimize_scalar((s - a) ** 2, s)[0])


@pytest.mark.parametrize("name", dict(_optimised()))
def test_optimisers(name: str, tmp_path: Path) -> None:
    inputs, found = dict(_optimised())[name]()
    outputs = [found, pt.grad(found.sum(), inputs[1])]
    f = pytensor.function(inputs, outputs, mode="JAXSELECTIVE", on_unused_input="ignore")
    save(f, tmp_path / "f")
    given = np.ones(inputs[0].ndim * 2) if inputs[0].ndim else 1.0, 8.0
    expected = [np.asarray(each).tobytes() for each in f(*given)]
    for layer in ("graph", "compiled"):
        loaded = load(tmp_path / "f", prefer=layer)(*given)
        assert [np.asarray(each).tobytes() for each in loaded] == expected


@pytest.mark.parametrize("prefer", ["graph", "compiled"])
def test_omitted_bounds_of_a_sparse_slice(prefer: Any, tmp_path: Path) -> None:
    rows = sparse.csr_matrix("rows", dtype="float64")
    f = pytensor.function([rows, N], [rows[:2], rows[N:, 1:], rows[::N]], mode="JAXSELECTIVE")
    matrix = scipy.sparse.random_array((5, 4), density=0.5, format="csr", rng=0)
    expected = f(matrix, 2)
    save(f, tmp_path / "f")
    for found, each in zip(load(tmp_path / "f", prefer=prefer)(matrix, 2), expected, strict=True):
        assert found.dtype == each.dtype
        np.testing.assert_array_equal(dense(found), dense(each))
