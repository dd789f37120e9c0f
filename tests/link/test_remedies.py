"""Every remedy that the library prints, applied.

A case is a generator: it yields what a program prints, in which the remedy stands, and then runs
the program after the remedy, which is in order.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from pytensor import sparse
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.io import In
from pytensor.compile.ops import wrap_py
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.tensor.random.op import RandomVariable
from pytensor.typed_list import make_list

import pytensor_jaxlink
from pytensor_jaxlink import JAXLinker, jaxify
from pytensor_jaxlink.remedies import Remedy, either, split
from tests.helpers import PYTHON, assert_same, outer, sort_down
from tests.link import remedies_of_files as files
from tests.link.remedy_table import CASES, Case, case, error_of

assert files.__name__  # its cases are in the table

X = np.array([0.3, -0.9, 0.1, 0.7])
MATRIX: Any = scipy.sparse.csr_matrix(np.diag(X))
CALLBACK = {"host_ops": "callback"}


def broken(inputs: Any, output: Any, *calls: Any, **options: Any) -> str:
    """The explanation of a function with a break, after some calls."""
    f = pytensor.function(inputs, output, mode=JAXLinker(**options))
    for call in calls:
        f(*call)
    assert f.explain().graph_break_count == 1, f.explain()
    return str(f.explain())


def whole(inputs: Any, output: Any, *values: Any, **options: Any) -> Any:
    """The function has no break, and computes what PyTensor computes."""
    f = pytensor.function(inputs, output, mode=JAXLinker(**options))
    found = f(*values)
    assert f.explain().graph_break_count == 0, f.explain()
    assert f.stats.fallbacks == 0
    assert_same(found, pytensor.function(inputs, output, mode=PYTHON)(*values))
    return found


# -- an operation without a JAX implementation -----------------------------------------------------

down = wrap_py([pt.dvector], [pt.dvector])(sort_down)
vector = pt.dvector


@case(Remedy.CALLBACK)
def callback() -> Iterator[str]:
    x = vector("x")
    total = wrap_py([pt.dvector], [pt.dscalar])(lambda v: np.asarray(v.sum()))
    yield broken([x], total(x) * 2)
    whole([x], total(x) * 2, X, **CALLBACK)


@case(Remedy.INFER_SHAPE_OF_FUNCTION)
def infer_shape_of_function() -> Iterator[str]:
    x = vector("x")
    yield broken([x], down(x) * 2)
    yield broken([x], down(x) * 2, **CALLBACK)
    told = wrap_py([pt.dvector], [pt.dvector], infer_shape=lambda *args: args[-1])(sort_down)
    whole([x], told(x) * 2, X, **CALLBACK)


@case(Remedy.SHAPES_IN_OTYPES)
def shapes_in_otypes() -> Iterator[str]:
    x = vector("x")
    yield broken([x], down(x) * 2)
    told = wrap_py([pt.dvector], [pt.TensorType("float64", (4,))])(sort_down)
    whole([x], told(x) * 2, X, **CALLBACK)


class Down(Op):
    """Sorts a vector; nothing is known of its shape."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x)], [pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = sort_down(inputs[0])


@case(Remedy.INFER_SHAPE_OF_OP, op="Down")
def infer_shape_of_op() -> Iterator[str]:
    class Told(Down):
        def infer_shape(self, *arguments: Any) -> Any:
            return arguments[-1]

    x = vector("x")
    yield broken([x], Down()(x) * 2)
    yield broken([x], Down()(x) * 2, **CALLBACK)
    whole([x], Told()(x) * 2, X, **CALLBACK)


@case(Remedy.WRAP_JAX, op="sort_down")
def wrap_jax() -> Iterator[str]:
    x = vector("x")
    yield broken([x], down(x) * 2)
    wrapped = pytensor.wrap_jax(lambda v: -jnp.sort(-v))
    f = pytensor.function([x], wrapped(pt.specify_shape(x, (4,))) * 2, mode="JAXSELECTIVE")
    assert f.explain().graph_break_count == 0
    assert_same(f(X), sort_down(X) * 2)


