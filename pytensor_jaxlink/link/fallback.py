"""The fallback: a call finished by PyTensor's own implementation of each node.

Only the side of an `IfElse` that is taken runs, as in PyTensor's default mode and in the regions.
The Python linker runs both sides, and so an exception is its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from threading import RLock
from typing import Any

from pytensor.compile.aliasing import Supervisor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.basic import PerformLinker
from pytensor.link.utils import raise_with_op
from pytensor.link.vm import VMLinker

from pytensor_jaxlink.compat import IfElse, runnable_copy
from pytensor_jaxlink.frames import running_line
from pytensor_jaxlink.graph import ArrayType, GraphView, operation_with_place, updates_of
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.lowering import as_declared
from pytensor_jaxlink.ops import has_effects, result_type
from pytensor_jaxlink.rewriting import check_buffers, given_of, notes_of, rewrites_of
from pytensor_jaxlink.runtime import Stats, to_numpy


class PythonFallback:
    """A graph, run by PyTensor's own implementation of each node; made when it is needed."""

    _graph: FunctionGraph

    def __init__(self, source: FunctionGraph) -> None:
        self._source = source
        self._forget()

    def _forget(self) -> None:
        self._process, self._lock, self._runs = os.getpid(), RLock(), False
        self._made: list[Any] = []
        self._ordered: dict[tuple[str, ...], Any] = {}

    def __call__(
        self, inputs: Sequence[object], cause: BaseException | None, stats: Stats
    ) -> Sequence[Any]:
        """The outputs for values of the inputs.

        An exception names the operation that raised it, and its place in the user's code.

        ``cause`` is the failure of a region that led here; None where a condition is false.
        """
        Topic.FALLBACKS.log(lambda: _text(cause))
        try:
            return self._run(inputs, stats)
        except Exception as error:
            self._note_operation(error)
            raise

    def _run(self, inputs: Sequence[object], stats: Stats) -> Sequence[Any]:
        if self._process != os.getpid():
            self._forget()  # a thread of the parent process may have had the lock
        with self._lock:  # the thunk has one set of cells
            if self._runs:  # an operation of the graph calls the function that it is in
                return PythonFallback(self._source)._run(inputs, stats)
            self._runs = True
            try:
                return self._run_alone(inputs, stats)
            finally:
                self._runs = False

    def _run_alone(self, inputs: Sequence[object], stats: Stats) -> Sequence[Any]:
        if not self._made:
            self._graph = self._graph_to_run()
            self._made = [link.accept(self._graph).make_thunk() for link in self._linkers()]
        values = [
            value
            if value is None or not isinstance(variable.type, ArrayType)
            else to_numpy(value, stats)
            for variable, value in zip(self._graph.inputs, inputs, strict=True)
        ]
        if self._is_users_graph:  # operations in place may write into what they are given
            values = deepcopy(values)
        *lazily, eagerly = self._made
        for made in lazily:
            with suppress(Exception):
                return self._typed(_evaluated(made, values))
        try:
            return self._typed(_evaluated(eagerly, values))
        except Exception as error:
            if not has_effects(self._source):
                found = self._as_users_graph(error, values)
                if found is not None:
                    return self._typed(found)
            raise

    @property
    def _is_users_graph(self) -> bool:
        """True where the graph that the user gave runs, and not the rewritten one.

        What a rewrite takes for granted (a bound of a length) is a check in the rewritten graph
        alone, so an exception there may not be the user's.  Elsewhere the user's graph is asked
        after an exception; but an Op of the user's does not run again for the sake of one.
        """
        rewritten = bool(notes_of(self._source)) and self._given() is not None
        return rewritten and has_effects(self._source)

    def _given(self) -> FunctionGraph | None:
        """The graph that the user gave, if it has the outputs of the rewritten one.

        Where an operation in place ends in an input, what it leaves there is one more.
        """
        given = given_of(self._source)
        return given if given and len(given.outputs) == len(self._source.outputs) else None

    def _graph_to_run(self) -> FunctionGraph:
        if self._is_users_graph:
            return self._rewritten_for_python("fusion")  # which computes with Python's numbers
        graph = runnable_copy(self._source)
        check_buffers(graph)
        return graph

    def _as_users_graph(
        self, error: Exception, values: Sequence[object]
    ) -> Sequence[object] | None:
        """Raise the exception of the Python linker, where this is one of another class.

        Of several nodes that raise, the one that runs first decides.  PyTensor orders the nodes
        of the user's graph, after the rewrites that fuse and work in place, which the fallback
        does without.  That graph is only made where nodes raise different exceptions, or where
        rewrites of ours have put other nodes in the place of some.  It may have a value: what a
        rewrite takes for granted (a bound of a length) is a check in the rewritten graph alone.
        """
        if not notes_of(self._source) and all(
            type(other) is type(error) for other in self._all_errors(values)
        ):
            return None
        try:
            return self._in_order(values)
        except (OverflowError, ZeroDivisionError):  # what is fused computes with Python's numbers
            return self._in_order(values, "fusion")
        except Exception as other:
            if type(other) is not type(error):
                raise
            return None

    def _in_order(self, values: Sequence[object], *without: str) -> Sequence[object]:
        """The outputs of the Python linker, without some of its rewrites."""
        if without not in self._ordered:
            graph = self._rewritten_for_python(*without)
            self._ordered[without] = PerformLinker(allow_gc=True).accept(graph).make_thunk()
        # Of copies: operations in place may write into what they are given.
        return _evaluated(self._ordered[without], deepcopy(list(values)))

    def _all_errors(self, values: Sequence[object]) -> list[Exception]:
        """The exceptions of all nodes that can be reached without the value of one that raises."""
        linker = PerformLinker(allow_gc=False).accept(self._graph)
        _, given, _, thunks, nodes = linker.make_all()
        for container, value in zip(given, values, strict=True):
            container.storage[0] = value
        errors: list[Exception] = []
        missing: set[Variable] = set()
        for thunk, node in zip(thunks, nodes, strict=True):
            if missing.isdisjoint(node.inputs):
                try:
                    thunk()
                except Exception as error:
                    errors.append(error)
                else:
                    continue
            missing.update(node.outputs)
        return errors

    def _rewritten_for_python(self, *without: str) -> FunctionGraph:
        """The graph that the user gave, in the order in which the Python linker runs it.

        The user's mode decides which rewrites come before: some leave out an exception.
        """
        given = self._given()
        graph = runnable_copy(given or self._source)
        if given is None:
            check_buffers(graph)
        # PyTensor writes into what is updated: that decides which of several nodes runs first.
        updated = updates_of(graph).values()
        kept = [value for place, value in enumerate(graph.inputs) if place not in updated]
        graph.attach_feature(Supervisor(kept))
        # Those for BLAS drop an array of integers from a sum (docs/upstream.md).
        query = RewriteDatabaseQuery(include=rewrites_of(self._source))
        rewrites: Any = Mode("py", query).excluding("BlasOpt", *without).optimizer
        rewrites.rewrite(graph)
        return graph

    def _linkers(self) -> list[Any]:
        eager = PerformLinker(allow_gc=True)
        if not any(isinstance(node.op, IfElse) for node in self._graph.apply_nodes):
            return [eager]
        lazy = VMLinker(allow_gc=True, lazy=True, use_cloop=False, c_thunks=False)
        # An Op whose evaluation may show does not run again for the sake of an exception.
        return [lazy] if has_effects(self._source) else [lazy, eager]

    def _typed(self, outputs: Sequence[Any]) -> Sequence[Any]:
        # Some `perform` methods give another dtype than a region.
        updates = updates_of(self._source)
        types = [
            result_type(variable, stored=place in updates)
            for place, variable in enumerate(self._graph.outputs)
        ]
        return [as_declared(value, kind) for value, kind in zip(outputs, types, strict=True)]

    def _note_operation(self, error: BaseException) -> None:
        node = _failed_node(error)
        view = GraphView.of(self._graph)
        if node in view.nodes:
            error.add_note(f"while computing {operation_with_place(view, view.nodes.index(node))}")


