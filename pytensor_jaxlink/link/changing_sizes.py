"""The sizes of a compiled graph that change: which become data, and when.

A size is the value of an argument (``x[:n]``) or the length of one.  Either is compiled for when it
comes first.  A second value makes the size data (`link.dynamic`); a second length has the argument
padded (`link.padded_graph`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytensor_jaxlink.analysis.extents import measured
from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.errors import NewSizeError
from pytensor_jaxlink.link.dynamic import Sizes, is_worth
from pytensor_jaxlink.link.form import Way
from pytensor_jaxlink.link.padded_graph import (
    Groups,
    SuitedBuckets,
    described_bounds,
    described_lengths,
    divided,
    groups_of,
    is_worth_cutting,
    length_of_group,
    may_be_padded,
    padded_graph,
    with_programs,
)
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.rewriting import is_one_integer
from pytensor_jaxlink.runtime import Dispatch, Padding, Place, Stats, bucket_of

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph


class ChangingSizes:
    """The sizes of a graph, and what became of those that changed.

    Parameters
    ----------
    compiled
        The compiled graph.
    outer
        The sizes of the graph whose padded form this one is; None for others.

    Attributes
    ----------
    sizes
        The sizes that are values of arguments.
    """

    def __init__(self, compiled: CompiledGraph, outer: ChangingSizes | None) -> None:
        self._compiled, self._outer = compiled, outer
        self.sizes = Sizes(cut=outer is not None)
        self._unpadded: dict[Place, str] = {}
        self._needed: set[int] = set()  # sizes that are needed for more than lengths of results
        self._costly: set[int] = set()  # sizes that become data when there are many values of them
        self.forget()

    def forget(self) -> None:
        """Begin anew, because the graph is analysed anew."""
        self.sizes.dynamic = frozenset()
        self._for_all: Way | None = None
        self._forget_padding()

    def _forget_padding(self) -> None:
        self._padded: CompiledGraph | None = None
        self._padding = Padding((), bucket_of(None))
        self._kept: set[tuple[int, ...]] = set()

    def record(self, failure: str) -> None:
        """Record the failure of a rule or a rewrite; see `CompiledGraph.record`."""
        self._compiled.record(failure)

    def is_plan(self, plan: Plan) -> bool:
        """Return True for a plan that runs the graph now."""
        for_all = self._for_all
        return plan is self._compiled.plan or (for_all is not None and plan is for_all.plan)

    # -- when a size has changed -------------------------------------------------------------------

    def may_change(self, change: NewSizeError) -> bool:
        """Return True if sizes that have a new value may turn out to be data."""
        return self._values_may_change(change) or bool(self._changed_lengths(change))

    def _values_may_change(self, change: NewSizeError) -> bool:
        compiled = self._compiled
        if compiled.options.dynamic != "auto" or change.plan is not compiled.plan:
            return False
        form, many = compiled.form, change.count >= compiled.policy.limit
        if self._for_all is not None:
            return many and bool(change.numbers)
        # The last, shorter batch is a second length, and not the beginning of many.
        changed = change.numbers if many else set(change.numbers) - form.extents
        behind = form.inputs_behind(changed).intersection(form.static)
        return not behind <= self.sizes.refused.keys() or bool(self._to_cut(behind, change.count))

    def _to_cut(self, sizes: Collection[int], count: float) -> frozenset[int]:
        """The sizes among some that may be data if results of their length are cut.

        ``count`` is for how many combinations the region has been compiled.
        """
        if self._outer is not None:
            return self._outer._to_cut(sizes, count)
        compiled, many = self._compiled, count >= self._compiled.policy.limit
        # The start-up cache keeps code for each size.
        if compiled.options.cache_dir is not None and not many:
            return frozenset()
        tried = {*self._padding.sizes, *self._needed, *(() if many else self._costly)}
        return frozenset(
            k
            for k in sizes
            if k < len(compiled.source.inputs)  # no length of an argument
            and k not in tried
            and is_one_integer(compiled.source.inputs[k])
        )

    def finish(self, inputs: Sequence[Any], change: NewSizeError) -> Sequence[Any]:
        """Finish a call that came with a new value of a size; see `make_dynamic`."""
        compiled, for_all = self._compiled, self._for_all
        if for_all is not None and change.plan is compiled.plan and change.numbers:
            compiled.stats.general_calls += 1
            compiled.stats.padded_calls += 1
            return for_all.executor(inputs)
        if self._outer is not None:
            raise change
        self.make_dynamic(inputs, change)
        return compiled.executor(inputs)

    def make_dynamic(self, inputs: Sequence[Any], change: NewSizeError) -> bool:
        """Let sizes be data from now on, those of them that can.

        They stay static, as long as there are few of their values, if the program for all values
        does much more work than those for one (`dynamic.is_worth`).

        Parameters
        ----------
        inputs
            The values of the call that came with a second value.
        change
            The sizes.

        Returns
        -------
        bool
            Whether the call may start again: the sizes have become data, or are compiled for.
        """
        compiled, padded = self._compiled, self._padded
        with compiled.lock:
            if padded is not None and change.plan is padded.plan:
                self._change_padded(inputs, change)
            elif self._for_all is not None and change.numbers:
                if not change.put_off:
                    return False
                self._use(self._for_all)
            elif change.plan is not compiled.plan:
                pass  # another thread was faster
            elif self._values_may_change(change):
                if (way := self.way(change.numbers)) is not None:
                    self._use(way, inputs)
                else:
                    self.cut_results(change, inputs)
                self._say(change)
            elif lengths := self._changed_lengths(change):
                self._pad(self._groups_of(lengths), lengths, inputs)
                self._say(change)
        return True

    def _use(self, way: Way, inputs: Sequence[Any] | None = None) -> None:
        compiled = self._compiled
        entries = None if inputs is None else way.executor.measure(inputs)
        if entries is None or is_worth(entries, compiled.installed.executor.entries):
            way.stats.go_on_from(compiled.stats)
            self._for_all = None
            self._forget_padding()
            compiled.install(way)
        else:
            self._for_all = way

    def way(self, numbers: Collection[int]) -> Way | None:
        """The way in which the inputs behind some values are data; None if none of them can be."""
        compiled, before = self._compiled, self._compiled.form
        form = self.sizes.extend(before, before.inputs_behind(numbers), compiled.form_of)
        if form is before:
            self._say()
            return None
        return compiled.way(form, Stats(dynamic_sizes=len(form.dynamic - before.dynamic)))

    def cut_results(
        self, change: NewSizeError | None = None, inputs: Sequence[Any] | None = None
    ) -> None:
        """Let sizes be data on which lengths of results depend: results are cut when they leave.

        Parameters
        ----------
        change
            The sizes; None for all that are static.
        inputs
            The values of a call, if there has been one.
        """
        if self._outer is not None:
            return  # it cuts them
        graph = self._compiled
        if change is not None and change.plan is not graph.plan:
            graph = self._padded or graph
        behind, count = {*graph.form.static}, float("inf") if change is None else change.count
        if change is not None:
            behind &= graph.form.inputs_behind(change.numbers)
        behind &= graph.changing.sizes.refused.keys()
        if sizes := self._to_cut(behind, count):
            many = count >= self._compiled.policy.limit
            self._pad(self._padding.groups, {}, inputs, sizes, many=many)

    # -- when a length has changed -----------------------------------------------------------------

    def _changed_lengths(self, change: NewSizeError) -> dict[Place, Sequence[int]]:
        """The dimensions that changed and may be padded, each with its lengths."""
        if self._outer is not None:
            return self._outer._changed_lengths(change)
        compiled, plan = self._compiled, (self._padded or self._compiled).plan
        # The start-up cache keeps code for each length.
        early = compiled.options.cache_dir is not None and change.count < compiled.policy.limit
        if compiled.options.dynamic is False or early or change.plan is not plan:
            return {}
        known = {place for group in self._padding.groups for place in group} | {*self._unpadded}
        return {
            place: seen
            for place, seen in change.lengths.items()
            if place not in known
            and place[0] < len(compiled.source.inputs)
            and (len({*seen}) > 1 or compiled.options.dynamic is True)
            and may_be_padded(compiled.source, place)
        }

    @cached_property
    def _related(self) -> Lengths:
        return Lengths(measured(self._compiled.source), usual=True)

    def _groups_of(self, lengths: Mapping[Place, Sequence[int]]) -> Groups:
        return groups_of(lengths, self._compiled.source, self._related, self._unpadded)

    def _pad(
        self,
        groups: Groups,
        lengths: Mapping[Place, Sequence[int]],
        inputs: Sequence[Any] | None,
        further: frozenset[int] = frozenset(),
        *,
        many: bool = True,
    ) -> None:
        """Have arguments padded and results cut from now on, as many of them as break nothing.

        Parameters
        ----------
        groups
            The dimensions of arguments.
        lengths
            For those that were not padded before, the lengths that they had, the present one last.
        inputs
            The values of a call, if there has been one.
        further
            Sizes that become data, because results of their length are cut.
        many
            Whether these have had many values.  Otherwise they have to be worth it.
        """
        compiled, first = self._compiled, len(self._compiled.source.inputs)
        wanted, unbounded = further.union(self._padding.sizes), set(self._padding.unbounded)
        sizes = wanted
        while (groups, sizes) != (self._padding.groups, frozenset(self._padding.sizes)):
            numbers = range(first, first + len(groups))
            graph = padded_graph(compiled.source, groups, sorted(unbounded))
            data = {*numbers, *sizes, *(self.sizes.dynamic if sizes else ())}
            padded = compiled.padded(graph, data, groups)
            refused = padded.changing.static_among([*numbers, *sizes])
            if not refused:
                padding = Padding(
                    groups, bucket_of(None), tuple(sorted(sizes)), tuple(sorted(unbounded))
                )
                if further and inputs is not None and not many:
                    cutting = replace(padding, bucket=self._padding.bucket)
                    if not is_worth_cutting(compiled, padded, cutting, inputs):
                        self._costly |= further
                        return
                self._install(padded, padding, lengths, inputs)
                break
            if needed := sizes.intersection(refused):
                # No array may bound them.  Those that are needed for more are refused again.
                sizes -= needed & unbounded
                unbounded ^= needed
                continue
            # One at a time: others may break nothing without it.  What is padded now comes first.
            last = max(refused)
            self._unpadded |= dict.fromkeys(groups[last - first], refused[last])
            groups = tuple(group for k, group in enumerate(groups, first) if k != last)
            sizes, unbounded = wanted, set(self._padding.unbounded)
        self._needed |= wanted - sizes

    def _install(
        self,
        padded: CompiledGraph,
        padding: Padding,
        lengths: Mapping[Place, Sequence[int]],
        inputs: Sequence[Any] | None,
    ) -> None:
        """Use a graph of padded arguments and cut results from now on; see `_pad`."""
        compiled, groups = self._compiled, padding.groups
        known = groups and not padding.sizes
        self._kept = {
            tuple(length_of_group(group, each) for group in groups)
            for each in (with_programs(lengths, self._kept, self._padding.groups) if known else ())
        }
        before = len(self._padding.groups) + len(self._padding.sizes)
        compiled.stats.dynamic_sizes += len(groups) + len(padding.sizes) - before
        self._suit = SuitedBuckets(padded, padding)
        self._padding = padding if inputs is None else self._suit(inputs)
        self._padded, padded.when_installed = padded, self._dispatch
        self._dispatch()

    def _dispatch(self) -> None:
        """Send calls to the programs for their lengths from now on."""
        compiled, padded = self._compiled, self._padded
        assert padded is not None
        compiled.stats.padded = padded.stats
        compiled.executor = Dispatch(
            compiled.installed.executor,
            padded,
            self._padding,
            self._suit,
            compiled.stats,
            kept=self._kept,
            limit=compiled.policy.limit,
            specialises=compiled.options.dynamic is not True,
            unequal=self._unequal,
            regroup=self.finish,
        )

    def _change_padded(self, inputs: Sequence[Any], change: NewSizeError) -> None:
        """Let further sizes of the graph of padded arguments be data."""
        compiled, padded, lengths = self._compiled, self._padded, self._padding.lengths(inputs)
        assert padded is not None
        assert lengths is not None
        if new := self._changed_lengths(change):
            self._pad((*self._padding.groups, *self._groups_of(new)), new, inputs)
        else:
            buckets = self._suit(inputs).buckets(lengths)
            values = self._padding.pad(inputs, lengths, buckets, compiled.stats)
            padded.changing.make_dynamic(values, change)
            if change.plan is padded.plan:  # no value became data
                self.cut_results(change, inputs)
        self._say(change)

    def _unequal(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Finish a call in which arguments have different lengths that never had.

        Where PyTensor has a value for them, they were equally long by chance.
        """
        compiled = self._compiled
        outputs = compiled.fall_back(inputs, None, plan=compiled.plan)
        with compiled.lock:
            groups = divided(self._padding.groups, inputs)
            if len(groups) > len(self._padding.groups):
                self._pad(groups, {}, inputs)
                self._say()
        return outputs

    # -- what became of them -----------------------------------------------------------------------

    def static_among(self, positions: Collection[int]) -> dict[int, str]:
        """The inputs among some that select specialisations, each with the reason."""
        static = set(self._compiled.form.static).intersection(positions)
        return {k: self.sizes.refused.get(k, "JAX must know it") for k in sorted(static)}

    def described(self) -> tuple[str, ...]:
        """Each size that changed, and what became of it."""
        compiled, view = self._compiled, self._compiled.view
        names = [view.expression_of(number) for number in view.inputs]
        limit = None if self._for_all is None else compiled.policy.limit
        lengths = described_lengths(names, self._padding, self._unpadded)
        return (*self.sizes.described(names, limit, described_bounds(self._padding)), *lengths)

    def _say(self, *changes: NewSizeError) -> None:
        """Tell what became of the sizes, in the explanation and in the log."""
        self._compiled.forget_explanation()
        Topic.RECOMPILES.log(lambda: "; ".join([*map(str, changes), *self.described()]))