@case(Remedy.OWN_OP, op="sort_down")
def own_op() -> Iterator[str]:
    class SortDown(Down):
        pass

    @jax_funcify.register(SortDown)
    def _sort_down(op: SortDown, **_: Any) -> Any:
        return lambda v: -jnp.sort(-v)

    x = vector("x")
    yield broken([x], down(x) * 2)
    whole([x], SortDown()(x) * 2, X)


@case(Remedy.REGISTER, op="Triple")
def register_an_op() -> Iterator[str]:
    class Triple(Down):
        def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
            output_storage[0][0] = 3 * inputs[0]

    x = vector("x")
    yield broken([x], Triple()(x) * 2)
    jax_funcify.register(Triple, lambda op, **_: lambda v: 3 * v)
    whole([x], Triple()(x) * 2, X)


@case(Remedy.REGISTER, op="Cube")
def register_a_scalar_op() -> Iterator[str]:
    class Cube(pytensor.scalar.UnaryScalarOp):
        nfunc_spec = None

        def impl(self, x: float) -> float:
            return x**3

    cube = pt.elemwise.Elemwise(Cube(pytensor.scalar.upgrade_to_float, name="cube"))
    x = vector("x")
    yield broken([x], cube(x) * 2)
    jax_funcify.register(Cube, lambda op, **_: lambda v: v**3)
    whole([x], cube(x) * 2, X)


@case(Remedy.REGISTER_SAMPLER, op="Steps")
def register_a_sampler() -> Iterator[str]:
    class Steps(RandomVariable):
        name = "steps"
        signature = "()->()"
        dtype = "float64"
        _print_name = ("Steps", "Steps")

        @classmethod
        def rng_fn(cls, rng: Any, width: Any, size: Any) -> Any:
            return np.asarray(rng.integers(0, 2, size=size) * width)

    @jax_sample_fn.register(Steps)
    def _steps(op: Steps, node: Apply) -> Any:
        raise NotImplementedError("No JAX implementation for the given distribution: steps")

    rng = pytensor.shared(np.random.default_rng(1))
    _, draws = Steps()(2.0, size=(50,), rng=rng, return_next_rng=True)
    yield broken([], draws + 1)

    @jax_sample_fn.register(Steps)
    def _jax_steps(op: Steps, node: Apply) -> Any:
        return lambda key, size, dtype, width: (
            jax.random.randint(key, size, 0, 2).astype(dtype) * width
        )

    f = pytensor.function([], draws + 1, mode="JAXSELECTIVE")
    assert f.explain().graph_break_count == 0
    assert set(np.asarray(f())) == {1.0, 3.0}


@case(Remedy.DENSE)
def dense() -> Iterator[str]:
    import scipy.sparse
    from pytensor import sparse

    one, other = sparse.csc_matrix("one"), sparse.csc_matrix("other")
    yield str(
        pytensor.function(
            [one, other],
            sparse.dense_from_sparse(sparse.hstack([one, other])),
            mode="JAXSELECTIVE",
        ).explain()
    )
    arrays = [sparse.dense_from_sparse(matrix) for matrix in (one, other)]
    matrix = scipy.sparse.csc_matrix(np.diag(X))
    f = pytensor.function([one, other], pt.concatenate(arrays, axis=1), mode="JAXSELECTIVE")
    assert f.explain().graph_break_count == 0
    assert_same(f(matrix, matrix), np.hstack([np.diag(X)] * 2))


# -- a shape that depends on data ------------------------------------------------------------------


@case(Remedy.MASK)
def mask() -> Iterator[str]:
    x = vector("x")
    yield broken([x], x[x > 0][:, None] * x)
    yield broken([x], pt.nonzero(x > 0)[0])
    found = whole([x], pt.where(x > 0, x, 0), X)
    assert found.sum() == X[X > 0].sum()


