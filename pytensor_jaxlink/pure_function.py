"""Pure functions of trees, over functions of flat values that were compiled here or loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import NotJittableError
from pytensor_jaxlink.generators import generator_of_key
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.trees import Trees, is_traced, value_for_jax


class FlatFunction(Protocol):
    """A function of inputs and state, each once."""

    @property
    def jax_fn(self) -> Callable[..., list[Any]]:
        """The function as JAX sees it."""
        ...

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The inputs that must be static under `jax.jit`."""
        ...

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The inputs that may be donated."""
        ...

    @property
    def updates(self) -> Mapping[int, int]:
        """The input that each updating output belongs to."""
        ...

    def explain(self) -> Any:
        """Regions, graph breaks and static inputs, in words."""
        ...


@dataclass(frozen=True, eq=False, repr=False)  # JAX hashes functions: by identity
class PureFunction:
    """A pure function of JAX values; `jaxify` makes it, and `load` where it was saved.

    ``fn(*inputs, *state)`` takes the inputs and, where the graph has shared variables, the value
    of each, in the order of `shared`.  It gives the outputs, or, where shared variables are
    updated, ``(outputs, new_state)``.  Nothing is read from shared variables or stored in them.

    Attributes
    ----------
    name : str
        What JAX calls the function.
    shared : tuple of shared variables
        Those whose values are the state.
    input_names : tuple of str
        Of each variable among the inputs, in the order in which JAX flattens them, and of `shared`:
        its name, or its place, as in ``"inputs[0]['weights']"``.
    output_names : tuple of str
        Of each variable among the outputs, likewise.
    function : JAXFunction or LoadedFunction
        The function of the variables, each of which it takes once.
    trees : Trees
        How arguments and results are made of what that takes and gives.
    """

    name: str
    shared: tuple[Any, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    function: FlatFunction
    trees: Trees

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *values: object) -> Any:
        """Give the outputs, or ``(outputs, new_state)`` where shared variables are updated."""
        count = len(self.trees.arguments)
        outputs, state = self.with_state(values[count:], *values[:count])
        return (outputs, state) if self.function.updates else outputs

    def with_state(self, state: Sequence[object], *inputs: object) -> tuple[Any, tuple[Any, ...]]:
        """``(outputs, new_state)``, whether or not there is a state and something updates it.

        Parameters
        ----------
        state
            The value of each shared variable.  None of it can be a size where JAX traces the state
            as a whole; ``fn(*inputs, *state)`` with `static_argnums` takes sizes.
        *inputs
            The inputs.
        """
        values = self.trees.flat(inputs, state)
        try:
            results = self.function.jax_fn(*values)
        except NotJittableError as error:
            explained = self._explained(values, error)
            if explained is error:
                raise
            raise explained from error
        updates = self.function.updates
        return self.trees.answer(results, values, updates, self._sizes() if updates else ())

    def initial_state(self) -> tuple[Any, ...]:
        """Copies of the present values of the shared variables.

        A generator is given as its key, two 32-bit words; a size as an int or a tuple of ints.
        """
        sizes, count = self._sizes(), len(self.trees.first)
        return tuple(
            value_for_jax(variable.get_value(return_internal_type=True), is_size=position in sizes)
            for position, variable in enumerate(self.shared, start=count)
        )

    def _sizes(self) -> tuple[int, ...]:
        """The inputs of the function that are sizes; where nothing is traced arrays will do."""
        with suppress(NotJittableError):
            return self.function.static_argnums
        return ()

    def store(self, state: Sequence[object]) -> None:
        """Put a state into the shared variables: a key as a generator, the rest as NumPy arrays.

        Arrays on several devices stay there.  A state that does not fit leaves all as they were.
        """
        import jax  # at first use: importing this package does not import JAX

        from pytensor_jaxlink.sparse_values import to_scipy

        before = [v.get_value(borrow=True, return_internal_type=True) for v in self.shared]
        try:
            for variable, value in zip(self.shared, state, strict=True):
                held = variable.get_value(borrow=True)
                if isinstance(held, np.random.Generator):
                    variable.set_value(generator_of_key(value))
                elif not isinstance(held, np.ndarray | np.generic | jax.Array):
                    variable.set_value(to_scipy(value))
                elif not is_traced(value) and _is_spread(value):
                    variable.set_value(value)
                else:
                    variable.set_value(_of_kind(value, variable.type.dtype))
        except BaseException:
            for variable, value in zip(self.shared, before, strict=True):
                variable.set_value(value, borrow=True)
            raise

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The arguments of ``fn(*inputs, *state)`` that must be static under `jax.jit`.

        Raises
        ------
        NotJittableError
            If no choice of static arguments lets JAX trace the function: it has graph breaks, or
            a size is given in one argument with arrays, or in a list or dict.
        """
        return self.trees.static_argnums(self.function.static_argnums)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arguments that may be donated to `jax.jit` as a whole, by the option ``donate``."""
        return self.trees.donate_argnums(self.function.donate_argnums)

    def explain(self) -> Any:
        """Regions, graph breaks and static inputs, in words."""
        return self.function.explain()

    def __repr__(self) -> str:
        names = self.input_names
        return f"<{self.name}({', '.join(names)}) -> ({', '.join(self.output_names)})>"

    def _explained(self, values: Sequence[object], error: NotJittableError) -> NotJittableError:
        """The error for values of which JAX traces some that must be known."""
        try:
            sizes = self.function.static_argnums
        except NotJittableError as blockers:
            return blockers
        traced = [self.trees.name_of(k) for k in sizes if is_traced(values[k])]
        if not traced:
            return error  # of a gradient, say: the function itself is in order
        return NotJittableError(
            f"JAX traces {', '.join(traced)}, and {self.name} needs the value while it is "
            f"traced. {Remedy.STATIC_ARGUMENT_OF_PURE.text()}.",
            code=Code.TRACED_SIZE,
        )


def _is_spread(value: object) -> bool:
    sharding = getattr(value, "sharding", None)
    return sharding is not None and len(sharding.device_set) > 1


def _of_kind(value: object, dtype: str) -> np.ndarray:
    """An array in a dtype of the same kind: a real number is no integer, which PyTensor says."""
    array = np.asarray(value)
    same = np.can_cast(array.dtype, dtype, "same_kind")
    return array.astype(dtype, copy=False) if same else array
