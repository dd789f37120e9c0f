"""The one table of codes, and the one place where a message gets its code.

A code never changes its meaning, and a code that is no longer in use is not used again.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import Any

_PACKAGE = f"{__name__.partition('.')[0]}."
_MARK = re.compile(r" \[(PJL[0-9]{3})\]")


class ObstacleKind(Enum):
    """Why a node cannot be part of a JIT region."""

    UNTRANSPILABLE = "no JAX implementation"
    DATA_DEPENDENT_SHAPE = "data-dependent shape"
    STATIC_VALUE = "size computed from data"
    INNER_BREAK = "break inside an inner graph"
    TRACE_FAILURE = "JAX failed to trace"


class Listing(Enum):
    """A list of reasons that are neither breaks nor errors."""

    CALLBACKS = "`f.explain().callbacks`"
    START_UP_CACHE = "`f.stats.start_up_cache`"


GROUPS = {
    1: "Graph breaks",
    2: "Graphs that the options refuse",
    3: "Sizes and recompiling",
    4: "Functions that you transform with JAX",
    5: "Black boxes and their gradients",
    6: "Memory, devices and processes",
    7: "Saving",
    8: "Loading, and calling a loaded function",
    9: "Options and logs",
}
"""The titles of the ranges: the first digit of a code."""


class Code(Enum):
    """One reason for a message: its number, its title, and the messages that carry it.

    These are the kind of a graph break, the names of the classes of errors and warnings, or a list
    of reasons.  A class of this package that a message names no code for has the first code that
    lists it.

    Attributes
    ----------
    text
        The code as messages have it, ``"PJL101"``.
    title
        The heading of its page.
    kind
        The kind of a graph break; None for all others.
    classes
        The classes of errors and warnings; none for a graph break.
    listing
        The list that has the reason; None for breaks, errors and warnings.
    """

    # -- graph breaks
    NO_RULE = 101, "An operation has no JAX implementation", ObstacleKind.UNTRANSPILABLE
    PYTHON_FUNCTION = 102, "A Python function runs on the host", ObstacleKind.UNTRANSPILABLE
    NO_SAMPLER = 103, "A distribution has no JAX sampler", ObstacleKind.UNTRANSPILABLE
    NO_JAX_TYPE = 104, "A value has no counterpart in JAX", ObstacleKind.UNTRANSPILABLE
    SPARSE = 105, "A sparse operation runs on the host", ObstacleKind.UNTRANSPILABLE
    OTHER_VALUES = 106, "JAX would compute something else", ObstacleKind.UNTRANSPILABLE
    SIZES_OF_BATCH = (
        107,
        "A batched operation needs a size for each entry",
        ObstacleKind.UNTRANSPILABLE,
    )
    NO_CALLBACK = 108, "An operation cannot be a callback", ObstacleKind.UNTRANSPILABLE
    DATA_DEPENDENT_SHAPE = (
        111,
        "The shape of a result depends on values",
        ObstacleKind.DATA_DEPENDENT_SHAPE,
    )
    FETCHED_SIZE = 112, "A size is computed from data", ObstacleKind.STATIC_VALUE
    NEVER_STATIC = (
        113,
        "JAX has to know an array or a real number that is computed",
        ObstacleKind.STATIC_VALUE,
    )
    INNER_BREAK = 121, "A loop or a branch breaks inside", ObstacleKind.INNER_BREAK
    RULE_FAILED = 131, "A JAX implementation failed", ObstacleKind.TRACE_FAILURE
    SIDES_DIFFER = (
        132,
        "The two sides of a branch have different shapes",
        ObstacleKind.TRACE_FAILURE,
    )

    # -- graphs that the options refuse
    NOT_JITTABLE = (
        201,
        "The graph cannot run inside one jax.jit",
        "NotJittableError",
        "NotTranspilableOrJittableError",
    )
    NOT_TRANSPILABLE = (
        202,
        "jit=False, and an operation has no JAX implementation",
        "UntranspilableOpError",
    )
    HOST_FORBIDDEN = (
        203,
        'host_ops="error", and an operation has to run on the host',
        "UntranspilableOpError",
    )

    # -- sizes and recompiling
    RECOMPILED = 301, "A region is compiled again and again", "JAXLinkWarning"
    RECOMPILE_LIMIT = 302, "A region may not be compiled once more", "RecompileLimitError"

    # -- functions that you transform with JAX
    TRACED_SIZE = 401, "JAX traces a value that must be known", "NotJittableError"
    SIZE_AMONG_ARRAYS = 402, "An argument holds sizes and arrays", "NotJittableError"
    TWO_VALUES = 403, "One variable is given two values", "ValueError"
    TRACED_IN_GRAPH = 404, "A value that JAX traces is put into a graph", "JAXLinkError"
    EXPLICIT_MESH = 405, "JAX asks for the sharding of a result", "ShardingTypeError"
    CALL_OF_PURE = 406, "A pure function is called with other arguments", "TypeError", "ValueError"
    NOT_PURE = (
        407,
        "jaxify cannot make a function of these variables",
        "TypeError",
        "ValueError",
        "MissingInputError",
    )
    TRACED_UPDATE = 408, "A call that JAX traces updates a shared variable", "JAXLinkError"

    # -- black boxes
    BROKEN_SHAPE = (
        501,
        "A callback returns another shape or dtype than promised",
        "BrokenShapeError",
    )
    NO_GRADIENT = (
        502,
        "JAX differentiates an operation without a gradient",
        "NotDifferentiableError",
    )
    COMPLEX_GRADIENT = (
        503,
        "JAX differentiates a callback of complex numbers",
        "NotDifferentiableError",
    )

    CALLED_BACK = 504, "JAX calls an operation on the host", Listing.CALLBACKS

    # -- memory, devices, processes
    DONATED = 601, "An array is used after it was donated", "DonatedArgumentError"
    DIFFERENT_DEVICES = 611, "Arguments lie on different devices", "ValueError"
    NO_DEVICE = 612, "There is no such device", "ValueError"
    FORKED = 621, "JAX is needed in a forked process", "ForkedProcessError"
    ON_HOST_IN_CHILD = 622, "In a forked process functions run on the host", "JAXLinkWarning"

    # -- saving
    NOT_SAVABLE = 701, "Something cannot be saved", "ArtifactError"
    NOT_IMPORTABLE = 702, "A class or function cannot be found again by its name", "ArtifactError"
    CONSTRUCTOR = 703, "An Op cannot be made again from its attributes", "ArtifactError"
    SAVE_ARGUMENTS = 704, "The arguments of save do not fit", "ArtifactError"
    NO_FLATBUFFERS = 705, "The package flatbuffers is missing", "ArtifactError"
    NO_EXAMPLES = 706, "A function of JAX is saved without an example", "ArtifactError"
    UNKNOWN_STATIC = 707, "JAX cannot trace the example", "ArtifactError"
    EXAMPLES_DIFFER = 708, "Two examples do not have the same trees", "ArtifactError"
    OTHER_TREE = 709, "An argument is a tree that a file cannot make again", "ArtifactError"
    NO_GRAPH_LAYER = 710, "There is no graph layer", "ArtifactError"
    GRAPH_NOT_SAVED = 711, "The graph of a function is not saved", "JAXLinkWarning"
    CODE_NOT_SAVED = 712, "No code is saved for a region", "JAXLinkWarning"
    NO_REVERSE_MODE = 713, "A function cannot be saved with its derivative", "ArtifactError"
    NOT_EXPORTED = 714, "JAX cannot export the code", "ArtifactError"
    STEP_ON_HOST = 721, "The start-up cache keeps no step on the host", Listing.START_UP_CACHE
    NAMELESS_REWRITES = (
        722,
        "The start-up cache keeps no rewrites without a name",
        Listing.START_UP_CACHE,
    )
    NOTHING_COMPILED = (
        723,
        "jit=False leaves nothing for the start-up cache",
        Listing.START_UP_CACHE,
    )
    NO_FOLDER = 724, "The folder of the start-up cache cannot be written", Listing.START_UP_CACHE

    # -- loading, and calling a loaded function
    DAMAGED = 801, "The file is damaged, or no saved function", "ArtifactError"
    NEWER_FORMAT = 802, "The file has another format version", "ArtifactError"
    NOT_ALLOWED = 803, "The file refers to a module that is not allowed", "ArtifactError"
    OTHER_VERSION = 804, "The file was saved with other versions", "ArtifactError"
    NEEDS_PYTENSOR = 805, "The file needs PyTensor", "ArtifactError"
    C_CODE = 806, "The mode generates C code", "ArtifactError"
    UNREADABLE_CODE = 807, "The code in the file cannot be used", "ArtifactError"
    LOAD_ARGUMENTS = 808, "The arguments of load do not fit", "TypeError", "ValueError"
    NOT_SAVED = 811, "There is no code for these sizes", "NotSavedError"
    COMPILED_FROM_GRAPH = 812, "A loaded function is compiled from its graph", "JAXLinkWarning"
    CHECK_FAILED = 813, "A check is false, and PyTensor cannot say which", "CheckFailedError"
    NO_DERIVATIVE = 814, "The saved code has no derivative", "ArtifactError"
    NOT_MAPPED = 815, "The saved code cannot be mapped over one more axis", "NotImplementedError"
    CALL_OF_LOADED = 816, "A loaded function is called with other arguments", "TypeError"
    COPY_OF_LOADED = 817, "A loaded function is copied or pickled", "TypeError"

    # -- options and logs
    OPTIONS = 901, "An option has a value that it cannot have", "ValueError"
    MODE_TOO_LATE = 902, "The mode is named before it is registered", "ValueError"
    UNKNOWN_TOPIC = 903, "PYTENSOR_JAXLINK_LOGS names no topic", "JAXLinkWarning"
    EXAMPLES_OF_COMPILE = 904, "f.compile needs other examples", "TypeError"
    NOT_PROFILED = 905, "profile is given another function", "TypeError"
    NOT_EXPLAINED = 906, "explain is given neither a function nor variables", "TypeError"

    def __init__(self, number: int, title: str, *carried_by: ObstacleKind | Listing | str) -> None:
        self.text, self.title = f"PJL{number:03}", title
        self.group = GROUPS[number // 100]
        self.classes = tuple(each for each in carried_by if isinstance(each, str))
        kinds = [each for each in carried_by if isinstance(each, ObstacleKind)]
        self.kind = kinds[0] if kinds else None
        lists = [each for each in carried_by if isinstance(each, Listing)]
        self.listing = lists[0] if lists else None

    def mark(self, text: str) -> str:
        """A message with its code at the end."""
        return f"{text} [{self.text}]"


BASES = ("JAXLinkError", "JAXLinkWarning")
"""The classes that have no code of their own: each message that they carry names one."""


@cache
def code_of(text: str) -> Code:
    """The code with a name such as ``"PJL101"``."""
    return next(code for code in Code if code.text == text)


@cache
def _default(kind: type) -> Code | None:
    """The code of a class of errors or warnings, or that of the nearest of its bases."""
    ours = (each for each in kind.__mro__ if each.__module__.startswith(_PACKAGE))
    names = [each.__name__ for each in ours if each.__name__ not in BASES]
    return next((code for name in names for code in Code if name in code.classes), None)


def without_codes(text: str) -> str:
    """A message without codes, to be a part of another message."""
    return _MARK.sub("", text)


def _taken_apart(text: str) -> tuple[str, Code | None]:
    """A message without the codes of errors and warnings, and the first of these.

    Those of graph breaks stay: an error may list several.
    """
    found: list[Code] = []

    def take(mark: re.Match[str]) -> str:
        code = next((code for code in Code if code.text == mark[1]), None)
        if code is None or code.kind is not None:
            return mark[0]
        found.append(code)
        return ""

    return _MARK.sub(take, text), found[0] if found else None


class WithCode(BaseException):
    """An error or a warning that ends with its code.

    PyTensor raises errors again with more text.  Of classes that are ``raised_again`` the code is
    read from the text of the first one, unless another one is given, and stands once.

    Parameters
    ----------
    *args
        The message.
    code
        Its code, where it is not the one of the class.

    Attributes
    ----------
    code : str or None
        The code, such as ``"PJL201"``; None where nobody knows it.
    reason : Code or None
        Its entry in the catalogue.
    text : str
        The message without its code.
    """

    raised_again = True

    def __init__(self, *args: Any, code: Code | None = None) -> None:
        said = None
        if self.raised_again and len(args) == 1 and isinstance(args[0], str):
            text, said = _taken_apart(args[0])
            args = (text,)
        super().__init__(*args)
        self.reason = code or said or _default(type(self))

    @property
    def code(self) -> str | None:
        """The code of the reason."""
        return None if self.reason is None else self.reason.text

    @property
    def text(self) -> str:
        """The message without its code."""
        return super().__str__()

    def __str__(self) -> str:
        return self.text if self.code is None else f"{self.text} [{self.code}]".lstrip()
