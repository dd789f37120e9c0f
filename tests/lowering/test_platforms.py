"""What runs in regions lowers for GPUs and TPUs, as far as a machine without them can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import NotJittableError, jaxify
from tests.corpus.graphs import CORPUS, INPUTS, values
from tests.edges import elementwise, indexing, linalg
from tests.edges.known import OLD
from tests.edges.random import family, scalar_cases

pytestmark = pytest.mark.skipif(OLD, reason="devices are those of the newest stack")

PLATFORMS = ("cuda", "tpu")

LACKING = {"Schur": set(PLATFORMS), "Eig": {"tpu"}, "QR with pivots": {"tpu"}}
"""JAX's factorisations that are not on each platform."""

FACTORISATIONS = {
    **dict.fromkeys(("schur", "schur, complex", "solve_sylvester", "lyapunov"), "Schur"),
    "eig": "Eig",
    "qr, pivoting": "QR with pivots",
}


def lowers_for(function: Callable[..., Any], arguments: Sequence[Any]) -> set[str]:
    """The platforms that JAX lowers a function for; one that is not jittable counts for all."""
    try:
        with jax.enable_x64(True):
            traced = jax.jit(function).trace(*arguments)
    except NotJittableError:
        return set(PLATFORMS)
    found = set()
    for platform in PLATFORMS:
        try:
            traced.lower(lowering_platforms=(platform,))
        except NotImplementedError:
            continue
        found.add(platform)
    return found


def with_static(inputs: Sequence[Any], outputs: Any, given: Sequence[Any]) -> set[str]:
    """The same for a graph, whose static arguments are closed over."""
    try:
        function = jaxify(inputs, outputs)
        static = function.static_argnums
    except NotJittableError:
        return set(PLATFORMS)

    def of_dynamic(*arguments: Any) -> Any:
        left = iter(arguments)
        places = range(len(given))
        return function(*[given[k] if k in static else next(left) for k in places])

    return lowers_for(of_dynamic, [v for k, v in enumerate(given) if k not in static])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str) -> None:
    used = [k for k, v in enumerate(INPUTS) if v in _ancestors(CORPUS[name][1]())]
    outputs, given = CORPUS[name][1](), values()
    inputs = [INPUTS[k] for k in used]
    assert with_static(inputs, outputs, [given[k] for k in used]) == set(PLATFORMS)


def _ancestors(outputs: Any) -> set[Any]:
    from pytensor.graph.traversal import ancestors

    return set(ancestors(outputs if isinstance(outputs, list) else [outputs]))


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_elementwise(dtype: str) -> None:
    """All Ops of one dtype are one function; the few that are host steps are left out."""
    host: set[str] = set()
    for arity in range(1, 5):
        variables = elementwise._variables([dtype] * arity, 1)
        cases = elementwise.cases(arity, [(dtype,) * arity])
        ops = [op for case in cases for op in case.ops]
        graph = {}
        for op in ops:
            [output] = elementwise._apply(op, variables)
            if _jittable(variables, output):
                graph[str(len(graph))] = output
            else:
                host.add(type(op).__name__)
        if graph:
            function = jaxify(variables, graph)
            assert lowers_for(function, [np.ones(3, dtype)] * arity) == set(PLATFORMS)
    if dtype == "complex128":
        assert host >= {"ArcTan2", "Psi", "Jv"}  # most functions are for real numbers only
    else:
        assert host <= {"MulWithoutZeros", "PolyGamma"}


def _jittable(variables: Sequence[Any], output: Any) -> bool:
    try:
        return jaxify(variables, output).static_argnums == ()
    except NotJittableError:
        return False


@pytest.mark.cpu("what runs elsewhere is built anew there")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(linalg.CASES.keys() - {"tensorsolve"}))  # not of matrices
def test_linear_algebra(name: str) -> None:
    case = linalg.CASES[name]
    vectors = [k in case.vectors for k in range(case.count)]
    inputs = [(pt.dvector if vector else pt.dmatrix)() for vector in vectors]
    try:
        outputs = case.graph(*inputs)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        pytest.skip("this PyTensor has no such graph")
    given = [linalg.OTHER[:, 0] if vector else linalg.REGULAR for vector in vectors]
    lacking = LACKING.get(FACTORISATIONS.get(name, ""), set())
    assert with_static(inputs, outputs, given) == set(PLATFORMS) - lacking


@pytest.mark.parametrize("name", scalar_cases())
def test_draws(name: str) -> None:
    parameters, kind = scalar_cases()[name], family()[name]
    variables = [pt.scalar(dtype="int64" if isinstance(p, int) else "float64") for p in parameters]
    rng = pytensor.shared(np.random.default_rng(0))
    function = pytensor.function(
        variables, kind()(*variables, size=(5,), rng=rng), mode="JAXSELECTIVE"
    )
    given = [np.asarray(p) for p in parameters]
    assert lowers_for(function.jax_fn, [*given, jax.random.key(0)]) == set(PLATFORMS)


TAKERS = {case.op: case for case in indexing.takers(["int64"], ["input"])}


@pytest.mark.parametrize("name", [name for name in TAKERS if not name.startswith("arange up to")])
def test_operations_with_integers(name: str) -> None:
    case = TAKERS[name]
    outputs = case.build(*case.inputs)
    assert with_static(case.inputs, outputs, case.calls[0]) == set(PLATFORMS)
