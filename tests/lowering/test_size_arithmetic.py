"""The table of size arithmetic: as `Op.perform`, and the same with symbolic dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.scalar as ps
import pytensor.tensor as pt
import pytest
from jax import export
from pytensor.graph.basic import Apply, Constant
from pytensor.tensor.basic import MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor

from pytensor_jaxlink.lowering.coercion import as_static
from pytensor_jaxlink.lowering.size_arithmetic import describe_size
from pytensor_jaxlink.size_functions import array_of_sizes, as_integer, is_open, size_function

DTYPES = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float32", "float64")
SCALAR_OPS = {
    "add": ps.add,
    "mul": ps.mul,
    "sub": ps.sub,
    "int_div": ps.int_div,
    "true_div": ps.true_div,
    "mod": ps.mod,
    "neg": ps.neg,
    "abs": ps.abs,
    "minimum": ps.scalar_minimum,
    "maximum": ps.scalar_maximum,
    "eq": ps.eq,
    "neq": ps.neq,
    "lt": ps.lt,
    "le": ps.le,
    "gt": ps.gt,
    "ge": ps.ge,
    "and_": ps.and_,
    "or_": ps.or_,
    "floor": ps.floor,
    "ceil": ps.ceil,
    "identity": ps.identity,
    **{f"cast to {dtype}": getattr(ps, f"convert_to_{dtype}") for dtype in DTYPES},
}
UNARY = ("neg", "abs", "floor", "ceil", "identity")


def edges(dtype: str) -> list[Any]:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return [kind.type(v) for v in (0, -0.0, 2.5, -3, 300, 1e30, np.nan, np.inf)]
    if kind.kind == "b":
        return [np.False_, np.True_]
    limits = np.iinfo(kind)
    return [kind.type(v) for v in (0, 1, 2, 7, limits.min, limits.max)]


def performed(node: Apply, values: Sequence[Any]) -> Any:
    op: Any = node.op
    cells: list[Any] = [[None]]
    op.prepare_node(node, None, None, "py")
    op.perform(
        node,
        [
            np.asarray(v, getattr(i.type, "dtype", None))
            for v, i in zip(values, node.inputs, strict=True)
        ],
        cells,
    )
    return cells[0][0]


def outcome(compute: Callable[[], Any]) -> Any:
    try:
        return np.asarray(compute())
    except Exception as error:
        return type(error)


def assert_performed(node: Apply, values: Sequence[Any]) -> None:
    function = size_function(describe_size(node))
    given = [np.asarray(value) for value in values]
    with np.errstate(all="ignore"):
        expected = outcome(lambda: performed(node, given))
    found = outcome(lambda: function(*given)[0])
    if isinstance(expected, type):
        assert found is expected, (node, values)
        return
    assert isinstance(found, np.ndarray), (node, values, found)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (node, values)
    assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"), (node, values)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCALAR_OPS)
def test_elementwise(name: str) -> None:
    count = 1 if name in UNARY or name.startswith("cast") else 2
    op = Elemwise(SCALAR_OPS[name])
    made = 0
    for dtypes in product(DTYPES, repeat=count):
        try:
            node: Any = op.make_node(*(pt.scalar(dtype=dtype) for dtype in dtypes))
        except (TypeError, NotImplementedError):
            continue  # PyTensor has no such operation
        if describe_size(node) is None:
            continue
        made += 1
        for values in product(*map(edges, dtypes)):
            assert_performed(node, values)
    assert made


@pytest.mark.filterwarnings("ignore")
def test_of_many_and_of_vectors() -> None:
    n, v, w = pt.lscalar(), pt.lvector(), pt.lvector()
    largest = np.iinfo("int64").max
    for op in (Elemwise(ps.add), Elemwise(ps.mul)):
        node: Any = op.make_node(n, n, n)
        for values in product((0, 3, -7, largest), repeat=3):
            assert_performed(node, list(map(np.int64, values)))
        node = op.make_node(v, w)
        for lengths in ((3, 3), (0, 0), (1, 3), (2, 3)):
            assert_performed(node, [np.arange(length) for length in lengths])
        node = op.make_node(v, pt.constant([5]))
        for length in (0, 1, 3):
            assert_performed(node, [np.arange(length), np.array([5])])
    for condition in (True, False):
        assert_performed(pt.switch(pt.bscalar(), n, 3).owner, [condition, np.int64(4), np.int64(3)])


TAKEN = (0, -1, 2, -4, slice(None), slice(1, None), slice(None, -1), slice(None, None, -1))


@pytest.mark.filterwarnings("ignore")
def test_vectors() -> None:
    n, v = pt.lscalar(), pt.lvector()
    five = np.arange(5)
    assert_performed(MakeVector("int64")(n, n).owner, [np.int64(2), np.int64(3)])
    assert_performed(MakeVector("int32")(*(2 * [pt.iscalar()])).owner, [np.int32(2), np.int32(-3)])
    assert_performed(pt.scalar_from_tensor(n).owner, [np.int64(2)])
    assert_performed(pt.tensor_from_scalar(ps.int64()).owner, [np.int64(2)])
    for index in TAKEN:
        node: Any = v[index].owner
        if isinstance(node.op, Subtensor):
            for array in (five, five[:3], five[:1]):
                rest = [np.asarray(constant.data) for constant in node.inputs[1:]]
                assert_performed(node, [array, *rest])
    for reduced in (v.sum(), v.prod(), pt.vector(dtype="int8").sum()):
        for array in (five, five[:0]):
            assert_performed(reduced.owner, [array.astype(reduced.owner.inputs[0].type.dtype)])
    for order in (("x", 0), (0, "x")):
        assert_performed(DimShuffle(input_ndim=1, new_order=order)(v).owner, [five])
    node = pt.join(0, v, pt.ivector()).owner
    values = [five, five[:2]]
    lead = [np.asarray(i.data) for i in node.inputs if isinstance(i, Constant)]
    inputs = [i for i in node.inputs if not isinstance(i, Constant)]
    kinds = [i.type.dtype for i in inputs]
    assert_performed(node, [*lead, *(a.astype(k) for a, k in zip(values, kinds, strict=True))])


N, M = export.symbolic_shape("n, m")
OPEN: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda n, m: n + m + 3 - 2 * n,
    "quotients": lambda n, m: (n + 1) // 2 + m % 3,
    "extremes": lambda n, m: pt.minimum(n, 2 * m) + pt.maximum(m - 3, 0),
    "a choice that is decided": lambda n, m: pt.switch(n > 0, n, m),
    "entries of a vector": lambda n, m: pt.stack([n, 2, m])[::-1][0],
    "a product": lambda n, m: pt.stack([n, 2, m]).prod(),
    "a sum of parts": lambda n, m: pt.concatenate([pt.stack([n, m]), pt.stack([m, n])])[1:].sum(),
    "differences that are known": lambda n, m: n - n + 4,
}


def evaluated(output: Any, values: dict[Any, Any]) -> Any:
    """An expression of sizes by the table alone."""
    if output in values:
        return values[output]
    if isinstance(output, Constant):
        return np.asarray(output.data)
    inputs = [evaluated(variable, values) for variable in output.owner.inputs]
    return size_function(describe_size(output.owner))(*inputs)[0]


def in_code(dimension: Any, sizes: tuple[int, int]) -> Any:
    """What exported code computes for a symbolic dimension."""
    arrays = [jax.ShapeDtypeStruct((length,), "float32") for length in (N, M)]
    exported = export.export(jax.jit(lambda x, y: jnp.asarray(dimension)))(*arrays)
    return exported.call(*(np.zeros(size, "float32") for size in sizes))


@pytest.mark.parametrize("name", OPEN)
def test_open_sizes(name: str) -> None:
    n, m = pt.lscalar("n"), pt.lscalar("m")
    output = OPEN[name](n, m)
    found = evaluated(output, {n: array_of_sizes(N), m: array_of_sizes(M)})
    assert is_open(found) == ("known" not in name)

    for sizes in ((1, 5), (4, 2), (7, 9)):
        expected = evaluated(output, dict(zip((n, m), map(np.int64, sizes), strict=True)))
        dimension = as_integer(found)
        if is_open(dimension):
            dimension = in_code(dimension, sizes)
        assert dimension == expected


def test_what_is_no_size() -> None:
    n = pt.lscalar()
    for output in (pt.true_div(n, 2), pt.cast(n, "float64"), pt.cast(n, "int32"), pt.abs(n)):
        with pytest.raises(TypeError):
            evaluated(output, {n: array_of_sizes(N)})


def test_integers_of_all_64_bits_stay_integers() -> None:
    """NumPy makes reals of a list in which some are as large."""
    kind = pt.TensorType("uint64", (None,))
    for numbers in ((2**64 - 1, 0, 2**64 - 2), (2**64 - 1,), (0, 3), ()):
        found: Any = as_static(numbers, kind)
        assert found.dtype == "uint64"
        assert found.tolist() == list(numbers)
    with pytest.raises(TypeError):
        as_static((0.5, 2.0), kind)


def test_complex_numbers_are_no_sizes() -> None:
    x, real = pt.dvector("x"), pt.dscalar("real")
    number = pt.cast(real, "complex128")
    assert describe_size(number.owner) is None
    output = x[: pt.cast(pt.real(number), "int64")] * pt.unique(x).sum()
    f = pytensor.function([x, real], output, mode="JAXSELECTIVE")
    np.testing.assert_array_equal(f(np.array([1.0, 2.0]), 1.0), [3.0])


def test_a_list_of_numbers_is_no_size() -> None:
    a, b, c = pt.ivector("a"), pt.dscalar("b"), pt.dscalar("c")
    f = pytensor.function([a, b, c], pt.choose(a, [b, c]), mode="JAXSELECTIVE")
    np.testing.assert_array_equal(f(np.array([0, 1, 0], "int32"), 0.1, 0.2), [0.1, 0.2, 0.1])
