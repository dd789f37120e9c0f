"""A pytest plugin: another default mode, and for each test what the comparison has to know.

``PEER_MODE`` chooses the mode, ``PEER_REPORT`` the file that takes one JSON line for each test, and
``PEER_TIMEOUT`` the seconds after which a test counts as hanging.
"""

from __future__ import annotations

import faulthandler
import inspect
import json
import os
import re
import resource
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytensor
import pytest
from pytensor.compile.mode import Mode, get_mode
from pytensor.link.basic import PerformLinker
from pytensor.link.jax.linker import JAXLinker as PyTensorJAXLinker

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.rewriting import default_query

# What a test says when it looks at the rewritten graph, the thunks or the storage of a function.
_LOOKS_AT_GRAPH = re.compile(
    r"\.maker\b|\btoposort\(|apply_nodes|check_stack_trace|\.vm\b|storage_map|print_storage"
    r"|assertFunctionContains"
)
# What it says when it compares draws with those of NumPy's generators.
_LOOKS_AT_DRAWS = re.compile(r"compare_sample_values|\brng_fn\(")
_FURTHEST_CALL = 3
# pytest-timeout interrupts Python code; what hangs in compiled code ends with its worker.
_GRACE = 30

functions = count()  # its next number is how many functions the mode has made


def _counting(linker: type[Any]) -> type[Any]:
    """The same linker, counting the functions that are made with it."""

    class Counting(linker):
        def accept(self, *args: Any, **options: Any) -> Any:
            next(functions)
            return super().accept(*args, **options)

    return Counting


def _mode(name: str) -> Mode | str:
    match name:
        case "default":
            return pytensor.config.mode
        case "JAXSELECTIVE":
            return name
        case "python":
            return Mode(_counting(PerformLinker)(), get_mode("FAST_RUN").provided_optimizer)
        case "jax":
            return Mode(_counting(PyTensorJAXLinker)(), get_mode("JAX").provided_optimizer)
        case "ours":
            return Mode(_counting(JAXLinker)(outputs="numpy"), default_query())
    raise ValueError(f"PEER_MODE is {name!r}, expected one of tests.peer or tests.clients")


def _sources(function: Any, owner: Any, depth: int) -> Iterator[str]:
    """The source of a test and of what it calls in its own module and class."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(function, FunctionType) or depth > _FURTHEST_CALL:
        return
    try:
        yield inspect.getsource(function)
    except (OSError, TypeError):
        return
    for name in _names(function.__code__):
        called = getattr(owner, name, function.__globals__.get(name))
        module = getattr(called, "__module__", None) or ""
        if module.startswith("tests.") and called is not function:
            yield from _sources(called, owner, depth + 1)


def _names(code: CodeType) -> list[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return [*code.co_names, *(name for c in inner for name in _names(c))]


def pytest_configure(config: Any) -> None:
    config.option.verbose = max(config.option.verbose, 0)
    pytensor.config.mode = _mode(os.environ["PEER_MODE"])


def _cpu() -> float:
    """Seconds of this process, with all its threads, and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    faulthandler.dump_traceback_later(int(os.environ["PEER_TIMEOUT"]) + _GRACE, exit=True)
    item.peer_started = _cpu()  # with what its fixtures take
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    before = next(functions)
    yield
    source = "\n".join(_sources(item.function, getattr(item, "cls", None), 0))
    facts = {
        "compiled": next(functions) - before - 1,
        "graph": bool(_LOOKS_AT_GRAPH.search(source)),
        "draws": bool(_LOOKS_AT_DRAWS.search(source)),
        "cpu": round(_cpu() - item.peer_started, 3),
    }
    item.user_properties.append(("peer", facts))


def _reason(report: Any) -> str:
    """Why a test did not pass: the error, or the last line of what pytest says."""
    if report.passed:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return crash.message.splitlines()[0][:300]
    return str(report.longrepr).strip().splitlines()[-1][:300]


def pytest_runtest_logreport(report: Any) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") or (report.when != "call" and report.passed):
        return
    facts = dict(report.user_properties).get("peer", {})
    line = {"test": report.nodeid, "outcome": report.outcome, "reason": _reason(report), **facts}
    with Path(os.environ["PEER_REPORT"]).open("a") as file:
        file.write(json.dumps(line) + "\n")
