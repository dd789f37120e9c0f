"""Functions in files: saved with all that they are made of, loaded without pickle.

Loading needs neither PyTensor nor the compiler; what saves is imported when it is first used.
"""

import sys as _sys
import typing as _typing

from pytensor_jaxlink.artifact.inspection import inspect as inspect
from pytensor_jaxlink.artifact.loading import load as load

if _typing.TYPE_CHECKING:
    from pytensor_jaxlink.artifact.saving import save as save


def __getattr__(name: str) -> _typing.Any:
    if name != "save":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytensor_jaxlink.runtime.typed_jax import configuration

    x64, is_first = configuration.jax_enable_x64, "pytensor" not in _sys.modules
    from pytensor_jaxlink.artifact.saving import save

    if is_first:  # PyTensor turns 64-bit types on for JAX: not in a program that does not use it
        configuration.update("jax_enable_x64", x64)
    return save