class Unpadded:
    """The fallback of a graph of padded arguments: that of the graph which was padded.

    Parameters
    ----------
    fallback
        The fallback of that graph.
    groups
        The padded dimensions, as (position, axis), for each length that follows the inputs.
    count
        The number of these inputs.
    """

    def __init__(
        self,
        fallback: PythonFallback | Unpadded,
        groups: Sequence[Sequence[tuple[int, int]]],
        count: int,
    ) -> None:
        self._fallback, self._groups, self._count = fallback, groups, count

    def __call__(
        self, inputs: Sequence[Any], cause: BaseException | None, stats: Stats
    ) -> Sequence[Any]:
        """The same as `PythonFallback` gives for the arguments before they were padded."""
        values = list(inputs[: self._count])
        for group, length in zip(self._groups, inputs[self._count :], strict=False):
            for position, axis in group:
                part = (*[slice(None)] * axis, slice(int(length)))
                values[position] = to_numpy(values[position], stats)[part]
        return self._fallback(values, cause, stats)


def _evaluated(made: Any, values: Sequence[object]) -> Sequence[Any]:
    thunk, given, results = made
    for container, value in zip(given, values, strict=True):
        container.storage[0] = value
    outputs = thunk()
    return [result.storage[0] for result in results] if outputs is None else outputs


def _text(cause: BaseException | None) -> str:
    reason = "a condition does not hold" if cause is None else f"{type(cause).__name__}: {cause}"
    return f"PyTensor's own implementation finishes a call at {running_line()}: {reason}"


def _failed_node(error: BaseException) -> Any:
    """The node whose thunk raised: PyTensor hands each one to `raise_with_op`."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is raise_with_op.__code__:
            return trace.tb_frame.f_locals["node"]
        trace = trace.tb_next
    return None
