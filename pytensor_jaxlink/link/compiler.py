"""One graph, compiled: the way in which it runs, and what becomes of that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from threading import RLock
from typing import Any

from pytensor.compile.ops import DeepCopyOp
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.scalar.basic import ScalarType

from pytensor_jaxlink.analysis import has_callbacks
from pytensor_jaxlink.errors import NewSizeError
from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.link.analyses import Analyses
from pytensor_jaxlink.link.changing_sizes import ChangingSizes
from pytensor_jaxlink.link.dynamic import with_loops_as_data
from pytensor_jaxlink.link.explanation import Explanation, describe_callbacks, explain_plan
from pytensor_jaxlink.link.failures import Failures
from pytensor_jaxlink.link.fallback import Unpadded
from pytensor_jaxlink.link.form import Form, Way
from pytensor_jaxlink.link.identity import identity_of
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.link.refusals import refusal
from pytensor_jaxlink.link.sketch import titles_of
from pytensor_jaxlink.link.user_traces import UserTraces
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.lowering import Lowered
from pytensor_jaxlink.ops import has_effects
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime import Executor, Policy, Stats, use_compilation_cache

_BUCKETS = 8
"""How much more often a graph of padded arguments may be compiled than others."""


class CompiledGraph:
    """A function graph with its plan, ready to run on JAX.

    Parameters
    ----------
    fgraph
        The rewritten graph.  It is not changed.
    options
        What the linker was asked for.

    Raises
    ------
    NotJittableError, UntranspilableOpError
        Where the options leave no way to run the graph; all blockers are in the message.

    Attributes
    ----------
    exported
        Whether regions are code made by `jax.export`.
    """

    exported = False
    installed: Way
    _changing: ChangingSizes | None

    def __init__(
        self,
        fgraph: FunctionGraph,
        options: Options,
        *,
        outer: ChangingSizes | None = None,
        lengths: Collection[int] = (),
    ) -> None:
        self.options, self.source = options, fgraph
        self.stats = Stats()
        if options.compilation_cache is not None:
            use_compilation_cache(options.compilation_cache)
        self.policy = Policy.of(options)
        self.lock = RLock()
        self.when_installed: Callable[[], None] | None = None
        self._outer, self._changing = outer, None
        self._recorded: list[str] = []
        self._explanation: Explanation | None = None
        self._analyses = Analyses(fgraph, options, self._lower_graph, self.record)
        self._build(lengths)
        if options.dynamic is True:
            if way := self.changing.way(self.form.sizes):
                self.install(way)
            self.changing.cut_results()
        self._refuse()

    # -- compiling -----------------------------------------------------------------------------

    def _build(self, dynamic: Collection[int]) -> None:
        """Analyse the graph anew, with the inputs at some positions as data where they can be."""
        self._analyses.forget()
        if self._changing is not None:
            self._changing.forget()
        form_of = cache(self.form_of)  # what breaks is looked at again, size by size
        form = form_of(frozenset(dynamic))
        if dynamic and not form.partition.breaks:
            self.changing.sizes.dynamic = form.dynamic
        elif dynamic:  # some of them may be the cause
            static = form_of(frozenset())
            form = self.changing.sizes.extend(static, dynamic, form_of)
        if form.partition.static_inputs and self.options.dynamic is not False:
            form, static = with_loops_as_data(form, form_of), form
            if form is not static:
                self.changing.sizes.dynamic = form.dynamic
        self.install(self.way(form, self.stats))

    @property
    def changing(self) -> ChangingSizes:
        """The sizes that change; few functions have any."""
        with self.lock:  # several threads may ask for the first time
            if self._changing is None:
                self._changing = ChangingSizes(self, self._outer)
            return self._changing

    @property
    def has_effects(self) -> bool:
        """Return True if Ops show outside of the graph."""
        return has_effects(self.source)

    def may_change(self, change: NewSizeError) -> bool:
        """Return True if some of the sizes may become data."""
        return self.changing.may_change(change)

    def finish(self, inputs: Sequence[object], change: NewSizeError) -> Sequence[Any]:
        """The outputs of a call that came with a further value of a size."""
        return self.changing.finish(inputs, change)

    def form_of(self, dynamic: frozenset[int], *, cut: bool = True) -> Form:
        """The graph, analysed and partitioned; see `Analyses.form`."""
        return self._analyses.form(dynamic, cut=cut)

    def padded(
        self,
        graph: FunctionGraph,
        lengths: Collection[int],
        groups: Sequence[Sequence[tuple[int, int]]],
    ) -> CompiledGraph:
        """The graph of padded arguments, which is compiled once for each bucket.

        Parameters
        ----------
        graph
            The graph.
        lengths
            The positions of the inputs that are lengths, or sizes that are data.
        groups
            The padded dimensions of inputs, for each length that follows the inputs.
        """
        options = replace(self.options, recompile_limit=_BUCKETS * self.options.recompile_limit)
        padded = CompiledGraph(graph, options, outer=self.changing, lengths=lengths)
        # Of several operations that raise, the graph that the user gave decides, and its values.
        fallback = Unpadded(self.failures.fallback, groups, len(self.source.inputs))
        padded.failures.fallback = fallback
        return padded

    def way(self, form: Form, stats: Stats) -> Way:
        """Lower a form, and make what runs it."""
        lowered = self._analyses.lower(form)
        executor = self.executor_of(
            lowered,
            stats,
            jit=self.options.jit is not False,
            fallback=partial(self.fall_back, plan=lowered.plan),
            resizing=self,
            identity=partial(identity_of, form, lowered, self.options) if not self._outer else None,
        )
        return Way(form, lowered, executor, stats)

    def install(self, way: Way) -> None:
        """Run the graph in this way from now on."""
        form = way.form
        self.installed, self.view, self.stats = way, form.view, way.stats
        self._for_user: UserTraces | None = None
        # A size that became data may avoid again the break that its static form avoided.
        self._avoided = tuple(dict.fromkeys((*self._analyses.avoided, *form.avoided)))
        self._explanation = None
        self.executor: Callable[[Sequence[Any]], list[Any]] = way.executor
        if form.partition.breaks:
            for cut in self.explanation.breaks:
                Topic.BREAKS.log(cut.__str__)
            if self.refusal() is not None:
                self.executor = self._refuse
        if self.when_installed is not None:
            self.when_installed()

    @property
    def form(self) -> Form:
        """The graph with the results of its analyses."""
        return self.installed.form

    def executor_of(
        self,
        lowered: Lowered,
        stats: Stats,
        *,
        jit: bool,
        fallback: Any,
        resizing: CompiledGraph | None = None,
        identity: Callable[[], Hashable | None] | None = None,
    ) -> Executor:
        """Make what runs a plan under the options of this graph; see `Executor`."""
        return Executor(
            lowered,
            stats,
            jit=jit,
            fallback=fallback,
            policy=self.policy,
            resizing=resizing,
            titles=partial(titles_of, lowered),
            identity=identity,
        )

    def _lower_graph(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        alike: Sequence[Variable],
    ) -> Callable[..., Sequence[Any]]:
        """A graph that is no part of this one, as a JAX function under the same options."""
        fgraph = self._analyses.separate(inputs, outputs, alike)
        compiled = CompiledGraph(fgraph, replace(self.options, jit="selective"))
        compiled.for_user.refuse()
        return compiled.trace

    def refusal(self) -> Exception | None:
        """Return the error where the options leave no way to run the graph, else None."""
        if not self.form.partition.breaks:
            return None
        return refusal(self.explanation.breaks, self.options)

    def _refuse(self, inputs: Sequence[Any] = ()) -> list[Any]:
        """Raise where the options leave no way to run the graph."""
        error = self.refusal()
        if error is not None:
            raise error
        return []

    # -- what the function shows ---------------------------------------------------------------

    @property
    def copied(self) -> tuple[int, ...]:
        """The outputs that are no arrays and that nobody computes: the caller gets a copy."""
        return tuple(
            position
            for position, variable in enumerate(self.source.outputs)
            if not isinstance(variable.type, ArrayType | ScalarType)
            and (variable.owner is None or isinstance(variable.owner.op, DeepCopyOp))
        )

    @property
    def explanation(self) -> Explanation:
        """The plan in words, which are found when somebody asks."""
        if self._explanation is None:
            form = self.form
            self._explanation = explain_plan(
                self.lowered,
                form.partition,
                self._recorded,
                self._avoided,
                describe_callbacks(form.view, form.facts),
                self.changing.described(),
            )
        return self._explanation

    def forget_explanation(self) -> None:
        """Have the words found anew: what they say of sizes has changed."""
        self._explanation = None

    def record(self, failure: str) -> None:
        """Record the failure of a rule or a rewrite, in words: it is logged, counted and named.

        Those of the padded form of a graph are the graph's.
        """
        if self._outer is not None:
            self._outer.record(failure)
        elif failure not in self._recorded:
            self._recorded.append(failure)
            self.stats.failures += 1
            self.forget_explanation()
            Topic.FAILURES.log(lambda: failure)

    @property
    def plan(self) -> Plan:
        """The plan that is run."""
        return self.lowered.plan

    @property
    def lowered(self) -> Lowered:
        """The plan with the functions of its steps and its constants."""
        return self.installed.lowered

    def without_callbacks(self) -> CompiledGraph:
        """The same with host steps for what JAX calls here; itself where it calls nothing."""
        if not has_callbacks(self.form.facts):
            return self
        options = replace(self.options, jit="selective", host_ops="split")
        return CompiledGraph(self.source, options)

    @property
    def for_user(self) -> UserTraces:
        """The graph where the user holds the jit."""
        if self._for_user is None:
            self._for_user = UserTraces(self, self._analyses)
        return self._for_user

    def trace(self, *values: Any) -> list[Any]:
        """The pure function ``(*inputs, *shared) -> [*outputs, *updates]``."""
        return self.for_user.trace(values)

    # -- when JAX fails ------------------------------------------------------------------------

    @cached_property
    def failures(self) -> Failures:
        """The failures of JAX, and the calls that PyTensor finished."""
        return Failures(self, self._analyses.rules)

    def fall_back(
        self, inputs: Sequence[Any], error: BaseException | None, *, plan: Plan
    ) -> Sequence[Any]:
        """Finish a call by PyTensor's own implementation; see `Failures.finish`."""
        return self.failures.finish(inputs, error, plan)

    def build_again(self) -> None:
        """Make the plan anew, because more is known of a node."""
        self._build(self.form.dynamic)
