"""A loaded function whose arguments and results are trees."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from pytensor_jaxlink.artifact.compiled.calling import Calling
from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import NotJittableError, NotSavedError
from pytensor_jaxlink.runtime import ARRAY
from pytensor_jaxlink.trees import is_traced, value_for_jax


class TreeFunction(LoadedFunction):
    """A saved function of trees: the same, with arguments and results as the saved one has them.

    A function of JAX reads the arrays that it was saved with, `state`.  One that `jaxify` made is
    pure: it is called as ``f(*arguments, *state)``, and gives ``(outputs, new_state)`` where it
    updates something; `initial_state` is the state that was saved.

    Attributes
    ----------
    trees
        How arguments and results are made of the flat values that the plan takes and gives.
    """

    def __init__(self, calling: Calling, *parts: Any) -> None:
        super().__init__(*parts)
        self._calling, self.trees = calling, calling.trees
        for cell in () if calling.pure else self.state:
            cell.keep_on_device()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Evaluate the function; with values that JAX traces, trace it."""
        if self._calling.pure:
            return self._pure(*args, **kwargs)
        values = self._calling.values(args, kwargs)
        if any(type(value) is not ARRAY and is_traced(value) for value in values):
            state = [cell[0] for cell in self._storage[len(values) :]]
            return self._calling.answer(super().jax_fn(*values, *state))
        return self._calling.answer(super().__call__(*values))

    @property
    def jax_fn(self) -> Callable[..., Any]:
        """The pure function ``(*arguments, *state, **keywords) -> results``, of trees."""
        return self._pure if self._calling.pure else self._with_state

    def _with_state(self, *args: object, **kwargs: object) -> object:
        count = self._calling.count
        state = args[count:]
        if len(state) != len(self.state):
            text = (
                f"{self.trees.name} takes {count} positional arguments, then the values of "
                f"{len(self.state)} arrays; found {len(args)}"
            )
            raise TypeError(Code.CALL_OF_PURE.mark(text))
        values = self._calling.values(args[:count], kwargs)
        return self._calling.answer(super().jax_fn(*values, *state))

    def _pure(self, *values: object) -> object:
        count = self._calling.count
        flat = self.trees.flat(values[:count], values[count:])
        try:
            results = super().jax_fn(*flat)
        except NotSavedError as error:
            return self._instead(error)(*values)
        start = len(self.signature.outputs)
        updates = {start + k: place for k, place in enumerate(self._updated)}
        outputs, state = self.trees.answer(results, flat, updates, self._sizes())
        return (outputs, state) if updates else outputs

    def initial_state(self) -> tuple[Any, ...]:
        """Copies of the values of the state: a generator as its key, a size as a number."""
        sizes, count = self._sizes(), len(self.trees.first)
        return tuple(
            value_for_jax(cell.get_value(return_internal_type=True), is_size=place in sizes)
            for place, cell in enumerate(self.state, start=count)
        )

    def _sizes(self) -> Collection[int]:
        with suppress(NotJittableError):
            return super().static_argnums
        return ()

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the leaves of the arguments, then of the state."""
        return self.trees.names

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the leaves of the results that are arrays."""
        return tuple(spec.name or spec.type.text for spec in self.signature.outputs)

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that must be static under `jax.jit`.

        Raises
        ------
        NotJittableError
            If JAX cannot trace the function, or an argument holds arrays beside static values.
        """
        return self.trees.static_argnums(super().static_argnums)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` all of whose leaves may be donated to `jax.jit`."""
        found = self._donatable()
        if found is None:
            return ()
        arrays = {k for k, spec in enumerate(self.signature.inputs) if spec.type.kind == "array"}
        return self.trees.donate_argnums(arrays & {*found.updated, *found.given} - {*self._sizes()})
