"""A loaded function of JAX: its arguments and results are trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytensor_jaxlink.artifact.compiled.calling import Calling
from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.runtime import ARRAY
from pytensor_jaxlink.trees import is_traced


class TreeFunction(LoadedFunction):
    """A saved function of JAX: arguments and results are as the saved one has them.

    It reads the arrays that it was saved with, `state`.

    Attributes
    ----------
    trees
        How arguments and results are made of the flat values that the plan takes and gives.
    """

    def __init__(self, calling: Calling, *parts: Any) -> None:
        super().__init__(*parts)
        self._calling, self.trees = calling, calling.trees
        for cell in self.state:
            cell.keep_on_device()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Evaluate the function; with values that JAX traces, trace it."""
        values = self._calling.values(args, kwargs)
        if any(type(value) is not ARRAY and is_traced(value) for value in values):
            state = [cell[0] for cell in self._storage[len(values) :]]
            return self._calling.answer(super().jax_fn(*values, *state))
        return self._calling.answer(super().__call__(*values))

    @property
    def jax_fn(self) -> Callable[..., Any]:
        """The pure function ``(*arguments, *state, **keywords) -> results``, of trees."""
        return self._with_state

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

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the leaves of the arguments, then of the state."""
        return self.trees.names

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that must be static under `jax.jit`.

        Raises
        ------
        NotJittableError
            If an argument holds arrays beside static values.
        """
        return self.trees.static_argnums(super().static_argnums)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` all of whose leaves may be donated to `jax.jit`."""
        return self.trees.donate_argnums(self._donatable_inputs(super().static_argnums))
