"""The environment of a bug report: versions, devices, flags, caches."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pytensor_jaxlink.versions import own_version, version_of

_NEEDED = ("pytensor", "jax", "jaxlib", "numpy", "scipy")
_OPTIONAL = ("flatbuffers", "rich", "pymc", "numpyro", "blackjax", "nutpie", "numba", "equinox")
_VARIABLES = ("PYTENSOR_FLAGS", "PYTENSORRC", "PYTENSOR_JAXLINK_LOGS", "CUDA_VISIBLE_DEVICES")
_PREFIXES = ("JAX_", "XLA_")
_SETTINGS = (
    "jax_enable_x64",
    "jax_platforms",
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_disable_jit",
    "jax_debug_nans",
    "jax_num_cpu_devices",
)
_FLAGS = ("floatX", "mode", "linker", "cxx", "optimizer")


def system_info() -> Iterator[str]:
    """The parts of the text that ``python -m pytensor_jaxlink info`` prints.

    What cannot be found out is said in its place, and is no error.  The devices come last, because
    XLA ends the process where `XLA_FLAGS` has an unknown flag: then the other parts are printed.
    """
    parts = {
        "versions": _versions,
        "environment variables": _variables,
        "flags of PyTensor": _flags,
        "configuration of JAX": _settings,
        "caches": _caches,
        "devices": _devices,
    }
    for title, part in parts.items():
        yield "\n".join([title, *_lines(part)])


def _lines(part: Callable[[], Iterator[tuple[str, object]]]) -> list[str]:
    try:
        found = [f"  {name}: {value}" for name, value in part()]
    except Exception as error:  # an import that fails, a device that is gone
        found = [
            f"  not available: {': '.join([type(error).__name__, *str(error).splitlines()[:1]])}"
        ]
    return found or ["  none"]


def _versions() -> Iterator[tuple[str, object]]:
    yield "pytensor_jaxlink", f"{own_version()} ({Path(__file__).parent})"
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    yield "python", f"{implementation} ({sys.executable})"
    yield "platform", f"{platform.platform()}, {os.cpu_count()} processors"
    for name in _NEEDED:
        yield name, version_of(name) or "not installed"
    for name in _OPTIONAL:
        if found := version_of(name):
            yield name, found


def _devices() -> Iterator[tuple[str, object]]:
    import jax

    for device in jax.devices():
        yield str(device), f"{device.platform}, {device.device_kind}"
    yield "processes", jax.process_count()


def _settings() -> Iterator[tuple[str, object]]:
    import jax

    return ((name, _of(jax.config, name)) for name in _SETTINGS)


def _flags() -> Iterator[tuple[str, object]]:
    from pytensor.configdefaults import config

    return ((name, repr(_of(config, name))) for name in _FLAGS)


def _variables() -> Iterator[tuple[str, object]]:
    for name in sorted(os.environ):
        if name in _VARIABLES or name.startswith(_PREFIXES):
            yield name, repr(os.environ[name])


def _caches() -> Iterator[tuple[str, object]]:
    from pytensor_jaxlink.runtime.typed_jax import configuration

    folder = configuration.jax_compilation_cache_dir
    yield "compilation cache of JAX", "none" if folder is None else _contents(Path(folder))
    yield "start-up cache", "none, but where a JAXLinker has the option cache_dir"


def _contents(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} (no folder)"
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{folder} ({len(sizes)} files, {sum(sizes) / 1e6:.1f} MB)"


def _of(config: Any, name: str) -> object:
    return getattr(config, name, "no such option")
