"""Every distribution with parameters on, inside and outside the border of its domain.

Draws differ from NumPy's, so samples are compared: dtype, shape, the kinds of values in them (NaN,
infinities, signs, zero), what is drawn with certainty, and the distribution by a two-sample test.
Exceptions are compared by class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytensor.tensor.random.basic as ptr
from pytensor.tensor.random.op import RandomVariable
from scipy import stats

from tests.edges.compare import outcome, quick
from tests.edges.known import known
from tests.helpers import PYTHON

COUNT = 200
ROWS = 32
LIMIT = 1e-5  # the seeds are fixed: a sampler that passes once passes always

ORDINARY: dict[str, tuple[float, ...]] = {
    "BernoulliRV": (0.3,),
    "BetaBinomialRV": (5, 2.0, 3.0),
    "BetaRV": (2.0, 3.0),
    "BinomialRV": (7, 0.3),
    "CauchyRV": (1.0, 2.0),
    "ExponentialRV": (2.0,),
    "GammaRV": (2.0, 3.0),
    "GenGammaRV": (2.0, 3.0, 1.5),
    "GeometricRV": (0.3,),
    "GumbelRV": (1.0, 2.0),
    "HalfCauchyRV": (1.0, 2.0),
    "HalfNormalRV": (1.0, 2.0),
    "HyperGeometricRV": (5, 6, 4),
    "IntegersRV": (2, 9),
    "InvGammaRV": (2.0, 3.0),
    "LaplaceRV": (1.0, 2.0),
    "LogNormalRV": (0.5, 1.0),
    "LogisticRV": (1.0, 2.0),
    "NegBinomialRV": (5.0, 0.6),
    "NormalRV": (1.0, 2.0),
    "ParetoRV": (2.0, 3.0),
    "PoissonRV": (3.0,),
    "StudentTRV": (3.0, 1.0, 2.0),
    "TriangularRV": (-1.0, 0.5, 2.0),
    "TruncExponentialRV": (2.0, 1.0, 3.0),
    "UniformRV": (1.0, 2.0),
    "VonMisesRV": (0.5, 2.0),
    "WaldRV": (1.0, 2.0),
    "WeibullRV": (1.7,),
}
"""Distributions of PyTensor with scalar parameters: ordinary ones, integers where counts are."""

ORDINARY_OF_PYMC: dict[str, tuple[float, ...]] = {
    "BetaClippedRV": (2.0, 3.0),
    "DiscreteUniformRV": (2, 9),
    "MoyalRV": (1.0, 2.0),
    "RiceRV": (2.0, 1.5),
    "SkewNormalRV": (1.0, 2.0, 3.0),
    "SkewStudentTRV": (2.0, 3.0, 1.0, 2.0),
    "TruncatedNormalRV": (0.5, 1.5, -1.0, 2.0),
    "WaldRV": (1.0, 2.0, 0.5),
}

FULL_ONLY = {
    # XLA takes longest to compile these, and each is made of draws that others test.
    "pytensor.BetaBinomialRV", "pytensor.GenGammaRV", "pytensor.InvGammaRV",
    "pytensor.NegBinomialRV", "pytensor.StudentTRV", "multinomial of none", "multinomial of -1",
}  # fmt: skip

HOST_ONLY = {
    # PyMC draws these by Python code of its own, which runs on the host as it is.
    "CARRV", "CustomDistRV", "FlatRV", "HalfFlatRV", "ICARRV", "MinibatchIndexRV",
    "PolyaGammaRV", "SimulatorRV", "StickBreakingWeightsRV",
}  # fmt: skip

REALS = (0.0, -0.0, 1e-300, 0.5, 1.0, 1 + 2e-16, -1.0, 1e10, 1e20, np.inf, -np.inf, np.nan)
INTEGERS = (0, 1, 2, -1, 10**9, 2**62, -(2**63))

VECTORS = (
    [0.2, 0.3, 0.5], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0],
    [0.1, 0.1, 0.2], [0.8, 0.8, 0.8], [-0.0, 0.5, 0.5], [-0.5, 1.5, 0.0], [np.nan, 1.0, 0.0],
    [np.inf, 1.0, 2.0], [np.inf, np.inf, 1.0], [1e-300, 1.0, 2.0], [1.0], [],
)  # fmt: skip
MATRICES = (
    [[1.0, 0.0], [0.0, 1.0]], [[1.0, 5.0], [0.5, 2.0]], [[0.0, 0.0], [0.0, 0.0]],
    [[1.0, 2.0], [2.0, 1.0]], [[np.nan, 0.0], [0.0, 1.0]], [[1.0, np.nan], [np.nan, 1.0]],
    [[1.0, np.nan], [0.0, 1.0]], [[np.inf, 0.0], [0.0, 1.0]],
)  # fmt: skip

Draw = Callable[..., Any]


def _shaped(draw: Draw) -> Draw:
    return lambda rng, *parameters: draw(*parameters, size=(COUNT,), rng=rng)


def _chosen(count: int, *, chances: bool) -> Draw:
    """Many choices of so many entries of 3."""

    def draw(rng: Any, *parameters: Any) -> Any:
        p = pt.broadcast_to(parameters[0], (COUNT, parameters[0].shape[0])) if chances else None
        op = ptr.ChoiceWithoutReplacement(
            signature=f"(a),{'(a),' if chances else ''}(1)->(s)", dtype="float64"
        )
        population = pt.broadcast_to(np.arange(3.0), (COUNT, 3))
        given = (population, *([p] if chances else []), np.array([count]))
        return op.make_node(rng, None, *given).outputs[1]

    return draw


OTHERS: dict[str, tuple[str, Draw, tuple[Any, ...]]] = {
    "categorical": ("pytensor.CategoricalRV", _shaped(pt.random.categorical), VECTORS),
    "multinomial": (
        "pytensor.MultinomialRV", _shaped(lambda p, **o: ptr.multinomial(5, p, **o)), VECTORS
    ),
    "multinomial of none": (
        "pytensor.MultinomialRV", _shaped(lambda p, **o: ptr.multinomial(0, p, **o)), VECTORS[:3]
    ),
    "multinomial of -1": (
        "pytensor.MultinomialRV", _shaped(lambda p, **o: ptr.multinomial(-1, p, **o)), VECTORS[:3]
    ),
    "dirichlet": ("pytensor.DirichletRV", _shaped(pt.random.dirichlet), VECTORS),
    **{
        f"normal by {method}": (
            "pytensor.MvNormalRV",
            _shaped(
                lambda c, m=method, **o: ptr.multivariate_normal(np.ones(2), c, method=m, **o)
            ),
            MATRICES,
        )
        for method in ("cholesky", "svd", "eigh")
    },
    **{
        f"choice of {count} with chances": (
            "pytensor.ChoiceWithoutReplacement", _chosen(count, chances=True), VECTORS
        )
        for count in (0, 1, 2, 3, 4, -1)
    },
    **{
        f"choice of {count}": (
            "pytensor.ChoiceWithoutReplacement", _chosen(count, chances=False), ([],)
        )
        for count in (0, 2, 3, 4, -1)
    },
    "permutation": (
        "pytensor.PermutationRV",
        lambda rng, x: ptr.permutation(x, rng=rng),
        ([1.0, 1.0], [], [2.0]),
    ),
}  # fmt: skip
"""Distributions with other parameters: the class, a graph of one array, and its values."""


def _matrix_normal(rows: Any, **options: Any) -> Any:
    return family()["pymc.MatrixNormalRV"]()(np.ones((2, 2)), rows, np.eye(2), **options)


def _interpolated(chances: Any, **options: Any) -> Any:
    x, density = np.arange(3.0), np.array([0.2, 0.6, 0.6])
    return family()["pymc.InterpolatedRV"]()(x, density, chances, **options)


if find_spec("pymc") is not None:
    OTHERS["matrix normal"] = ("pymc.MatrixNormalRV", _shaped(_matrix_normal), MATRICES)
    OTHERS["interpolated"] = (
        "pymc.InterpolatedRV",
        _shaped(_interpolated),
        ([0.0, 0.4, 1.0], [0.0, 1.0, 1.0], *VECTORS),
    )


def family() -> dict[str, type[RandomVariable]]:
    """The distributions of the installed packages, by package and class."""
    if find_spec("pymc") is not None:
        importlib.import_module("pymc")
    found, stack = {}, [RandomVariable]
    while stack:
        for kind in stack.pop().__subclasses__():
            stack.append(kind)
            package = kind.__module__.partition(".")[0]
            if package in ("pytensor", "pymc"):
                found[f"{package}.{kind.__name__}"] = kind
    return found


def scalar_cases() -> dict[str, tuple[float, ...]]:
    """The ordinary parameters of the installed distributions with scalar ones."""
    tables = {"pytensor": ORDINARY, "pymc": ORDINARY_OF_PYMC}
    installed = family()
    return {
        f"{package}.{name}": parameters
        for package, table in tables.items()
        for name, parameters in table.items()
        if f"{package}.{name}" in installed
    }


def _edges(value: float) -> tuple[float, ...]:
    return INTEGERS if isinstance(value, int) else REALS


def parameters_at_the_edge(ordinary: tuple[float, ...], *, pairs: bool) -> Iterator[Any]:
    """Ordinary parameters, with one of them, or two, at the edge."""
    yield ordinary
    for k, value in enumerate(ordinary):
        for edge in _edges(value):
            yield (*ordinary[:k], edge, *ordinary[k + 1 :])
    if pairs:
        for one, other in ((i, j) for j in range(len(ordinary)) for i in range(j)):
            for edges in product(_edges(ordinary[one]), _edges(ordinary[other])):
                changed = list(ordinary)
                changed[one], changed[other] = edges
                yield tuple(changed)


def compiled(
    inputs: list[Any], draw: Callable[[Any], Any], *, full: bool = True
) -> tuple[Any, Any]:
    """The function of a draw, here and by the Python linker."""
    out = draw(pytensor.shared(np.random.default_rng(3)))
    ours, reference = (
        pytensor.function(inputs, out, mode=mode, on_unused_input="ignore")
        for mode in ("JAXSELECTIVE" if full else quick(), PYTHON)
    )
    return ours, reference


def differences(name: str, *, full: bool = False) -> list[str]:
    """The differences of a distribution with scalar parameters."""
    cases = list(parameters_at_the_edge(scalar_cases()[name], pairs=full))
    found = _of_batches(name, cases, full=full)
    if full:
        found += _of_constants(name) + differences_of_sizes(name)
        found += differences_of_arrays(name, full=True)
    return found


def _of_batches(name: str, cases: list[tuple[float, ...]], *, full: bool) -> list[str]:
    """One function draws for many parameters at once, so that XLA compiles it once.

    Each call has the same number of rows.  A row for which Python raises is alone among ordinary
    ones.
    """
    ordinary, kind = scalar_cases()[name], family()[name]
    inputs = [_vector(value) for value in ordinary]
    size = (COUNT, inputs[0].shape[0])
    functions = compiled(inputs, lambda rng: kind()(*inputs, size=size, rng=rng), full=full)
    raises = [isinstance(outcome(functions[1], *_rows([each])), type) for each in cases]
    drawn = [each for each, bad in zip(cases, raises, strict=True) if not bad]
    calls = [drawn[start : start + ROWS] for start in range(0, len(drawn), ROWS)]
    calls += [[each] for each, bad in zip(cases, raises, strict=True) if bad]
    return [text for rows in calls for text in _of_one_call(name, functions, rows)]


def _of_one_call(name: str, functions: Any, rows: list[tuple[float, ...]]) -> list[str]:
    padded = [*rows, *[scalar_cases()[name]] * (ROWS - len(rows))]
    found, expected = (outcome(function, *_rows(padded)) for function in functions)
    if isinstance(found, type) or isinstance(expected, type) or found.shape != expected.shape:
        text = compared(found, expected)
        return [] if text is None else [f"{name}{rows}: {text}"]
    columns = [(found[:, k], expected[:, k]) for k in range(len(rows))]
    texts = [_unless_known(name, row, *pair) for row, pair in zip(rows, columns, strict=True)]
    return [text for text in texts if text is not None]


def _unless_known(name: str, parameters: Any, found: Any, expected: Any) -> str | None:
    text, op = compared(found, expected), name.partition(".")[2]
    if text is None or known(op, tuple(map(np.asarray, parameters)), expected, found) is not None:
        return None
    return f"{name}{tuple(np.asarray(a).tolist() for a in parameters)}: {text}"


def _vector(value: float) -> Any:
    return pt.lvector() if isinstance(value, int) else pt.dvector()


def _rows(cases: list[tuple[float, ...]]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*cases, strict=True)]


def differences_of_sizes(name: str) -> list[str]:
    """Sizes that are data: none, one, negative."""
    ordinary, kind = scalar_cases()[name], family()[name]
    size = pt.lscalar()
    functions = compiled([size], lambda rng: kind()(*ordinary, size=(size,), rng=rng))
    pairs = [[outcome(function, n) for function in functions] for n in (0, 1, -1)]
    texts = [_type_and_shape(*pair) for pair in pairs]
    return [f"{name} of another size: {text}" for text in texts if text is not None]


def differences_of_arrays(name: str, *, full: bool = False) -> list[str]:
    """Parameters with three entries and sizes that they fit or not; entries of each type."""
    ordinary, kind = scalar_cases()[name], family()[name]
    size, found = pt.lvector(shape=(2,)), []
    for k, value in enumerate(ordinary):
        given: list[Any] = [*ordinary]
        given[k] = np.full(3, value)
        functions = compiled([size], lambda rng, p=[*given]: kind()(*p, size=size, rng=rng))
        for lengths in ((1, 3), (2, 1), (1, 1), (2, 2)):
            text = _type_and_shape(*(outcome(each, np.array(lengths)) for each in functions))
            found += [] if text is None else [f"{name} of the size {lengths}: {text}"]
        for dtype in ("float64", "uint64", "int8", "bool", "float32") if full else ("float64",):
            given[k] = np.array([value, value]).astype(dtype)
            functions = compiled([], lambda rng, p=[*given]: kind()(*p, rng=rng))
            text = _type_and_shape(*map(outcome, functions))
            found += [] if text is None else [f"{name} of {dtype} for {value!r}: {text}"]
    return found


def _of_constants(name: str) -> list[str]:
    """Parameters that are constants, one function for each."""
    ordinary, kind = scalar_cases()[name], family()[name]
    found = []
    for parameters in parameters_at_the_edge(ordinary, pairs=False):
        out = [*parameters]
        functions = compiled([], lambda rng, p=out: kind()(*p, size=(COUNT,), rng=rng))
        text = _unless_known(name, parameters, *(outcome(function) for function in functions))
        found += [] if text is None else [f"constants: {text}"]
    return found


def differences_of_others(name: str, *, full: bool = False) -> list[str]:
    """The differences of a distribution with a vector or a matrix."""
    kind, draw, values = OTHERS[name]
    parameter = pt.tensor(dtype="float64", shape=(None,) * np.ndim(values[0]))
    functions = compiled([parameter], lambda rng: draw(rng, parameter), full=full)
    found = []
    for value in values if full else [each for each in values if len(each) != 1]:
        given = np.array(value, "float64")
        pair = (outcome(function, given) for function in functions)
        found.append(_unless_known(kind, (given,), *pair))
    return [text for text in found if text is not None]


def compared(found: Any, expected: Any) -> str | None:
    """How two samples, or errors, differ."""
    text = _type_and_shape(found, expected)
    if text is not None or isinstance(expected, type) or not expected.size:
        return text
    columns = (1, -1) if found.ndim < 2 else (found.shape[-1], -1)
    pairs = zip(*(np.moveaxis(a.astype(float), -1, 0).reshape(columns) if a.ndim else [a]
                  for a in (found, expected)), strict=True)  # fmt: skip
    return next((text for pair in pairs if (text := _column(*pair)) is not None), None)


def _type_and_shape(found: Any, expected: Any) -> str | None:
    ours, theirs = _brief(found), _brief(expected)
    return None if ours == theirs else f"{ours} where Python has {theirs}"


def _column(found: np.ndarray, expected: np.ndarray) -> str | None:
    ours, theirs = _kinds(found), _kinds(expected)
    rare = {kind for kind in ours ^ theirs if _share(found, expected, kind) > 0.02}
    if rare:
        return f"draws of the kinds {sorted(ours)} where Python has {sorted(theirs)}"
    found, expected = (sample[~np.isnan(sample)] for sample in (found, expected))
    if len({*expected}) == 1 and not np.allclose(found, expected[0], rtol=1e-12, atol=0):
        return f"{found[:3]} where {expected[0]} is certain"
    if len({*expected}) > 1 and stats.ks_2samp(found, expected, method="asymp").pvalue < LIMIT:
        middle, right = np.median(found), np.median(expected)
        return f"another distribution, with the median {middle} and not {right}"
    return None


_KINDS: dict[str, Callable[[Any], Any]] = {
    "nan": np.isnan,
    "inf": lambda sample: sample == np.inf,
    "-inf": lambda sample: sample == -np.inf,
    "negative": lambda sample: np.isfinite(sample) & (sample < 0),
    "zero": lambda sample: sample == 0,
    "positive": lambda sample: np.isfinite(sample) & (sample > 0),
}


def _kinds(sample: np.ndarray) -> set[str]:
    return {kind for kind, holds in _KINDS.items() if holds(sample).any()}


def _share(found: np.ndarray, expected: np.ndarray, kind: str) -> float:
    return float(max(_KINDS[kind](sample).mean() for sample in (found, expected)))


def _brief(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else f"{value.dtype}{list(value.shape)}"


def run(full: bool = True) -> list[str]:
    """The differences of all distributions."""
    found = [text for name in scalar_cases() for text in differences(name, full=full)]
    return found + [text for name in OTHERS for text in differences_of_others(name, full=full)]
