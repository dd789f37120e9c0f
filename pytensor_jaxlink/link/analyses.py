"""The stages of one graph: it is rewritten, analysed, partitioned and lowered."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import AbstractFunctionGraph, FunctionGraph
from pytensor.graph.rewriting.basic import GraphRewriter

from pytensor_jaxlink.analysis import (
    NodeFacts,
    Questions,
    binding_times,
    called,
    facts_of,
    input_binding_times,
)
from pytensor_jaxlink.compat import mutable, prepared_inner_graph
from pytensor_jaxlink.graph import GraphView, updates_of
from pytensor_jaxlink.link.form import Form
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.link.shared import bytes_held
from pytensor_jaxlink.lowering import Lowered, LowerGraph, Rules, lower
from pytensor_jaxlink.ops import Branch, NestedGraph, UnknownShapes, data_inputs, output_shapes
from pytensor_jaxlink.partition import schedule, select, sink
from pytensor_jaxlink.rewriting import (
    cut_results,
    enabled_of,
    excluded_of,
    failures_of,
    inline_broken,
    linked_rewriter,
    may_be_cut,
    notes_of,
    offsets,
    prepare,
    rewrite_again,
    rewrite_inner,
    with_shapes,
)
from pytensor_jaxlink.runtime import WORTH_A_REGION


class Analyses:
    """The stages of one graph, and what they have learned of its inner graphs.

    Parameters
    ----------
    source
        The rewritten graph.  It is not changed.
    options
        What the linker was asked for.
    lower_graph
        Makes a JAX function of a graph that is no part of this one.
    record
        Takes the failure of each rewrite, in words.

    Attributes
    ----------
    rules
        The JAX implementations of the nodes, and the failures recorded of them.
    avoided
        The breaks that rewrites of the graph and of its inner graphs have avoided.
    """

    def __init__(
        self,
        source: FunctionGraph,
        options: Options,
        lower_graph: LowerGraph,
        record: Callable[[str], None],
    ) -> None:
        self._source, self._options, self._record = source, options, record
        self._record_failures(source)
        self.rules = Rules(lower_graph, callbacks=options.host_ops == "callback")
        self.avoided = notes_of(source)
        self._questions = Questions(
            self.rules.obstacle,
            self._inner_graphs,
            self.rules.recorded_sizes,
            self.rules.may_be_called,
        )
        self._rewritten: dict[Any, Any] = {}
        self._prepared: dict[Apply, tuple[NestedGraph, ...]] = {}

    @cached_property
    def _rewriter(self) -> GraphRewriter:
        """The rewriter of graphs that no mode rewrites, which takes long to make."""
        return linked_rewriter(excluded_of(self._source))

    def forget(self) -> None:
        """Prepare inner graphs anew: what is known of their nodes has changed."""
        self._prepared.clear()

    def form(self, dynamic: frozenset[int], *, cut: bool = True) -> Form:
        """The graph, analysed and partitioned.

        Parameters
        ----------
        dynamic
            The positions of the inputs that are data.
        cut
            Whether results may be cut when they leave.  Where the user traces, nobody could.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTensor's rules warn when they are looked up
            graph, avoided = self._source, ()
            if dynamic:
                graph = mutable(graph)
                avoided = rewrite_again(graph, dynamic, enabled_of(self._source), results=cut)
                self._record_failures(graph)
            prepared = self._prepare(graph, (self._source, dynamic), dynamic)
            if cut and may_be_cut(prepared):
                prepared = mutable(prepared)
                cut_results(prepared, dynamic, self._runs_on_host)
            updates = updates_of(self._source)
            view = GraphView.of(prepared, updates=updates)
            facts = self._describe(view)
            times = binding_times(view, input_binding_times(view, dynamic), called(facts))
            earliest, large = schedule(view, facts, times), self._large(updates)
            places = earliest
            if not earliest.is_one_region:
                places = sink(view, facts, earliest, updates, large)
            partition = select(view, facts, times, places)
            return Form(dynamic, avoided, view, facts, times, partition)

    def with_vectors_as_sizes(self, form: Form) -> Form:
        """The form in which values of integer vectors may select specialisations.

        The user who holds the jit says which arguments are static, and so asks for each
        compilation (the counts of `repeat`).
        """
        if not form.partition.breaks:
            return form
        stages = schedule(form.view, form.facts, form.times, vectors_are_sizes=True)
        return replace(form, partition=select(form.view, form.facts, form.times, stages))

    def lower(self, form: Form) -> Lowered:
        """The plan of a form, with the functions of its steps."""
        checks = self._options.checks == "raise"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # see `form`
            return lower(form.view, form.facts, form.partition, self.rules, checks=checks)

    def separate(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], alike: Sequence[Variable]
    ) -> FunctionGraph:
        """A graph that is no part of this one (a gradient), rewritten in the same way.

        Parameters
        ----------
        inputs, outputs
            Its variables.
        alike
            Variables that have the shapes of the outputs.
        """
        fgraph = FunctionGraph(inputs, outputs, clone=False)
        self._rewriter.rewrite(fgraph)
        while inline_broken(fgraph, self._describe):
            pass
        with_shapes(fgraph, alike, self._has_unknown_shape)
        return fgraph

    def _large(self, updates: Mapping[int, int]) -> frozenset[int]:
        """The updates of shared variables that now hold what is worth a region of its own."""
        if self._options.donate == "none" or self._options.outputs == "numpy":
            return frozenset()  # nothing is donated
        held = {output: bytes_held(self._source.inputs[k]) for output, k in updates.items()}
        return frozenset(output for output, size in held.items() if size >= WORTH_A_REGION)

    def _record_failures(self, fgraph: AbstractFunctionGraph) -> None:
        for failure in failures_of(fgraph):
            self._record(failure)

    def _runs_on_host(self, node: Apply) -> bool:
        return self.rules.obstacle(node) is not None or bool(data_inputs(node.op, node))

    def _describe(self, view: GraphView) -> tuple[NodeFacts, ...]:
        return facts_of(view, self._questions)

    def _prepare(
        self, fgraph: AbstractFunctionGraph, origin: object, changing: Collection[int] = ()
    ) -> AbstractFunctionGraph:
        return prepare(fgraph, origin, self._describe, enabled_of(self._source), changing)

    def _inner_graphs(self, node: Apply) -> tuple[NestedGraph, ...]:
        """The inner graphs of a node, rewritten and prepared as the outer graph is."""
        if node not in self._prepared:
            self._prepared[node] = tuple(
                replace(
                    graph,
                    fgraph=self._prepare(
                        rewritten := self._rewrite(node, graph),
                        (node.op, side) if isinstance(node.op, Branch) else rewritten,
                    ),
                )
                for side, graph in enumerate(self.rules.inner_graphs(node))
            )
        return self._prepared[node]

    def _rewrite(self, node: Apply, graph: NestedGraph) -> AbstractFunctionGraph:
        """The rewritten form of an inner graph, the same object whenever it is asked for."""
        fgraph = graph.fgraph
        if isinstance(node.op, Branch):
            return fgraph  # cut out of a rewritten graph
        related = offsets(node)
        _, rewritten = self._rewritten.get((id(fgraph), related), (None, None))
        if rewritten is None:
            wrapped = isinstance(node.op, OpFromGraph)
            rewritten = prepared_inner_graph(fgraph, lambda: self._rewriter, again=wrapped)
            changing = [k for k, outer in enumerate(graph.outer_position) if outer is None]
            rewritten, notes = rewrite_inner(rewritten, changing, enabled_of(self._source), related)
            self.avoided += notes
            self._record_failures(rewritten)
            # The graph lives as long as its id.
            self._rewritten[id(fgraph), related] = fgraph, rewritten
        return rewritten

    def _has_unknown_shape(self, node: Apply) -> bool:
        if self.rules.obstacle(node) is None or not self.rules.may_be_called(node):
            return False
        return isinstance(output_shapes(node.op, node), UnknownShapes)
