"""Elementwise Ops and reductions of edge values equal those of the Python linker."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scalar import basic, math
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.math import ProdWithoutZeros

import pytensor_jaxlink as pjl
from tests.edges import elementwise
from tests.edges.compare import outcome, same
from tests.edges.elementwise import REFERENCE, Case
from tests.edges.known import OLD, known, rows
from tests.helpers import compile_both
from tests.ops.table import installed

pytestmark = pytest.mark.filterwarnings("ignore")

# The other combinations run by ``python -m tests.edges elementwise``.
_PAIRS = [
    *((dtype, dtype) for dtype in ("bool", "uint8", "int8", "float32", "float64", "complex64")),
    ("int8", "uint8"), ("float32", "int8"), ("float16", "float64"),
]  # fmt: skip
_ORDERS = (basic.eq, basic.neq, basic.lt, basic.le, basic.gt, basic.ge)
_SLOW_IN = [("float64",), ("complex64",), *((kind,) * 2 for kind in ("uint8", "float64"))]
CASES = [
    case
    for case in (
        *elementwise.cases(1, [("bool",), ("float32",), ("float64",), ("complex64",)]),
        *elementwise.cases(2, _PAIRS),
        *elementwise.cases(3, [("float64",) * 3, ("int8",) * 3]),
        *elementwise.cases(4, [("float64",) * 4]),
        *elementwise.cases(2, [("float32", "float32")], scalars=True),
        Case(("uint64", "int64"), _ORDERS),
        Case(("int8", "uint64"), _ORDERS),
    )
    if not elementwise.SLOW & {type(op).__name__ for op in case.ops}
    or (case.dtypes in _SLOW_IN or case.dtypes[0] == "float64")
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_edge_values(case: Case) -> None:
    assert elementwise.differences(case) == []


@pytest.mark.parametrize("dtype", ["float32"])
def test_reductions(dtype: str) -> None:
    assert elementwise.differences_of_reductions(dtype) == []


# Classes that only stand for others, or that PyTensor makes itself: a gradient of `hyp2f1`.
_NOT_APPLIED = {"ComplexFromPolar", "ScalarInnerGraphOp", "Grad2F1Loop"}


def test_every_scalar_op_is_covered() -> None:
    covered = {type(op).__name__ for case in CASES for op in case.ops}
    covered |= {kind.__name__ for kind in elementwise.covered()} & {"MulWithoutZeros"}
    wanted = {kind.__name__ for kind in installed().values() if issubclass(kind, ScalarOp)}
    assert wanted - covered <= _NOT_APPLIED


_BASES = {"CAReduce", "FixedOpCAReduce", "MaxAndMinCAReduce", "NonZeroDimsCAReduce"}
_NO_CLASS_OF_THEIR_OWN = {"Argmax", "ArgSortOp", "CumOp", "LogSoftmax", "Softmax", "SortOp"}


def test_every_reduction_is_covered() -> None:
    covered = {kind.__name__ for kind in elementwise.covered()}
    wanted = {kind.__name__ for kind in installed().values() if issubclass(kind, CAReduce)}
    assert (wanted - _BASES) | _NO_CLASS_OF_THEIR_OWN <= covered


@pytest.mark.skipif(not hasattr(basic, "ComplexFromPolar"), reason="PyTensor has no such Op")
@pytest.mark.parametrize("radius", [0.0, 2.0, -1.0, np.nan])
def test_polar(radius: float) -> None:
    x, y = pt.dvectors("xy")
    f, reference = compile_both([x, y], pt.complex_from_polar(x, y))
    arguments = np.array([1.0, radius]), np.array([0.5, 3.0])
    assert same(outcome(f, *arguments), outcome(reference, *arguments))


BY_ZERO = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "**": lambda x, y: x**y,
    "maximum": pt.maximum,
    "minimum": pt.minimum,
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_in_a_loop(dtype: str) -> None:
    x, y = (pt.TensorType(dtype, shape=(None,))() for _ in range(2))
    outputs = pytensor.scan(
        lambda a, b: [function(a, b) for function in BY_ZERO.values()],
        sequences=[x, y],
        return_updates=False,
    )
    found, expected = (
        pytensor.function([x, y], outputs, mode=mode) for mode in ("JAXSELECTIVE", REFERENCE)
    )
    one = np.array([0, -1, 3, 3, 100, 0, 7], "int64").astype(dtype)
    other = np.array([0, 0, 0, 2, 9, 1, 128 if dtype != "int8" else 100], "int64").astype(dtype)
    for given, wanted in zip(found(one, other), expected(one, other), strict=True):
        assert same(np.asarray(given), np.asarray(wanted))


@pytest.mark.parametrize("n", [6, 7, 0, -3])
def test_as_a_size_on_the_host(n: int) -> None:
    x, k = pt.dvector("x"), pt.lscalar("k")
    f, reference = compile_both([x, k], [x[: k // (k - 6)], x[: k % (k - 7)], x.sum() * (k // 0)])
    for given, wanted in zip(f(np.arange(9.0), n), reference(np.arange(9.0), n), strict=True):
        assert same(np.asarray(given), wanted)


@pytest.mark.parametrize("exponent", [-1, 3, 64, 127])
def test_powers_of_integers(exponent: int) -> None:
    x, y = pt.lvector("x"), pt.lvector("y")
    f, reference = compile_both([x, y], x**y)
    for base in (0, 1, -1, 2, 3, -7):
        arguments = np.array([base, 5]), np.array([exponent, 2])
        assert same(outcome(f, *arguments), outcome(reference, *arguments))


FORMULAS: dict[str, tuple[Any, tuple[float, ...]]] = {
    "mod": (lambda x: x % 2.0, (3.0, -3.0, 0.0, 2.5)),
    "mod_of": (lambda x: 7.0 % x, (2.0, -2.0, 1.5)),
    "int_div": (lambda x: (x // 2.0) * x, (3.0, -3.0, 0.0, 2.5)),
    "sign": (lambda x: pt.sgn(x) * x, (-0.0, 2.0, -1.0)),
    "maximum": (lambda x: pt.maximum(x, 1 - x), (0.0, 2.0)),
    "minimum": (lambda x: pt.minimum(x, 1 - x), (0.0, 2.0)),
    "i0": (pt.i0, (0.0, 1.0, -2.0)),
    "i1": (pt.i1, (1.0, -2.0)),
    "gammaln": (pt.gammaln, (0.5, 3.0, -1.5)),
    "psi": (pt.psi, (0.5, 3.0)),
    "erfinv": (pt.erfinv, (0.0, 0.5, -0.5)),
    "gammainc": (lambda x: pt.gammainc(2.0, x), (0.5, 3.0)),
    "gammaincc": (lambda x: pt.gammaincc(pt.constant(1e4, dtype="float64"), x), (9.9e3, 1.01e4)),
    "owens_t": (lambda x: pt.owens_t(x, 0.5), (0.5, 3.0)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_derivatives_by_jax_and_by_pytensor(name: str) -> None:
    formula, places = FORMULAS[name]
    x = pt.dscalar("x")
    by_pytensor = pytensor.function([x], pt.grad(formula(x), x), mode=REFERENCE)
    by_jax = jax.grad(pjl.jaxify([x], formula(x)))
    for place in places:
        np.testing.assert_allclose(by_jax(place), by_pytensor(place), rtol=1e-9, err_msg=str(place))


def scalars(*values: Any) -> tuple[Any, ...]:
    return tuple(np.array([value]) for value in values)


# For each row of the table that names a scalar Op or a reduction, arguments that need it.
NEEDED: list[tuple[Any, tuple[Any, ...]]] = [
    (math.gamma, scalars(127.0)),
    (math.psi, scalars(1.5)),
    (math.softplus, scalars(True)),
    (basic.sqrt, scalars(complex(-1, -0.0))),
    (basic.true_div, scalars(-1.5 + 2j, complex(-0.0, 0))),
    (basic.pow, scalars(complex(np.inf, 1), -1.5 + 2j)),
    (basic.pow, (np.array(-0.0), np.array(0.5))),
    (math.gammaincc, scalars(0.5, 1.0)),
    (math.betainc, scalars(1e6, 1e6, 0.5)),
    (math.betainc, scalars(1.0, np.finfo("float64").max, 0.5)),
    (math.owens_t, scalars(30.0, 0.5)),
    (ProdWithoutZeros(), (np.array([-0.0]),)),
]

if OLD:
    NEEDED += [
        (math.j0, scalars(2.0**31)),
        (math.gammaln, (np.array([1.0141729], "float32"),)),
        (math.log1mexp, scalars(-0j)),
    ]
else:
    NEEDED += [
        (basic.convert_to_uint32, (np.full(64, np.nan),)),
        (math.erfcinv, scalars(np.finfo("float64").tiny)),
    ]
if hasattr(math, "ndtri_exp"):  # PyTensor 3.0 has none
    NEEDED.append((math.ndtri_exp, scalars(-65537.0)))


@pytest.mark.cpu("denormal numbers are zero there")
def test_every_row_is_needed() -> None:
    used, idle = [], []
    for make, arguments in NEEDED:
        variables = [pt.TensorType(str(v.dtype), shape=(None,) * v.ndim)() for v in arguments]
        output = Elemwise(make)(*variables) if isinstance(make, ScalarOp) else make(*variables)
        name = type(make if isinstance(make, ScalarOp) else output.owner.op).__name__
        f, reference = (
            pytensor.function(variables, output, mode=mode) for mode in ("JAXSELECTIVE", REFERENCE)
        )
        found, expected = np.asarray(f(*arguments)), np.asarray(reference(*arguments))
        inputs = arguments
        if found.ndim:
            found, expected, inputs = found[0], expected[0], tuple(each[0] for each in arguments)
        idle += [make] if same(found, expected) else []
        used.append(known(name, inputs, expected, found))
    names = {kind.__name__ for kind in elementwise.covered()}
    names -= {"Cast", "Erfcinv"} if OLD else set()
    names -= {"BetaIncInv", "GammaIncCInv", "GammaIncInv", "Hyp2F1", "Jv"}  # tests/lowering
    unused = [row for row in rows() if names & set(row.op.split(", ")) and row not in used]
    assert idle == []
    assert [row for row in unused if row.is_of_here] == []
