"""How every Op of the installed PyTensor runs: ``python -m tests.ops.table`` writes the page.

The page holds a row for each Op of each supported version; rows of Ops that are not installed here
are kept.  `test_table` compares it with what the code says.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytensor
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.xtensor.basic import XTypeCastOp

from pytensor_jaxlink.lowering.rule import jax_rule
from pytensor_jaxlink.lowering.rules import not_right
from pytensor_jaxlink.lowering.samplers import sampler_of
from pytensor_jaxlink.ops import data_inputs, static_inputs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"

JITTABLE = "jittable"
STATIC = "jittable with static inputs"
DATA = "jittable where its data follow from shapes, else a host step"
HOST = "host step"
LOWERED = "rewritten before linking"
CORE = "as its core Op"

# Other backends, and packages that need libraries which are not dependencies.
_LEFT_OUT = (
    "pytensor.link.",
    "pytensor.d3viz",
    "pytensor.ipython",
    "pytensor.graph.rewriting.kanren",
    "pytensor.misc.",
)

# Classes that only others derive from.
_ABSTRACT = {
    "ComplexFromPolar", "DtypeCast", "RandomVariable", "ScipyRandomVariable", "SolveBase", "XOp",
    "_NoPythonOp", "_NoPythonCOp", "_NoPythonCOpInnerGraph", "Output", "RNGConsumerOp",
    "AbstractRNGConstructor", "__ComparisonOpSD", "__ComparisonOpSS",
    "__ComparisonOpSparseDense", "__ComparisonOpSparseSparse", "BaseCorrMM",
}  # fmt: skip


def installed() -> dict[str, type[Op]]:
    """The Op classes that PyTensor defines and graphs can hold, by their full names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(pytensor.__path__, "pytensor."):
            if not f"{module.name}.".startswith(_LEFT_OUT):
                _import(module.name)
    found = {
        f"{kind.__module__}.{kind.__qualname__}": kind
        for kind in _subclasses(Op)
        if kind.__module__.startswith("pytensor.") and not kind.__module__.startswith(_LEFT_OUT)
    }
    return {
        name: kind
        for name, kind in sorted(found.items())
        if not inspect.isabstract(kind)
        and kind.__name__ not in _ABSTRACT
        and not _has_no_instances(kind)
    }


def _import(name: str) -> None:
    """Import a module, but leave a function of its name in the package: `pytensor.tensor.var`."""
    parent, _, leaf = name.rpartition(".")
    package = importlib.import_module(parent)
    function = vars(package).get(leaf)
    importlib.import_module(name)
    if inspect.isfunction(function):
        setattr(package, leaf, function)


def _has_no_instances(kind: type[Op]) -> bool:
    return issubclass(kind, ScalarOp) and kind.__subclasses__() != [] and kind.impl is ScalarOp.impl


def _subclasses(kind: type) -> set[type]:
    return {kind, *(each for child in kind.__subclasses__() for each in _subclasses(child))} - {Op}


def answer(kind: type[Op]) -> str:
    """How nodes of an Op class run."""
    if kind.__module__.startswith("pytensor.xtensor") and not issubclass(kind, XTypeCastOp):
        return LOWERED
    if not _has_rule(kind) or _is_refused(kind):
        return HOST
    if kind is Blockwise:
        return CORE
    if data_inputs.dispatch(kind) is not data_inputs.dispatch(object):
        return DATA
    if static_inputs.dispatch(kind) is not static_inputs.dispatch(object):
        return STATIC
    return JITTABLE


def _has_rule(kind: type[Op]) -> bool:
    if issubclass(kind, RandomVariable):
        upstream = jax_sample_fn.dispatch(kind) is not jax_sample_fn.dispatch(object)
        return upstream or sampler_of(kind.__new__(kind)) is not None
    own = jax_rule.dispatch(kind) is not jax_rule.dispatch(object)
    return own or jax_funcify.dispatch(kind) is not jax_funcify.dispatch(object)


def _is_refused(kind: type[Op]) -> bool:
    """A scalar Op of which JAX's function is right for no node."""
    if not issubclass(kind, ScalarOp):
        return False
    op: Any = Elemwise.__new__(Elemwise)
    op.scalar_op = kind.__new__(kind)
    node: Any = SimpleNamespace(inputs=[])
    return not_right(op, node) is not None


def written() -> dict[str, str]:
    """The rows of the page: Op and answer."""
    return dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|$", PAGE.read_text(), re.MULTILINE))


def main() -> None:
    """Write the page; rows of other versions of PyTensor stay."""
    rows = written() if PAGE.exists() else {}
    rows |= {name: answer(kind) for name, kind in installed().items()}
    PAGE.write_text(HEAD + "".join(f"| `{name}` | {rows[name]} |\n" for name in sorted(rows)))


HEAD = f"""# How each Op runs

Written by `python -m tests.ops.table` from what the code says, and compared with it by a test that
fails when PyTensor has an Op without a row. Rows hold for the versions of PyTensor with that Op.

- **{JITTABLE}**: part of a region, whatever its inputs.
- **{STATIC}**: some inputs are sizes, which select a specialisation of the region.
- **{DATA}**: masks, counts, what `unique` reads.
- **{CORE}**: a batch, if sizes and data that the core Op reads are the same for all elements.
- **{LOWERED}**: PyTensor's rewrites put tensor Ops in its place.
- **{HOST}**: between regions, by the Op's own Python implementation.

Inner graphs (`Scan`, `OpFromGraph`, `Blockwise`, `IfElse`) that hold a host step are executed by
the host, or inlined, and their other parts are compiled. Sparse Ops count for one sparse operand;
what combines two of them has a result whose pattern depends on data and runs on the host.

The optimisers of `pytensor.tensor.optimize` follow SciPy's method step by step, because its path
decides which solution is found: `root` with `hybr` and `jac=True`, `root_scalar` with `newton`,
`halley`, `secant` and `brentq`, `minimize_scalar` with `brent`, all in float64. Where a search does
not end well, SciPy finishes the call. A minimum is where comparisons of rounded values end the
search, so two implementations of `exp` put it up to 1e-8 of its scale apart. Other methods run on
the host: those of `minimize` (`BFGS`, `L-BFGS-B`, `Newton-CG`) stop far from the minimum, at a
gradient of 1e-5, by line searches in compiled code of SciPy, and another path stops elsewhere.
Gradients of all of them are implicit, and run in regions; JAX is given the same ones.

`Lstsq` runs in a region for matrices; where the rank is not full NumPy
gives no residuals, and such a call is finished on the host.

`PolyGamma` runs on the host, because JAX's function takes no array of orders and loses digits from
order 10 on. The gradient of `psi` is `TriGamma`, which runs in a region.

| Op | answer |
| --- | --- |
"""

if __name__ == "__main__":
    main()