@case(Remedy.MASKED_UPDATE)
def masked_update() -> Iterator[str]:
    m, columns, y, value = pt.dmatrix("m"), pt.lvector("columns"), vector("y"), pt.dmatrix("value")
    yield broken([m, columns, y], m[m[:, 0] > 0, columns].set(y))
    whole([m, value], pt.where(m > 0, value, m), np.outer(X, X), np.ones((len(X), len(X))))


@case(Remedy.INDICES_OUTSIDE)
def indices_outside() -> Iterator[str]:
    x, index = vector("x"), pt.lvector("index")
    yield broken([x], x[x > 0][:, None] * x)
    yield broken([x], pt.nonzero(x > 0)[0].reshape((-1, 2)))
    found = whole([x, index], x[index], X, np.nonzero(X > 0)[0])
    assert_same(found, X[X > 0])


@case(Remedy.UNIQUE_OUTSIDE)
def unique_outside() -> Iterator[str]:
    x, distinct = vector("x"), vector("distinct")
    yield broken([x], pt.unique(x) * 2)
    whole([distinct], distinct * 2, np.unique(X))


@case(Remedy.COUNT_ONLY)
def count_only() -> Iterator[str]:
    x = vector("x")
    yield broken([x], pt.unique(x) * 2)
    whole([x], pt.unique(x).shape[0], X)
    whole([x], pt.unique(x).sum(), X)


@case(Remedy.POSITIONS, length="x.shape[0]", taken="pt.take(x, positions, axis=0)")
def positions() -> Iterator[str]:
    x, counts, places = vector("x"), pt.lvector("counts"), pt.lvector("places")
    yield broken([x, counts], pt.repeat(x, counts) * 2)
    times = np.array([0, 2, 1, 3])
    found = whole([x, places], pt.take(x, places, axis=0) * 2, X, np.repeat(np.arange(4), times))
    assert_same(found, np.repeat(X, times) * 2)


@case(Remedy.POSITIONS, length="x.shape[1]", taken="pt.take(x, positions, axis=1)")
def positions_of_columns() -> Iterator[str]:
    x, counts, places = pt.dmatrix("x"), pt.lvector("counts"), pt.lvector("places")
    yield broken([x, counts], pt.repeat(x, counts, axis=1) * 2)
    given, times = np.arange(4.0).reshape(2, 2), np.array([1, 3])
    found = whole(
        [x, places], pt.take(x, places, axis=1) * 2, given, np.repeat(np.arange(2), times)
    )
    assert_same(found, np.repeat(given, times, axis=1) * 2)


@case(Remedy.EQUALLY_OFTEN)
def equally_often() -> Iterator[str]:
    x, counts = vector("x"), pt.lvector("counts")
    yield broken([x, counts], pt.repeat(x, counts) * 2)
    whole([x], pt.repeat(x, 3) * 2, X)


# -- a size that JAX has to know -------------------------------------------------------------------


@case(Remedy.SIZE_INPUT)
def size_input() -> Iterator[str]:
    x, n = vector("x"), pt.lscalar("n")
    yield broken([x], outer(x[: x.argmax()]))
    yield broken([x], pt.linspace(0, 1, pt.cast(x.sum(), "int64")))
    whole([x, n], outer(x[:n]), X, 3)
    whole([n], pt.linspace(0, 1, n), 3)


@case(Remedy.MASK_THE_REST)
def mask_the_rest() -> Iterator[str]:
    x = vector("x")
    yield broken([x], outer(x[: x.argmax()]))
    size = x.argmax()
    found = whole([x], outer(pt.where(pt.arange(x.shape[0]) < size, x, 0)), X)
    assert_same(found, np.asarray(np.outer(X[:3], X[:3]).sum()))


