"""Sizes that are data: which inputs of a function may be, and why others select specialisations.

A size whose value changes would be compiled for again and again.  As data it is an argument of its
region, and what it cuts is a mask (`rewriting.masks`), if every path from it ends in something of a
length that does not depend on it.  The words are those of torch.compile's ``dynamic``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pytensor_jaxlink.graph import GraphView, user_location
from pytensor_jaxlink.link.form import Form
from pytensor_jaxlink.partition import Cut


@dataclass
class Sizes:
    """The sizes of a function that are data, and those that cannot be.

    Attributes
    ----------
    dynamic
        The positions of the inputs that are data.
    refused
        The positions of those that select specialisations all the same, each with the reason.
    cut
        Whether results may be cut for it that are not cut for static sizes.
    """

    dynamic: frozenset[int] = frozenset()
    refused: dict[int, str] = field(default_factory=dict)
    cut: bool = False

    def extend(
        self, base: Form, positions: Collection[int], form_of: Callable[[frozenset[int]], Form]
    ) -> Form:
        """The form in which further sizes are data, as many of them as break nothing.

        Cost: an analysis of the graph for each round; a round refuses at least one size.

        Parameters
        ----------
        base
            The present form.
        positions
            The inputs that are asked for.
        form_of
            Makes the form in which some inputs are data.
        """
        wanted = set(base.static).intersection(positions) - self.refused.keys()
        while wanted:
            form = form_of(self.dynamic | wanted)
            cuts = _further(form, base, cut=self.cut)
            if not cuts:
                self.dynamic = form.dynamic
                return form
            blamed: dict[int, str] = {}
            for cut in cuts:
                for position in form.inputs_behind(_static_values(form, cut)) & wanted:
                    blamed.setdefault(position, _in_words(form.view, cut))
            blamed = blamed or dict.fromkeys(wanted, _in_words(form.view, cuts[0]))
            self.refused |= blamed
            wanted -= blamed.keys()
        return base

    def described(
        self, names: Sequence[str], limit: int | None, cut: Mapping[int, str]
    ) -> tuple[str, ...]:
        """Each size and what became of it, for inputs of these names.

        Parameters
        ----------
        names
            The names of the inputs.
        limit
            For how many values the dynamic sizes are static first; None if they are data.
        cut
            The inputs that are data because results are cut when they leave, each with the values
            that a program serves, or nothing if it serves all.
        """
        fate = "is data: one program serves all its values"
        if limit is not None:
            fate = (
                f"is static for {limit} values, because a program for all values does much more "
                "work, and data from then on"
            )
        return (
            *(f"{names[k]} {fate}" for k in sorted(self.dynamic)),
            *(
                f"{names[k]} has become data: one program serves all its values{up_to}, and "
                "results of a length that depends on it are cut when they leave"
                for k, up_to in sorted(cut.items())
            ),
            *(
                f"{names[k]} is static: {why}"
                for k, why in sorted(self.refused.items())
                if k not in cut
            ),
        )


LITTLE = 25_000
"""Entries; to compute as many takes less time than a call."""

_MUCH = 4


def with_loops_as_data(form: Form, form_of: Callable[[frozenset[int]], Form]) -> Form:
    """The form in which real numbers that loops make sizes of are data, those that can be."""
    numbers = form.numbers_in_loops
    return Sizes(form.dynamic, cut=True).extend(form, numbers, form_of) if numbers else form


def is_worth(padded: int, specialised: int) -> bool:
    """The rule of cost: whether a program for every value of a size replaces those for one value.

    Parameters
    ----------
    padded, specialised
        The entries that the one computes, and the largest of the others.
    """
    return padded <= max(LITTLE, _MUCH * specialised)


def _further(form: Form, base: Form, *, cut: bool) -> list[Cut]:
    """The breaks of a form that another one has not, and, unless these may be, the cut results."""
    known = Counter(
        _in_words(base.view, each) for each in (*base.partition.breaks, *base.partition.cuts)
    )
    found = []
    for each in form.partition.breaks if cut else (*form.partition.breaks, *form.partition.cuts):
        words = _in_words(form.view, each)
        if not known[words]:
            found.append(each)
        known[words] -= 1
    return found


def _static_values(form: Form, cut: Cut) -> Sequence[int]:
    return form.view.node_inputs[cut.node] if cut.fetched is None else (cut.fetched,)


def _in_words(view: GraphView, cut: Cut) -> str:
    operation, where = view.operation_of(cut.node), user_location(view, cut.node)
    return f"JAX must know it for {operation}, {where}"
