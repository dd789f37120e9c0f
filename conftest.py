"""Settings that every test shares."""

import gc
import itertools
import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

# Nothing under test needs a C compiler; without this PyTensor would look for one.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")

import jax
import pytest
from hypothesis import settings

from pytensor_jaxlink.logs import Topic
from tests.compilation_cache import restored_cache

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


# Every module is imported for its examples, and this one needs PyMC.
collect_ignore = [] if find_spec("pymc") else ["tests/benchmarks/pymc_models.py"]

LONG = frozenset(Path(__file__).with_name("tests").joinpath("long.txt").read_text().split())
"""The tests that ``make test`` leaves to ``make test-all``; see `tests.long`."""


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the long tests, so that ``-m "not long"`` leaves them out."""
    for item in items:
        if item.nodeid.partition("[")[0] in LONG:
            item.add_marker(pytest.mark.long)


_AS_FOR_USERS = frozenset({"edges", "artifact", "devices", "benchmarks", "docs"})
"""The folders with the edge values of each Op, with bits, and with measurements."""

_FLAG = "jax_disable_most_optimizations"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let LLVM optimise little in most tests, and skip those that are about CPUs elsewhere.

    XLA takes half of the time.  Its own passes all run, and one of eight tests of the other
    folders is compiled as for users, as in the search (`tests.differential`).
    """
    if _FLAG.upper() not in os.environ:
        elsewhere = _AS_FOR_USERS.isdisjoint(item.path.relative_to(item.config.rootpath).parts)
        jax.config.update(_FLAG, elsewhere and zlib.crc32(item.nodeid.encode()) % 8 != 0)
    marker = item.get_closest_marker("cpu")
    if marker is not None and jax.default_backend() != "cpu":
        pytest.skip(f"of CPUs: {marker.args[0]}")


def pytest_collection_finish() -> None:
    """Leave what has been imported out of Python's collections: a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.disable()


_FINISHED = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    """Collect after 200 tests: after each hundred, it took 7 % of the time."""
    if next(_FINISHED) % 200 == 0:
        gc.collect()


@pytest.fixture(autouse=True)
def _restored_logs() -> Iterator[None]:
    """Leave the levels of the loggers as they were: a page of the documentation sets one."""
    package = logging.getLogger("pytensor_jaxlink")
    loggers = [logging.getLogger(), package, *[topic.logger for topic in Topic]]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(autouse=True)
def _restored_cache() -> Iterator[None]:
    with restored_cache():
        yield