@case(Remedy.KNOWN_SIZE)
def known_size() -> Iterator[str]:
    x, n = vector("x"), pt.lscalar("n")
    yield broken([x], pt.arange(0.0, x.max(), 0.5) * 2)
    for inputs, count, values in (
        ([x], x.shape[0], [X]),
        ([n], n, [2]),
        ([], pt.as_tensor(3), []),
    ):
        f = pytensor.function(inputs, pt.arange(count) * 0.5 * 2, mode="JAXSELECTIVE")
        assert f.explain().graph_break_count == 0
        found = f(*values)
        assert_same(found, np.arange(float(len(found))))


@case(Remedy.MOVE_OUT)
def move_out() -> Iterator[str]:
    x = vector("x")
    positive = wrap_py([pt.dscalar], [pt.dscalar])(abs)

    def total(step: Any, sequence: Any) -> Any:
        start = pt.zeros((), "float64")
        options = {"outputs_info": [start], "return_updates": False}
        return pytensor.scan(step, sequences=[sequence], **options)[-1]

    yield broken([x], total(lambda e, s: s / 2 + positive(e * s), x))
    told = wrap_py([pt.dvector], [pt.dvector], infer_shape=lambda *args: args[-1])(np.abs)
    f = pytensor.function([x], total(lambda e, s: s / 2 + e, told(x)), mode="JAXSELECTIVE")
    assert "inner graph" not in str(f.explain())
    f(X)


@case(Remedy.SAME_SHAPES)
def same_shapes() -> Iterator[str]:
    x = vector("x")
    condition = pt.gt(x.sum(), 0)
    yield broken([x], pytensor.ifelse(condition, x, x[1:]) * 2, (X,))
    whole([x], pytensor.ifelse(condition, x, -x) * 2, X)


# -- a JAX implementation that fails ---------------------------------------------------------------


class Needy(Down):
    """Its JAX implementation wants to see the value of a vector."""

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] * inputs[1]

    def make_node(self, x: Any, n: Any) -> Apply:
        inputs = [pt.as_tensor_variable(x), pt.as_tensor_variable(n)]
        return Apply(self, inputs, [pt.dvector()])


def needy(rule: Any) -> Any:
    class Other(Needy):
        pass

    jax_funcify.register(Other, lambda op, **_: rule)
    return Other


def refuse(x: Any, n: Any) -> Any:
    if isinstance(n, jax.core.Tracer):
        raise ValueError("n must be concrete")
    return x * n


@case(Remedy.CORRECT_RULE, op="Other")
def correct_rule() -> Iterator[str]:
    x, n = vector("x"), pt.lscalar("n")
    kind = needy(refuse)
    yield broken([x, n], kind()(x, n) + 1, (X, 2))
    jax_funcify.register(kind, lambda op, **_: lambda x, n: x * n)
    whole([x, n], kind()(x, n) + 1, X, 2)


@case(Remedy.STATIC_INPUTS)
def static_inputs() -> Iterator[str]:
    x, n = vector("x"), pt.lscalar("n")
    kind = needy(refuse)
    yield broken([x, n], kind()(x, n) + 1, (X, 2))
    pytensor_jaxlink.static_inputs.register(kind, lambda op, node: (1,))
    whole([x, n], kind()(x, n) + 1, X, 2)


# -- callbacks -------------------------------------------------------------------------------------


def promising(function: Any, kind: Any = pt.dvector) -> Any:
    return wrap_py([kind], [kind], infer_shape=lambda *args: args[-1])(function)


@case(Remedy.KEEP_PROMISE)
def keep_promise() -> Iterator[str]:
    x = vector("x")
    f = pytensor.function([x], promising(lambda v: v[:-1])(x), mode=JAXLinker(**CALLBACK))
    yield error_of(lambda: f(X))
    shorter = wrap_py([pt.dvector], [pt.dvector], lambda *args: [(args[-1][0][0] - 1,)])
    whole([x], shorter(lambda v: v[:-1])(x), X, **CALLBACK)


