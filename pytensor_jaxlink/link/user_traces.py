"""A graph as the user traces it: one pure function, whose static arguments the user names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.core import Tracer
from pytensor.graph.basic import Apply
from pytensor.graph.type import Type
from pytensor.tensor.random.type import RandomType

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import (
    FAILED_NODE,
    FAILED_ON_HOST,
    JAXLinkError,
    NotJittableError,
    UntranspilableOpError,
)
from pytensor_jaxlink.generators import generator_of_key
from pytensor_jaxlink.graph import as_kind, op_name
from pytensor_jaxlink.link.dynamic import Sizes
from pytensor_jaxlink.link.explanation import describe_break
from pytensor_jaxlink.link.form import Form
from pytensor_jaxlink.link.own_gradients import (
    Trace,
    differentiated,
    has_own_gradients,
    with_own_gradients,
)
from pytensor_jaxlink.link.refusals import not_jittable
from pytensor_jaxlink.link.sketch import sketch_of
from pytensor_jaxlink.lowering import Lowered, SidesDifferError, as_static, unread
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import Executor, Stats, pure_arguments

if TYPE_CHECKING:
    from pytensor_jaxlink.link.analyses import Analyses
    from pytensor_jaxlink.link.compiler import CompiledGraph


class UserTraces:
    """A compiled graph where the user holds the jit.

    There nobody could cut a result, and the values of integer vectors among the inputs may be data
    (the counts of `repeat`), because the user says which arguments are static, and so asks for each
    compilation.
    """

    def __init__(self, compiled: CompiledGraph, analyses: Analyses) -> None:
        self._compiled, self._analyses = compiled, analyses
        self._made: dict[bool, _Traced] = {}
        self._outputs: Trace = self._values
        if has_own_gradients(compiled):
            kinds = [variable.type for variable in compiled.source.outputs]
            self._outputs = differentiated(self._values, lambda: self._kept.for_user.trace, kinds)

    @cached_property
    def _kept(self) -> CompiledGraph:
        return with_own_gradients(self._compiled)

    def _traced(self, *, dynamic: bool = False) -> _Traced:
        """The plan.

        If ``dynamic``, sizes are data wherever they can be.
        """
        if dynamic not in self._made:
            compiled = self._compiled
            form_of = partial(compiled.form_of, cut=False)
            is_other = compiled.form.dynamic or compiled.form.partition.cuts
            form = form_of(frozenset()) if is_other else compiled.form
            if dynamic:
                form = Sizes().extend(form, form.static, form_of)
            form = self._analyses.with_vectors_as_sizes(form)
            lowered = self._analyses.lower(form)
            tracer = compiled.executor_of(lowered, Stats(), jit=False, fallback=None)
            self._made[dynamic] = _Traced(form, lowered, tracer)
        return self._made[dynamic]

    def refuse(self, *, dynamic: bool = False) -> None:
        """Raise `NotJittableError` where JAX cannot trace the graph as a whole."""
        found = self._traced(dynamic=dynamic)
        if cuts := found.form.partition.breaks:
            sketch = sketch_of(found.lowered)
            raise not_jittable([describe_break(found.form.view, cut, sketch) for cut in cuts])

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The positions of `trace` that must be static under `jax.jit`."""
        dynamic = self._compiled.options.dynamic is True
        self.refuse(dynamic=dynamic)
        return self._traced(dynamic=dynamic).form.static

    def trace(self, values: Sequence[object]) -> list[Any]:
        """The outputs and updates for values of the inputs and shared variables."""
        return self._outputs(values)

    def _values(self, values: Sequence[object]) -> list[object]:
        view, source = self._compiled.view, self._compiled.source
        if (refused := self._compiled.refusal()) is not None:
            raise refused
        names = [view.expression_of(number) for number in view.inputs]
        kinds = [as_kind(each.type) if source.clients[each] else None for each in source.inputs]
        values = pure_arguments(values, names, kinds)
        with unread():
            try:
                return self._tracer(values).trace(values)
            except NotJittableError:
                self.refuse(dynamic=self._compiled.options.dynamic is True)  # and says where
                raise
            except Exception as error:
                explained = self._of_rule(error)
                if explained is error and not self._learns(error, values):
                    explained = _of_branch(error)
                    if explained is error:
                        raise
                if explained is not error:
                    raise explained from error
        return self._compiled.trace(*values)  # by the new plan

    def _learns(self, error: Exception, values: Sequence[object]) -> bool:
        """Note that JAX is wrong about a node, as a call does, where nobody traces.

        Returns True if there is a new plan.
        """
        is_rules = hasattr(error, FAILED_NODE) and not hasattr(error, FAILED_ON_HOST)
        if not is_rules or isinstance(error, JAXLinkError):
            return False
        staged = jax.numpy.negative(0)  # a tracer where somebody traces a function without inputs
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves([staged, *values])):
            return False
        compiled, plan = self._compiled, self._compiled.plan
        kinds = [variable.type for variable in compiled.source.inputs]
        try:
            compiled.fall_back(list(map(_of_host, values, kinds)), error, plan=plan)
        except JAXLinkError:
            raise
        except Exception:  # it is no failure of JAX's
            return False
        return compiled.plan is not plan

    def _tracer(self, values: Sequence[object]) -> Executor:
        """The executor for these values: sizes that JAX traces are data where they can be."""
        found = self._traced()
        if self._compiled.options.dynamic is not False and any(
            isinstance(values[position], Tracer) for position in found.form.static
        ):
            found = self._traced(dynamic=True)
        return found.tracer

    def _of_rule(self, error: Exception) -> Exception:
        """The error where a JAX implementation that may not run on the host fails."""
        node: Apply | None = getattr(error, FAILED_NODE, None)
        forbidden = self._compiled.options.host_ops == "error"
        if not forbidden or node is None or isinstance(error, JAXLinkError):
            return error
        rules = self._analyses.rules
        if not rules.is_foreign(node):
            return error
        failed = rules.failure(node, error)
        return UntranspilableOpError(
            f'{op_name(node.op)}: {failed.reason}, and host_ops="error" forbids to run it on the '
            f"host. {failed.remedy}.",
            code=Code.HOST_FORBIDDEN,
        )


def _of_branch(error: Exception) -> Exception:
    """The error where JAX traces both sides of a branch, and they differ."""
    if not isinstance(error, SidesDifferError):
        return error
    explained = NotJittableError(
        f"ifelse: {error}, and JAX traces both: {Remedy.SAME_SHAPES.text()}"
    )
    explained.__notes__ = list(error.__notes__)  # where it was written
    return explained


@dataclass(frozen=True)
class _Traced:
    """The form that the user traces, what was lowered, and what runs that."""

    form: Form
    lowered: Lowered
    tracer: Executor


def _of_host(value: object, kind: Type) -> object:
    """A value as PyTensor's own implementations take it."""
    if isinstance(kind, RandomType):
        return value if isinstance(value, np.random.Generator) else generator_of_key(value)
    return value if isinstance(value, jax.Array) else as_static(value, kind)
