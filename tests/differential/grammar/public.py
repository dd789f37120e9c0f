"""Public functions of PyTensor, as introspection finds them, on values that may not suit them.

Other families name the operations of models.  This one has the rest, and what nobody thought of:
arrays of any rank and type for each parameter, and options by the type of their default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.type import TensorType

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool

family = Family("public")

MODULES = (pt, pt.linalg, pt.special, pt.signal)

LEFT_OUT = {
    "makes no value of its arguments": (
        "as_tensor", "as_tensor_variable", "basic_shape", "constant", "default",
        "get_vector_length", "infer_shape", "register_infer_shape", "vectorize", "wrap_py",
    ),
    "leaves entries open": ("empty", "empty_like", "inverse_permutation"),
    "leaves signs, or the order of equal entries, open": (
        "argpartition", "argsort", "eig", "eigh", "jv", "ordqz", "partition", "qr", "qz", "schur",
        "searchsorted", "svd", "topk",
    ),
    "has no values out of range (docs/known_differences.md)": (
        "betaincinv", "gammainccinv", "gammaincinv",
    ),
    "has half the digits of booleans": ("log1pexp", "softplus"),
    "takes what another function gives": (
        "cho_solve", "lu_solve", "permute_row_elements", "pivot_to_permutation",
        "tridiagonal_lu_solve",
    ),
    "raises what NumPy's conversions raise by chance": ("tensorinv", "tensorsolve"),
    "has no result for empty matrices (docs/known_differences.md)": (
        "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov",
        "solve_sylvester",
    ),
    "makes arrays as long as its numbers say": (
        "arange", "bincount", "geomspace", "kron", "linspace", "logspace", "mgrid", "ogrid",
    ),
}  # fmt: skip
"""Functions that are not called, by reason."""

_LENGTHS = ("m", "minlength", "n", "nb_class", "num", "repeats", "reps", "shape", "size")
_LISTS = ("arrays", "choices", "matrices", "tensors", "tensors_list", "vars")
_NUMBERS = (
    "axis", "axes", "axis1", "axis2", "decimals", "destination", "dim", "ind", "k", "n_ones",
    "ndim", "offset", "ord", "shift", "source",
)  # fmt: skip
_ARRAYS = ("vector", "vector", "matrix", "square", "scalar", "index", "mask", "cube", "size")


def _functions() -> dict[str, Callable[..., Any]]:
    left_out = {name for names in LEFT_OUT.values() for name in names}
    found: dict[str, Callable[..., Any]] = {}
    for module in MODULES:
        for name, value in vars(module).items():
            is_public = not name.startswith("_") and name not in left_out
            is_function = callable(value) and not inspect.isclass(value)
            where = str(getattr(value, "__module__", None) or type(value).__module__)
            is_function &= where != "pytensor.tensor.type"  # which makes inputs
            if is_public and is_function and where.startswith("pytensor.tensor."):
                found.setdefault(name, value)
    return found


FUNCTIONS = _functions()
NAMES = sorted(FUNCTIONS)


@family.gives("any")
def function(p: Pool) -> Any:
    """The first array that a function gives."""
    return _called(p, FUNCTIONS[p.one_of(NAMES)])


def _called(p: Pool, make: Callable[..., Any]) -> Any:
    """What a function makes of values of the pool; `TypeError` where that is no array."""
    given: list[Any] = []
    options = {}
    for parameter in inspect.signature(make).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [_array(p) for _ in range(1 + p.choose(2))]
        elif parameter.kind is parameter.VAR_KEYWORD:
            continue
        elif parameter.default is parameter.empty:
            given.append(_argument(p, parameter.name.lower()))
        elif not p.choose(3) and (found := _option(p, parameter)) is not None:
            options[parameter.name] = found
    try:
        made = make(*given, **options)
    except Exception as error:  # of a function that checks little, as it comes
        raise TypeError from error
    first = next((each for each in _flat(made) if _is_array(each)), None)
    if first is None:
        raise TypeError
    return first


def _argument(p: Pool, name: str) -> Any:
    if name in _LENGTHS:
        return p.one_of([p.length(4), 2, 0, (2, p.length(4)), (p.length(4),), -1])
    if name in _NUMBERS:
        return p.one_of([0, 1, -1, 2])
    if name in _LISTS:
        return [_array(p) for _ in range(1 + p.choose(3))]
    return _array(p)


def _array(p: Pool) -> Any:
    return p.one_of([0, 1.5, -2]) if p.sometimes(8) else p.pick(p.one_of(_ARRAYS))


def _option(p: Pool, parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if isinstance(default, bool):
        return not default
    if isinstance(default, int) or parameter.name == "axis":
        return p.one_of([0, 1, -1, 2])
    return "float64" if parameter.name == "dtype" else None


def _flat(made: Any) -> list[Any]:
    return (
        [each for one in made for each in _flat(one)] if isinstance(made, list | tuple) else [made]
    )


def _is_array(value: Any) -> bool:
    is_made = isinstance(value, Variable) and value.owner is not None
    return is_made and isinstance(value.type, TensorType) and value.type.ndim <= 2