@case(Remedy.SPLIT)
def split_host_ops() -> Iterator[str]:
    x = vector("x")
    output = promising(lambda v: v[:-1])(x)
    f = pytensor.function([x], output, mode=JAXLinker(**CALLBACK))
    yield error_of(lambda: f(X))
    assert_same(pytensor.function([x], output, mode=JAXLinker(host_ops="split"))(X), X[:-1])


class Square(Down):
    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] ** 2

    def infer_shape(self, *arguments: Any) -> Any:
        return arguments[-1]


@case(Remedy.HOLD_CONSTANT)
def hold_constant() -> Iterator[str]:
    order, x = pt.dscalar("order"), pt.dscalar("x")
    fn = jaxify([order, x], pt.jv(order, x))
    yield error_of(lambda: jax.grad(fn, argnums=0)(1.5, 2.0))
    assert np.isfinite(jax.grad(fn, argnums=1)(1.5, 2.0))


@case(Remedy.PULLBACK_METHOD, op="Square")
def pullback_method() -> Iterator[str]:
    class Smooth(Square):
        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
            return [2 * inputs[0] * cotangents[0]]

    x = vector("x")
    fn = jaxify([x], Square()(x).sum(), host_ops="callback")
    yield error_of(lambda: jax.grad(fn)(X))
    assert_same(jax.grad(jaxify([x], Smooth()(x).sum(), host_ops="callback"))(X), 2 * X)


@case(Remedy.PULLBACK_AROUND, op="square")
def pullback_around() -> Iterator[str]:
    x = vector("x")
    square = promising(np.square)
    fn = jaxify([x], square(x).sum(), host_ops="callback")
    yield error_of(lambda: jax.grad(fn)(X))
    inner = vector()
    smooth = OpFromGraph(
        [inner],
        [square(inner)],
        pullback=lambda inputs, outputs, cotangents: [2 * inputs[0] * cotangents[0]],
    )
    assert_same(jax.grad(jaxify([x], smooth(x).sum(), host_ops="callback"))(X), 2 * X)


@case(Remedy.REAL)
def real() -> Iterator[str]:
    z, x = pt.zvector("z"), vector("x")
    fn = jaxify([z], pt.real(promising(np.exp, pt.zvector)(z)).sum(), host_ops="callback")
    yield error_of(lambda: jax.grad(fn)(X + 0j))

    class Exp(Square):
        def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
            output_storage[0][0] = np.exp(inputs[0])

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
            return [outputs[0] * cotangents[0]]

    assert_same(jax.grad(jaxify([x], Exp()(x).sum(), host_ops="callback"))(X), np.exp(X))


@case(Remedy.WHOLE_ARRAY)
def whole_array() -> Iterator[str]:
    x, inner = vector("x"), vector()
    op = OpFromGraph([inner], [inner**2], pullback=lambda _, __, given: [3 * given[0]])
    selected = op(x[x > 0]).sum()
    yield error_of(lambda: jax.grad(jaxify([x], selected))(X))
    expected = np.where(X > 0, 3.0, 0.0)
    assert_same(jax.grad(jaxify([x], op(x)[x > 0].sum()))(X), expected)
    assert_same(jaxify([x], pytensor.grad(selected, x))(X), expected)


# -- recompilation ---------------------------------------------------------------------------------


def recompiled(calls: Any, output: Any = None, **options: Any) -> str:
    """The warnings of calls with arrays and sizes."""
    x, n = vector("x"), pt.lscalar("n")
    output = (lambda x, n: (x[:n] * 2).sum()) if output is None else output
    mode = JAXLinker(**{"recompile_limit": 2, **options})
    f = pytensor.function([x, n], output(x, n), mode=mode, on_unused_input="ignore")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in calls:
            f(*call)
    return "\n".join(str(each.message) for each in caught)


LENGTHS = [(np.ones(length), 1) for length in (2, 3, 4, 5)]
SIZES = [(X, size) for size in (1, 2, 3, 4)]


