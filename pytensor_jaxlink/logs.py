"""The log: one logger of the standard library for each kind of event.

Examples
--------
>>> import logging
>>> from pytensor_jaxlink.logs import Topic
>>> [topic.value for topic in Topic]
['breaks', 'recompiles', 'fallbacks', 'failures', 'slow_calls']
>>> Topic.RECOMPILES.logger is logging.getLogger("pytensor_jaxlink.recompiles")
True
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from enum import Enum

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import JAXLinkWarning

VARIABLE = "PYTENSOR_JAXLINK_LOGS"
"""The environment variable that names the topics to print, as ``TORCH_LOGS`` does for torch."""


class Topic(Enum):
    """A kind of event; its logger is ``pytensor_jaxlink.<value>``.

    Nothing is printed unless the program or `VARIABLE` asks for it.  Every event has the level
    INFO.

    Attributes
    ----------
    BREAKS
        A function was built, and its plan has a graph break.
    RECOMPILES
        A region is compiled for the second time or later, or reaches its limit.
    FALLBACKS
        PyTensor's own implementation finishes a call, or a region runs on the host.
    FAILURES
        A JAX implementation failed, and the plan was changed; a rewrite failed; or an Op refused
        arrays to which it may not write, and is given copies.
    SLOW_CALLS
        The fast path failed where the slow path gave a result.
    """

    BREAKS = "breaks"
    RECOMPILES = "recompiles"
    FALLBACKS = "fallbacks"
    FAILURES = "failures"
    SLOW_CALLS = "slow_calls"

    @property
    def logger(self) -> logging.Logger:
        """The logger of the topic."""
        return logging.getLogger(f"{__package__}.{self.value}")

    def log(self, text: Callable[[], str]) -> None:
        """Log an event, whose text is made where somebody reads it.

        Parameters
        ----------
        text
            Makes the text.
        """
        logger = self.logger
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s", text())


def print_topics(names: str) -> None:
    """Print the events of topics to the standard error stream.

    Parameters
    ----------
    names
        Topics, separated by commas; ``"all"`` is every one.

    Warns
    -----
    JAXLinkWarning
        If a name is no topic.
    """
    known = {topic.value: topic for topic in Topic}
    found = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in found if name != "all" and name not in known]
    if unknown:
        text = (
            f"{VARIABLE} names {', '.join(unknown)}, and the topics are {', '.join(known)} and all"
        )
        warnings.warn(JAXLinkWarning(text, code=Code.UNKNOWN_TOPIC), stacklevel=2)
    topics = [*known.values()] if "all" in found else [known[n] for n in found if n in known]
    for topic in topics:
        topic.logger.setLevel(logging.INFO)
        topic.logger.addHandler(_printer())


def _printer() -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    return handler


# A library leaves it to the program which events are written, and where.
logging.getLogger(__package__).addHandler(logging.NullHandler())
print_topics(os.environ.get(VARIABLE, ""))
