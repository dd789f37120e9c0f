"""``python -m docs._inventories`` writes the inventories that intersphinx reads without a network.

Each holds the names of another project that our pages and docstrings link to, and no others, with
the addresses that its documentation has for them.  A new name is one line here.
"""

from __future__ import annotations

import zlib
from pathlib import Path

FOLDER = Path(__file__).parent
SUMMARY = "_autosummary/{name}.html#{name}"  # JAX
FUNCTION = "library/compile/function.html#pytensor.compile.function."  # PyTensor
GENERATED = "api/generated/{name}.html"  # PyMC
NUMPY = "reference/generated/{name}.html#{name}"

PROJECTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "python": (
        ("ArithmeticError", "exception", "library/exceptions.html#{name}"),
        ("AssertionError", "exception", "library/exceptions.html#{name}"),
        ("Exception", "exception", "library/exceptions.html#{name}"),
        ("IndexError", "exception", "library/exceptions.html#{name}"),
        ("NotImplementedError", "exception", "library/exceptions.html#{name}"),
        ("RuntimeError", "exception", "library/exceptions.html#{name}"),
        ("TypeError", "exception", "library/exceptions.html#{name}"),
        ("UserWarning", "exception", "library/exceptions.html#{name}"),
        ("ValueError", "exception", "library/exceptions.html#{name}"),
        ("collections.abc.Callable", "class", "library/collections.abc.html#{name}"),
        ("functools.partial", "function", "library/functools.html#{name}"),
        ("functools.singledispatch", "function", "library/functools.html#{name}"),
        ("logging", "module", "library/logging.html#module-{name}"),
    ),
    "numpy": (
        ("numpy.ndarray", "class", NUMPY),
        ("numpy.unique", "function", NUMPY),
        ("numpy.random.Generator", "class", "reference/random/generator.html#{name}"),
    ),
    "jax": (
        ("jax.Array", "class", SUMMARY),
        ("jax.ShapeDtypeStruct", "class", SUMMARY),
        ("jax.device_put", "function", SUMMARY),
        ("jax.export", "module", "jax.export.html#module-{name}"),
        ("jax.grad", "function", SUMMARY),
        ("jax.hessian", "function", SUMMARY),
        ("jax.jit", "function", SUMMARY),
        ("jax.jvp", "function", SUMMARY),
        ("jax.lax.scan", "function", SUMMARY),
        ("jax.pure_callback", "function", SUMMARY),
        ("jax.random.key_data", "function", SUMMARY),
        ("jax.set_mesh", "function", SUMMARY),
        ("jax.sharding.Mesh", "class", "jax.sharding.html#{name}"),
        ("jax.value_and_grad", "function", SUMMARY),
        ("jax.vmap", "function", SUMMARY),
    ),
    "pytensor": (
        ("pytensor.function", "function", f"{FUNCTION}function"),
        ("pytensor.compile.executor.Function", "class", f"{FUNCTION}types.Function"),
        ("pytensor.compile.executor.Function.copy", "method", f"{FUNCTION}types.Function.copy"),
    ),
    "pymc": (
        ("pymc.sample", "function", GENERATED),
        ("pymc.sample_prior_predictive", "function", GENERATED),
        ("pymc.sample_posterior_predictive", "function", GENERATED),
    ),
}


def inventory(project: str) -> bytes:
    """Make the inventory of a project, in version 2 of Sphinx's format."""
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    lines = (
        f"{name} py:{kind} 1 {address.format(name=name)} -\n"
        for name, kind, address in PROJECTS[project]
    )
    return head.encode() + zlib.compress("".join(lines).encode(), 9)


if __name__ == "__main__":
    for project in PROJECTS:
        (FOLDER / f"{project}.inv").write_bytes(inventory(project))