def prefix(x: Any, n: Any) -> Any:
    return x[n::-2] * 2  # a slice with such a step stays static


@case(Remedy.PAD)
def pad() -> Iterator[str]:
    def largest(x: Any, n: Any) -> Any:
        return pt.linalg.eigvalsh(pt.outer(x, x)).max() + n

    yield recompiled(LENGTHS, largest)

    def of_valid(x: Any, n: Any) -> Any:
        return largest(pt.where(pt.arange(x.shape[0]) < n, x, 0), n)

    padded = [(np.concatenate([x, np.zeros(8 - len(x))]), len(x)) for x, _ in LENGTHS]
    assert not recompiled(padded, of_valid)


@case(Remedy.FEWER_SIZES)
def fewer_sizes() -> Iterator[str]:
    yield recompiled(SIZES, prefix)
    assert not recompiled(SIZES[:2] * 2, prefix)


@case(Remedy.RAISE_LIMIT)
def raise_limit() -> Iterator[str]:
    yield recompiled(SIZES, prefix)
    assert not recompiled(SIZES, prefix, recompile_limit=4)


# -- under the user's own transformations ----------------------------------------------------------


@case(Remedy.STATIC_ARGUMENT)
def static_argument() -> Iterator[str]:
    x, n = vector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], x[:n] * 2, mode="JAXSELECTIVE")
    yield error_of(lambda: jax.jit(f.jax_fn)(X, 2))
    assert_same(jax.jit(f.jax_fn, static_argnums=f.static_argnums)(X, 2), [X[:2] * 2])


@case(Remedy.STATIC_ARGUMENT_OF_PURE)
def static_argument_of_pure() -> Iterator[str]:
    x, n = vector("x"), pt.lscalar("n")
    fn = jaxify([x, n], x[:n] * 2)
    yield error_of(lambda: jax.jit(fn)(X, 2))
    assert_same(jax.jit(fn, static_argnums=fn.static_argnums)(X, 2), X[:2] * 2)


@case(Remedy.STATE_AS_ARGUMENT)
def state_as_argument() -> Iterator[str]:
    x, total = pt.dscalar("x"), pytensor.shared(0.0)
    updates = {total: total + x}
    f = pytensor.function([x], total * 2, updates=updates, mode="JAXSELECTIVE")
    yield error_of(lambda: jax.jit(lambda value: f(value))(1.0))
    fn = jaxify([x], total * 2, updates=updates)
    _, state = jax.jit(fn)(1.0, *fn.initial_state())
    fn.store(state)
    assert_same(jax.jit(f.jax_fn)(2.0, total.get_value()), [np.array(2.0), np.array(3.0)])


@case(Remedy.BIND_MATRIX)
def bind_matrix() -> Iterator[str]:
    a, x = sparse.csr_matrix("a", dtype="float64"), vector("x")
    fn = jaxify([a, x], sparse.dense_from_sparse(a) @ x)
    yield error_of(lambda: jax.jit(fn)(MATRIX, X))
    assert_same(jax.jit(partial(fn, MATRIX))(X), MATRIX @ X)


@case(Remedy.RETURN_ARRAYS_OF_MATRIX)
def return_arrays_of_matrix() -> Iterator[str]:
    a, x = sparse.csr_matrix("a", dtype="float64"), vector("x")
    scaled = sparse.col_scale(a, x)
    yield error_of(lambda: jax.jit(partial(jaxify([a, x], scaled), MATRIX))(X))
    arrays = [*sparse.csm_properties(scaled), sparse.dense_from_sparse(scaled)]
    data, indices, *_, dense = jax.jit(partial(jaxify([a, x], arrays), MATRIX))(X)
    assert_same(data, MATRIX.data * X[indices])
    assert_same(dense, MATRIX.toarray() * X)


