"""The maker that `pytensor.function` asks for functions under our modes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from pytensor.compile.executor import Function
from pytensor.compile.maker import FunctionMaker
from pytensor.compile.mode import Mode
from pytensor.configdefaults import config
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pytensor_jaxlink.graph import updates_of
from pytensor_jaxlink.link.jax_function import JAXFunction
from pytensor_jaxlink.link.linker import JAXLinker, mode_of, with_inplace
from pytensor_jaxlink.link.start_up_cache import Postponed, StartUpEntry, finder
from pytensor_jaxlink.rewriting import given_of, hand_on, keep_given, keep_rewrites, keeping_lines

_copied: ContextVar[FunctionGraph | None] = ContextVar("_copied", default=None)


def _hand_on_given(original: FunctionGraph, copied: FunctionGraph) -> None:
    """Give a copy of a rewritten graph the one that the user gave, without deleted updates."""
    given, count = given_of(original), len(copied.outputs)
    if given is None or len(given.inputs) != len(copied.inputs):
        return
    if count < len(given.outputs):
        given = FunctionGraph(given.inputs, given.outputs[:count], clone=True)
    keep_given(copied, given)


class JAXFunctionMaker(FunctionMaker):
    """Makes `JAXFunction`s, and accepts a linker where a mode is expected."""

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        mode: Any = None,
        accept_inplace: bool = False,
        function_class: type[Function] = JAXFunction,
        **options: Any,
    ) -> None:
        if isinstance(mode, JAXLinker):
            mode = mode_of(mode)
        elif isinstance(mode, Mode):
            mode = with_inplace(mode)
        original = _copied.get()
        if original is not None and options.get("no_fgraph_prep"):
            hand_on(original, options["fgraph"])
            _hand_on_given(original, options["fgraph"])
        self._entry: StartUpEntry | None = None
        self._rewrite: Postponed | None = None
        self._made = False
        super().__init__(inputs, outputs, mode, accept_inplace, function_class, **options)
        linker = self.linker
        linker.entry, linker.rewrite = self._entry, self._rewrite
        self._entry = None  # the linker's, which neither copies nor pickles it

    def create(self, *args: object, **options: object) -> Any:
        """Create a function; see `pytensor.compile.maker.FunctionMaker.create`."""
        function = super().create(*args, **options)
        self._made = True
        return function

    @property
    def fgraph(self) -> FunctionGraph:
        """The rewritten graph.

        Where the start-up cache had the function, it is rewritten when somebody looks at it, and
        making the function is not looking.
        """
        if self._made and self._rewrite is not None:
            self._rewrite()
        return self._fgraph

    @fgraph.setter
    def fgraph(self, fgraph: FunctionGraph) -> None:
        self._fgraph = fgraph

    # PyTensor has it as a static method, and calls it as a method.
    def prepare_fgraph(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        inputs: Any,
        outputs: Any,
        additional_outputs: object,
        fgraph: FunctionGraph,
        *rest: Any,
    ) -> Any:
        """Rewrite the graph; a copy of it as the user gave it is kept for `save` and errors."""
        updates = fgraph.update_mapping
        self._given = FunctionGraph(
            fgraph.inputs, fgraph.outputs, clone=True, update_mapping=updates
        )
        keep_given(fgraph, self._given)
        prepare = partial(super().prepare_fgraph, inputs, outputs, additional_outputs, fgraph)

        compiler = config.cxx

        def rewrite(*rest: Any) -> Any:  # later, if the start-up cache has the function
            with keeping_lines(fgraph), config.change_flags(cxx=compiler):
                return prepare(*rest)

        mode: Any = rest[0]
        query = mode.provided_optimizer
        if isinstance(query, RewriteDatabaseQuery):  # and not a rewriter of the user's
            keep_rewrites(fgraph, query)
        if mode.linker.options.cache_dir is not None:
            self._entry = finder()(self._given, updates_of(fgraph), mode, inputs, outputs)
        if self._entry is None or not self._entry.found:
            return rewrite(*rest)
        self._rewrite = Postponed(lambda: rewrite(*rest))
        return None

    def __getstate__(self) -> dict[str, Any]:
        if self._rewrite is not None:
            self._rewrite()
        return vars(self)

    @property
    def given(self) -> FunctionGraph:
        """The graph before it was rewritten; of a copied function, the rewritten graph."""
        return getattr(self, "_given", self.fgraph)

    @contextmanager
    def copied(self) -> Iterator[None]:
        """Have the records of the rewrites go over to copies of the graph.

        `Function.copy` makes a new graph of the rewritten one, without the attributes of that, and
        asks the class for a maker of it.
        """
        token = _copied.set(self.fgraph)
        try:
            yield
        finally:
            _copied.reset(token)
