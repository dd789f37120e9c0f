"""Sparse matrices inside regions, as constants, inputs, shared variables and results."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from pytensor.compile.io import In
from pytensor.graph.replace import clone_replace
from pytensor.sparse.basic import CSMGrad
from scipy import sparse

from pytensor_jaxlink import NotJittableError, jaxify, load, save
from tests.helpers import PYTHON, assert_same_outcomes, compile_both, outcome

ROWS, COLUMNS = (sparse.random(6, 5, 0.4, format=form, random_state=1) for form in ("csr", "csc"))
DENSE, LEFT, SAME = (np.random.default_rng(2).normal(size=s) for s in ((5, 3), (2, 6), (6, 5)))
X, C, M, V = ps.csr_matrix("x"), ps.csc_matrix("c"), pt.dmatrix("m"), pt.dvector("v")

TRACED = {
    "dot": ([X, M], lambda: ps.dot(X, pt.exp(M)) * 2, (ROWS, DENSE)),
    "dot_by_columns": ([C, M], lambda: ps.dot(C, M), (COLUMNS, DENSE)),
    "dense_first": ([M, C], lambda: ps.dot(M, C), (LEFT, COLUMNS)),
    "vector": ([X, V], lambda: ps.dot(X, V), (ROWS, DENSE[:, 0])),
    "constant": ([M], lambda: ps.dot(ps.as_sparse(ROWS), M), (DENSE,)),
    "gradient": (
        [X, M],
        lambda: pytensor.grad((ps.structured_dot(X, M) ** 2).sum(), M),
        (ROWS, DENSE),
    ),
    "gradient_of_the_matrix": (
        [X, M],
        lambda: pytensor.grad((ps.structured_dot(X, M) ** 2).sum(), X),
        (ROWS, DENSE),
    ),
    "dense": ([C], lambda: ps.dense_from_sparse(C), (COLUMNS,)),
    "transpose": ([X], lambda: X.T, (ROWS,)),
    "sum": ([C], lambda: ps.sp_sum(C), (COLUMNS,)),
    "sum_of_rows": ([C], lambda: ps.sp_sum(C, axis=1), (COLUMNS,)),
    "sum_of_columns": ([X], lambda: ps.sp_sum(X, axis=0), (ROWS,)),
    "times_dense": ([X, M], lambda: X * M, (ROWS, SAME)),
    "plus_dense": ([X, M], lambda: X + M, (ROWS, SAME)),
    "scaled_columns": ([X, V], lambda: ps.col_scale(X, V), (ROWS, np.arange(5.0))),
    "scaled_rows": ([C, V], lambda: ps.row_scale(C, V), (COLUMNS, np.arange(6.0))),
    "elementwise": ([X], lambda: ps.structured_sigmoid(-X), (ROWS,)),
    "cast": ([X], lambda: ps.cast(X, "float32"), (ROWS,)),
    "shape": ([X], lambda: pt.zeros(X.shape[1]) + X.shape[0], (ROWS,)),
}
T = pt.dscalar("t")
SUMS_WITH_ZEROS = {
    "sum_of_columns": ps.sp_sum(X, axis=0) + T,
    "sum_of_rows": T + ps.sp_sum(X, axis=1),
    "sum": ps.sp_sum(X) + T,
    "vector": ps.dot(X, V) + T,
    "matrix": ps.structured_dot(X, M) + T,
    "dense": X.toarray() + T,
    "diagonal": ps.diag(X) + T,
    "incremented": pt.inc_subtensor(ps.sp_sum(X, axis=0)[1:], pt.tanh(V[1:]) * T),
    "gradient": pytensor.grad((ps.structured_dot(X, M) ** 2).sum(), M) + T,
}
ON_THE_HOST = {
    "sum_of_two": ([X], lambda: X + X * 2.0, (ROWS,)),
    "product_of_two": ([X], lambda: ps.dot(X, X.T), (ROWS,)),
    "slice": ([X], lambda: X[1:3, 2:4], (ROWS,)),
    "from_dense": ([M], lambda: ps.csr_from_dense(pt.exp(M) - 1), (SAME,)),
}


def check(inputs: Any, graph: Any, values: Any) -> Any:
    f, reference = (
        pytensor.function(inputs, graph(), mode=mode) for mode in ("JAXSELECTIVE", PYTHON)
    )
    found, expected = f(*values), reference(*values)
    assert found.dtype == expected.dtype
    if sparse.issparse(expected):
        assert found.format == expected.format
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_allclose(np.asarray(found), expected)
    assert f.stats.fallbacks == 0
    return f


@pytest.mark.parametrize("name", SUMS_WITH_ZEROS)
@pytest.mark.parametrize("stored", [0, 1])
def test_zeros_that_are_not_stored_are_positive(name: str, stored: int) -> None:
    """XLA takes ``0.0 + y`` for y, which may be -0.0."""
    matrix = sparse.csr_matrix((3, 3))
    if stored:
        matrix = sparse.csr_matrix(([2.0], ([1], [1])), shape=(3, 3))
    f, reference = compile_both([X, V, M, T], SUMS_WITH_ZEROS[name])
    for v in (np.ones(3), np.zeros(3), -np.zeros(3)):
        found, expected = (np.asarray(run(matrix, v, v[:, None], -0.0)) for run in (f, reference))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("name", TRACED)
def test_inside_a_region(name: str) -> None:
    f = check(*TRACED[name])
    assert (f.explain().graph_count, f.explain().graph_break_count) == (1, 0)


# The patterns of matrices whose stored entries are parameters.
ENTRIES, START = np.array([1.5, -2.0, 0.5, 3.0]), np.array([0, 2, 2, 4], "int32")
PATTERNS = {
    "sorted": np.array([0, 2, 1, 3], "int32"),
    "unsorted": np.array([2, 0, 3, 1], "int32"),
    "twice": np.array([2, 2, 3, 1], "int32"),
}


SHAPE = np.array([3, 4], "int32")


@pytest.mark.parametrize("choose", [pt.argmax, pt.max])
def test_a_refused_matrix_does_not_decide_for_others_of_its_shape(choose: Any) -> None:
    f, reference = compile_both([X, V], choose(ps.csm_properties(X)[0]) + V)
    empty, full = sparse.csr_matrix((6, 5)), ROWS.tocsr()
    calls = [(matrix, DENSE[:, 0]) for matrix in (empty, full, empty, full * 2)]
    assert_same_outcomes(f, reference, calls)
    assert f.explain().failures == ()
    assert not any(f.stats.host_region_calls)


class TestGradientsOfEntries:
    @pytest.mark.parametrize("columns", PATTERNS.values(), ids=PATTERNS)
    @pytest.mark.parametrize("make", [ps.CSR, ps.CSC])
    def test_of_a_matrix(self, make: Any, columns: Any) -> None:
        shape = SHAPE if make is ps.CSR else SHAPE[::-1]

        shape = np.array([3, 4] if make is ps.CSR else [4, 3], "int32")

        def gradients() -> Any:
            matrix = make(V, columns, START, shape)
            product = ps.structured_dot(matrix, M) ** 2
            return pt.grad(product.sum(), V)

        right = np.random.default_rng(1).normal(size=(shape[1], 2))
        assert check([V, M], gradients, (ENTRIES, right)).explain().graph_break_count == 0

    @pytest.mark.parametrize("other", ["same", "sparser", "empty", "elsewhere"])
    def test_of_another_pattern(self, other: str) -> None:
        f, reference = of_patterns()
        for columns in PATTERNS.values():
            slope = {
                "same": [ENTRIES * 2, columns, START],
                "sparser": [ENTRIES[:2], columns[1:3], np.array([0, 1, 1, 2], "int32")],
                "empty": [ENTRIES[:0], columns[:0], START * 0],
                "elsewhere": [ENTRIES * 2, columns[::-1], np.array([0, 1, 4, 4], "int32")],
            }[other]
            values = [ENTRIES, columns, START, SHAPE, *slope, SHAPE]
            np.testing.assert_array_equal(f(*values), reference(*values))
        assert (f.stats.fallbacks, f.stats.compilations) == (0, [1])
        assert f.explain().graph_break_count == 0

    def test_malformed_patterns(self) -> None:
        f, reference = of_patterns()
        for columns, start in (
            ([0, 2, 1, 4], START),
            ([0, -1, 1, 3], START),
            ([0, 2, 1, 3], START[:3]),
        ):
            matrix = [ENTRIES, np.array(columns, "int32"), start, SHAPE]
            np.testing.assert_array_equal(
                outcome(f, *matrix, *matrix), outcome(reference, *matrix, *matrix)
            )


def of_patterns() -> Any:
    """The gradient's entries at a matrix' places, of any two patterns."""
    inputs = [pt.vector(dtype=d) for d in ("float64", "int32", "int32", "int32") * 2]
    return compile_both(inputs, CSMGrad()(*inputs))


@pytest.mark.parametrize("name", ON_THE_HOST)
def test_results_whose_pattern_depends_on_data(name: str) -> None:
    assert check(*ON_THE_HOST[name]).explain().graph_break_count == 1


def test_shared_matrices_are_not_part_of_the_code() -> None:
    shared = pytensor.shared(ROWS)
    f = pytensor.function([M], ps.dot(shared, M), mode="JAXSELECTIVE")
    np.testing.assert_allclose(f(DENSE), ROWS @ DENSE)
    shared.set_value(ROWS * 3)
    np.testing.assert_allclose(f(DENSE), 3 * (ROWS @ DENSE))
    assert f.stats.compilations == [1]


def test_lengths_that_do_not_fit() -> None:
    f = pytensor.function([X, M], ps.structured_dot(X, M), mode="JAXSELECTIVE")
    with pytest.raises(ValueError, match="shape mismatch"):
        f(ROWS, DENSE[:4])


def of_lengths(*lengths: int) -> list[Any]:
    """Vectors of ones, and one that is not finite."""
    return [*map(np.ones, lengths), np.array([1.0, np.inf, 2, 3, 4])]


def stored(*entries: tuple[float, int, int]) -> Any:
    """A matrix that stores these entries, with their rows and columns, as they are."""
    data, rows, columns = (np.array(part) for part in zip(*entries, strict=True))
    start = np.searchsorted(rows, np.arange(7)).astype("int32")
    return sparse.csr_matrix((data, columns.astype("int32"), start), shape=(6, 5))


ZERO_STORED = stored((0.0, 0, 1), (2.0, 0, 3), (3.0, 4, 4))
STORED_TWICE = stored((1.0, 0, 1), (2.0, 0, 1), (3.0, 4, 4))
Y, N = ps.csr_matrix("y"), pt.dmatrix("n")
POINTERS = ([0, 1, 2, 3], [0, 3, 3, 3], [0, 1, 3], [1, 2, 3, 3], [0, 1, 2, 4], [0, 1, 1, 2])
PLACES, STARTS = pt.ivector("places"), pt.ivector("starts")

# Each graph, and calls of which some do not fit.
CALLS: dict[str, Any] = {
    "times_vector": ([X, V], lambda: X * V, [(ROWS, v) for v in of_lengths(5, 4, 6, 1)]),
    "col_scale": ([C, V], lambda: ps.col_scale(C, V), [(COLUMNS, v) for v in of_lengths(5, 4, 6)]),
    "row_scale": ([C, V], lambda: ps.row_scale(C, V), [(COLUMNS, v) for v in of_lengths(6, 5, 7)]),
    "structured_add": (
        [X, V],
        lambda: ps.structured_add_s_v(X, V),
        [(m, v) for m in (ROWS, ZERO_STORED, STORED_TWICE) for v in of_lengths(5, 4, 6, 1)],
    ),
    "entries_of_two": (
        [X, Y],
        lambda: ps.add_s_s_data(X, Y),
        [(ROWS, other) for other in (ROWS, ROWS[:4], sparse.csr_matrix(SAME))],
    ),
    **{
        f"of_parts_{make.format}": (
            [V, PLACES, STARTS],
            lambda make=make: make(V, PLACES, STARTS, np.array([3, 3], "int32")),
            [
                (np.arange(1.0, count + 1), np.array(places, "int32"), np.array(starts, "int32"))
                for count, places in ((3, [0, 2, 1]), (2, [0, 1, 2]))
                for starts in POINTERS
            ],
        )
        for make in (ps.CSR, ps.CSC)
    },
    "sampled_product": (
        [M, N, X],
        lambda: ps.sampling_dot(M, N, X),
        [
            (np.ones(left), np.ones(right), ROWS)
            for left in ((6, 2), (1, 2), (7, 2))
            for right in ((5, 2), (1, 2), (4, 2), (5, 3))
        ],
    ),
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", CALLS)
def test_values_and_lengths_that_the_operation_refuses(name: str) -> None:
    inputs, graph, calls = CALLS[name]
    assert_same_outcomes(*compile_both(inputs, ps.dense_from_sparse(graph())), calls)


@pytest.mark.parametrize("name", TRACED)
def test_constant_dense_operands(name: str) -> None:
    inputs, graph, values = TRACED[name]
    given = dict(zip(inputs, values, strict=True))
    constants = {v: pt.constant(given.pop(v)) for v in (M, V) if v in given}
    f = check(list(given), lambda: clone_replace(graph(), constants), tuple(given.values()))
    assert not f.explain().failures


OTHER_MATRICES: dict[str, Any] = {
    "other_format": COLUMNS,
    "array": sparse.csr_array(ROWS),
    "dense": SAME,
    "narrower": ROWS.astype("float32"),
    "wider": ROWS.astype("complex128"),
    "coordinates": ROWS.tocoo(),
    "same": ROWS,
}


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"allow_downcast": True}])
@pytest.mark.parametrize("name", OTHER_MATRICES)
def test_other_matrices_as_arguments(
    name: str, options: dict[str, bool], tmp_path: Path, recwarn: Any
) -> None:
    given, outputs = In(X, **options), [X * 2.0, ps.csm_data(X), ps.csm_indices(X)]
    f, reference = (
        pytensor.function([given], outputs, mode=mode) for mode in ("JAXSELECTIVE", PYTHON)
    )
    f(ROWS)  # the second call takes another path
    save(f, tmp_path / "f")
    ways = [f, *(load(tmp_path / "f", prefer=layer) for layer in ("graph", "compiled"))]
    try:
        expected = reference(OTHER_MATRICES[name])
    except TypeError:
        for way in ways:
            with pytest.raises(TypeError):
                way(OTHER_MATRICES[name])
        return
    for way in ways:
        matrix, *parts = way(OTHER_MATRICES[name])
        assert (matrix.format, matrix.dtype) == (expected[0].format, expected[0].dtype)
        np.testing.assert_array_equal(matrix.toarray(), expected[0].toarray())
        for found, part in zip(parts, expected[1:], strict=True):
            np.testing.assert_array_equal(found, part)


@pytest.mark.parametrize("name", [*TRACED, *ON_THE_HOST])
def test_compiled_ahead(name: str) -> None:
    inputs, graph, values = (TRACED | ON_THE_HOST)[name]
    f = pytensor.function(inputs, graph(), mode="JAXSELECTIVE")
    compilations = f.compile(*values).stats.compilations
    f(*values)
    assert f.stats.compilations == compilations


class TestPureFunctions:
    """`jax.jit` takes a matrix of SciPy for an array, so it is bound before."""

    OUTPUTS = (ps.dense_from_sparse(X) @ M, *ps.csm_properties(X)[:3])

    @pytest.mark.filterwarnings("ignore:no code was saved")  # for as many entries
    @pytest.mark.parametrize("name", OTHER_MATRICES)
    def test_other_matrices(self, name: str, tmp_path: Path) -> None:
        matrix = OTHER_MATRICES[name]
        f, reference = (
            pytensor.function([X, M], [*self.OUTPUTS], mode=mode)
            for mode in ("JAXSELECTIVE", PYTHON)
        )
        f(ROWS, DENSE)
        save(f, tmp_path / "f")
        ways = [jaxify([X, M], [*self.OUTPUTS]), f.jax_fn, load(tmp_path / "f").jax_fn]
        ways += [lambda x, m, way=way: jax.jit(partial(way, x))(m) for way in ways]
        for way in ways:
            if name == "wider":
                with pytest.raises(TypeError, match=r"x: expected .*, found a matrix of complex"):
                    way(matrix, DENSE)
                continue
            with jax.enable_x64(True):
                found = way(matrix, DENSE)
            for one, other in zip(found, reference(matrix, DENSE), strict=True):
                np.testing.assert_allclose(one, other)

    @pytest.mark.filterwarnings("ignore:no code was saved")
    @pytest.mark.parametrize("value", ["a", None, object(), np.zeros((2, 2, 2)), np.array(["b"])])
    def test_no_matrix(self, value: Any, tmp_path: Path) -> None:
        f = pytensor.function([X, M], [*self.OUTPUTS], mode="JAXSELECTIVE")
        f(ROWS, DENSE)
        save(f, tmp_path / "f")
        loaded = load(tmp_path / "f", prefer="compiled")
        for way in (f.jax_fn, jaxify([X, M], [*self.OUTPUTS]), loaded, loaded.jax_fn):
            with pytest.raises(TypeError, match=r"x: expected .*, found "):
                way(value, DENSE)

    def test_a_traced_matrix(self) -> None:
        fn = jaxify([X, M], [*self.OUTPUTS])
        with pytest.raises(TypeError, match=r"x: expected .*, found an array that JAX traces"):
            jax.jit(fn)(ROWS, DENSE)

    def test_a_traced_result(self) -> None:
        fn = jaxify([X, V], ps.col_scale(X, V))
        assert sparse.issparse(fn(ROWS, DENSE[:, 0]))
        for transformed in (jax.jit, jax.vmap):
            with pytest.raises(NotJittableError, match="JAX traces a sparse matrix"):
                transformed(partial(fn, ROWS))(DENSE[:, 0] if transformed is jax.jit else DENSE.T)