@case(Remedy.SIZES_APART)
def sizes_apart() -> Iterator[str]:
    x, n = vector("x"), pt.lscalar("n")
    fn = jaxify([{"x": x, "n": n}], x[:n] * 2)
    yield error_of(lambda: fn.static_argnums)
    fn = jaxify([{"x": x}, n], x[:n] * 2)
    assert_same(jax.jit(fn, static_argnums=fn.static_argnums)({"x": X}, 2), X[:2] * 2)


@case(Remedy.ONE_VALUE)
def one_value() -> Iterator[str]:
    x = vector("x")
    fn = jaxify([{"one": x, "other": x}], x * 2)
    yield error_of(lambda: fn({"one": X, "other": X + 1}))
    assert_same(fn({"one": X, "other": X}), X * 2)


@case(Remedy.SIZES_IN_TUPLES)
def sizes_in_tuples() -> Iterator[str]:
    x, m, n = vector("x"), pt.lscalar("m"), pt.lscalar("n")
    fn = jaxify([x, [m, n]], x[m:n] * 2)
    yield error_of(lambda: fn.static_argnums)
    fn = jaxify([x, (m, n)], x[m:n] * 2)
    assert_same(jax.jit(fn, static_argnums=fn.static_argnums)(X, (1, 3)), X[1:3] * 2)


# -- memory and devices ----------------------------------------------------------------------------


def donating(**options: Any) -> Any:
    x = vector("x")
    return pytensor.function([x], x * 2, mode=JAXLinker(**options))


def large() -> Any:
    return jax.device_put(np.ones(1 << 18))


def twice(f: Any, value: Any) -> None:
    f(value)
    f(value)


@case(Remedy.PASS_COPY)
def pass_copy() -> Iterator[str]:
    f = donating(donate="all")
    yield error_of(lambda: twice(f, large()))
    value = large()
    f(jnp.copy(value))
    f(value)


@case(Remedy.DO_NOT_DONATE)
def do_not_donate() -> Iterator[str]:
    yield error_of(lambda: twice(donating(donate="all"), large()))
    twice(donating(donate="updates"), large())
    x = vector("x")
    twice(pytensor.function([In(x)], x * 2, mode=JAXLinker(donate="updates")), large())


TWO_DEVICES = """
import jax, numpy as np, pytensor, pytensor.tensor as pt, pytensor_jaxlink
from jax.sharding import SingleDeviceSharding
one, other = (SingleDeviceSharding(device) for device in jax.devices()[:2])
x, y = pt.dvectors("x", "y")
f = pytensor.function([x, y], x + y, mode="JAXSELECTIVE")
here, there = jax.device_put(np.ones(3), one), jax.device_put(np.ones(3), other)
try:
    f(here, there)
except Exception as error:
    print(*error.__notes__)
np.testing.assert_array_equal(f(here, jax.device_put(there, one)), 2 * np.ones(3))
np.testing.assert_array_equal(f(here, np.ones(3)), 2 * np.ones(3))
"""


@case(Remedy.SAME_DEVICES)
@case(Remedy.NUMPY_ARRAYS)
def two_devices() -> Iterator[str]:
    process = on_two_devices()
    yield process.stdout
    assert process.returncode == 0, process.stderr


@cache
def on_two_devices() -> subprocess.CompletedProcess[str]:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PYTENSOR_FLAGS": "cxx="}
    return subprocess.run(
        [sys.executable, "-c", TWO_DEVICES],
        env={**os.environ, **flags, "JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def on_mesh(kind: AxisType) -> Any:
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(kind,))
    return jax.device_put(X, NamedSharding(mesh, PartitionSpec("rows")))


@case(Remedy.AUTO_MESH)
def auto_mesh() -> Iterator[str]:
    f = product()
    yield error_of(lambda: jax.jit(f.jax_fn)(on_mesh(AxisType.Explicit)))
    assert_same(jax.jit(f.jax_fn)(on_mesh(AxisType.Auto)), f(X))


@case(Remedy.CALL_ITSELF)
def call_itself() -> Iterator[str]:
    f = product()
    yield error_of(lambda: jax.jit(f.jax_fn)(on_mesh(AxisType.Explicit)))
    assert_same(f(on_mesh(AxisType.Explicit)), f(X))


@case(Remedy.WRITE_PLATFORM)
def write_platform() -> Iterator[str]:
    x = vector("x")
    wrong = JAXLinker(device="cpu:99")
    yield error_of(lambda: pytensor.function([x], x * 2, mode=wrong)(X))
    for device in ("cpu", "cpu:0"):
        whole([x], x * 2, X, device=device)


@case(Remedy.SHARDED_ARGUMENTS)
def sharded_arguments() -> Iterator[str]:
    x = vector("x")
    yield error_of(lambda: JAXLinker(device="cpu:0,cpu:1"))
    f = pytensor.function([x], x * 2, mode="JAXSELECTIVE")
    assert_same(f(on_mesh(AxisType.Auto)), X * 2)


@case(Remedy.GIVE_ARRAYS)
def give_arrays() -> Iterator[str]:
    x = vector("x")
    f = pytensor.function([x], pt.exp(down(pt.exp(x))), mode="JAXSELECTIVE")
    yield error_of(lambda: f.compile(jax.ShapeDtypeStruct((4,), "float64")))
    f.compile(X)


# -- the table -------------------------------------------------------------------------------------

ALL = [(r, function, names) for r, found in CASES.items() for function, names in found]


@pytest.mark.parametrize(
    ("remedy", "function", "names"), ALL, ids=[f"{r.name}-{c.__name__}" for r, c, _ in ALL]
)
def test_it_is_printed_and_it_works(remedy: Remedy, function: Case, names: Any) -> None:
    printed = [*function()]
    assert printed
    for text in printed:
        assert remedy.text(**names) in text
        assert re.search(r"\[PJL\d{3}\]", text), "an advice comes with the code of its page"


def test_every_remedy_has_a_case() -> None:
    assert {*CASES} == {*Remedy}


# What an advice looks like where it stands in a string of its own.
_ADVICE = re.compile(
    r"(^|[.;:,] |, or )(use|give|pass|register|install|make|keep|raise|report|compute|move|declare|"
    r"correct|wrap|call|put|pad|write|define|say|copy|(save|load) (the|it)) ",
    re.IGNORECASE,
)
_PRINTED = ("Obstacle", "UnknownShapes", "warn", "warn_explicit", "add_note")


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of errors, warnings, notes and obstacles."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if isinstance(node, ast.Raise) or name in _PRINTED:
            for part in ast.walk(call):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def test_remedies_stand_in_one_table() -> None:
    package = Path(pytensor_jaxlink.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}: {text}"
        for path in sorted(package.rglob("*.py"))
        for line, text in _texts(ast.parse(path.read_text()))
        if _ADVICE.search(text)
    ]
    assert found == []


def test_another_function_is_not_the_first_one() -> None:
    """A JAX implementation of the class of wrapped functions would be one of all of them."""
    x = vector("x")
    for function in (np.sort, np.cumsum):
        text = str(pytensor.function([x], promising(function)(x), mode="JAXSELECTIVE").explain())
        assert "FromFunctionOp" not in text


def test_nothing_is_advised_where_nothing_is_known() -> None:
    """The linker does not look for the JAX implementation of an Op on lists."""
    x = vector("x")
    [cut] = pytensor.function([x], make_list([x, x]), mode="JAXSELECTIVE").explain().breaks
    assert cut.remedies == ()
    assert "remedy" not in dict(cut.lines)


def test_either() -> None:
    assert either("one", "", "two", "one") == "one; or two"
    assert split("one; or two") == ("one", "two")
    assert split(either()) == ()


def product() -> Any:
    x = vector("x")
    return pytensor.function([x], pt.dot(x, pt.exp(x)), mode="JAXSELECTIVE")
