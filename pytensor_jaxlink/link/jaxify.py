"""Pure JAX functions straight from PyTensor variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.compile.maker import function as compile_function
from pytensor.compile.mode import get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MissingInputError

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import NotJittableError
from pytensor_jaxlink.generators import generator_of_key
from pytensor_jaxlink.link.explanation import Explanation
from pytensor_jaxlink.link.jax_function import JAXFunction
from pytensor_jaxlink.link.linker import JAXLinker, mode_of
from pytensor_jaxlink.link.modes import MODE_NAME
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.trees import Trees, is_traced, value_for_jax


@dataclass(frozen=True, eq=False, repr=False)  # JAX hashes functions: by identity
class PureFunction:
    """A pure function of JAX values; `jaxify` makes it.

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
    function : JAXFunction
        The function of the variables, each of which it takes once.
    trees : Trees
        How arguments and results are made of what that takes and gives.
    """

    name: str
    shared: tuple[SharedVariable, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    function: JAXFunction
    trees: Trees

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *values: object) -> Any:
        """Give the outputs, or ``(outputs, new_state)`` where shared variables are updated."""
        count = len(self.trees.arguments)
        outputs, state = self.with_state(values[count:], *values[:count])
        return (outputs, state) if self._updates else outputs

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
        sizes = self._sizes() if self._updates else ()
        return self.trees.answer(results, values, self._updates, sizes)

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

        Arrays on several devices stay there.
        """
        import jax  # at first use: importing this package does not import JAX

        for variable, value in zip(self.shared, state, strict=True):
            if isinstance(variable.get_value(borrow=True), np.random.Generator):
                variable.set_value(generator_of_key(value))
            else:
                dtype = variable.type.dtype
                spread = isinstance(value, jax.Array) and len(value.sharding.device_set) > 1
                variable.set_value(value if spread else np.asarray(value, dtype))

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

    def explain(self) -> Explanation:
        """Regions, graph breaks and static inputs, in words."""
        return self.function.explain()

    def __repr__(self) -> str:
        names = self.input_names
        return f"<{self.name}({', '.join(names)}) -> ({', '.join(self.output_names)})>"

    @property
    def _updates(self) -> Mapping[int, int]:
        """The input that each updating output belongs to."""
        updates: Any = self.function.maker.fgraph.update_mapping
        return updates

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


def jaxify(
    inputs: Any,
    outputs: object,
    *,
    updates: Any = None,
    givens: object = None,
    mode: Any = MODE_NAME,
    name: str = "jaxified",
    **options: Any,
) -> PureFunction:
    """A pure JAX function of PyTensor variables, for `jax.jit`, `jax.grad`, `jax.vmap` and others.

    The graph is rewritten and lowered as `pytensor.function` does it under ``"JAXSELECTIVE"``.
    JAX can trace it where it has no graph break; with concrete values it runs whatever the graph.
    Checks are dropped, and numbers have the types that JAX is configured for.

    Parameters
    ----------
    inputs : pytree of variables
        A list or tuple: one argument for each entry, which may be a nested dict, list or tuple of
        variables.  Anything else is the one argument.  Inputs that nothing depends on are ignored.
        A variable may be several leaves, which then have to be given the same value; JAX's
        gradient with respect to it is at the first of them.
    outputs : pytree of variables
        What the function returns, in the same structure.
    updates : dict or list of pairs, optional
        New values of shared variables, as in `pytensor.function`.  Default updates (of random
        generators) are added.
    givens : dict or list of pairs, optional
        What to replace in the graph.  A value that is no variable becomes a constant.
    mode : optional
        ``"JAXSELECTIVE"``, a `JAXLinker` or a mode that has one.
    name : str
        What JAX calls the function.
    **options
        Of `JAXLinker`, instead of a mode: ``host_ops="error"``, say.

    Returns
    -------
    PureFunction

    Raises
    ------
    MissingInputError
        If an output depends on a variable that is none of the inputs.
    TypeError
        If something among the inputs or outputs is no variable, or the mode is not ours.

    Examples
    --------
    >>> import jax, numpy as np, pytensor, pytensor.tensor as pt
    >>> from pytensor_jaxlink import jaxify
    >>> x = pt.vector("x", dtype="float64")
    >>> line = {"slope": pt.dscalar("slope"), "start": pt.dscalar("start")}
    >>> loss = ((line["slope"] * x + line["start"]) ** 2).sum()
    >>> fn = jaxify([line, x], loss)
    >>> jax.grad(fn)({"slope": 2.0, "start": 1.0}, np.arange(3.0))
    {'slope': Array(26., dtype=float64...), 'start': Array(18., dtype=float64...)}

    With shared variables the state goes in and comes out:

    >>> total = pytensor.shared(np.zeros(()), "total")
    >>> fn = jaxify([x], x * 2, updates={total: total + x.sum()})
    >>> doubled, state = jax.jit(fn)(np.arange(3.0), *fn.initial_state())
    >>> state
    (Array(3., dtype=float64),)
    """
    import jax  # at first use: importing this package does not import JAX

    if options:
        if mode != MODE_NAME:
            text = f"jaxify takes a mode or options ({', '.join(options)}), not both"
            raise TypeError(Code.NOT_PURE.mark(text))
        mode = JAXLinker(**options)
    mode = mode_of(mode) if isinstance(mode, JAXLinker) else get_mode(mode)
    if not isinstance(mode.linker, JAXLinker):
        text = f"jaxify needs mode {MODE_NAME!r} or one with a JAXLinker, not {mode!r}"
        raise TypeError(Code.NOT_PURE.mark(text))
    arguments = tuple(inputs) if type(inputs) in (list, tuple) else (inputs,)
    leaves, input_names = _flatten(arguments, "inputs")
    variables = list(dict.fromkeys(leaves))
    results, output_names = _flatten(outputs, "outputs")
    replaced = [
        (old, new if isinstance(new, Variable) else old.type.constant_type(old.type, new))
        for old, new in _pairs(givens)
    ]
    try:
        function = compile_function(
            variables,
            results,
            updates=updates,
            givens=replaced,
            mode=mode,
            name=name,
            on_unused_input="ignore",
        )
    except MissingInputError as error:
        roots = [*results, *[new for _, new in [*_pairs(updates), *replaced]]]
        raise _missing(roots, variables, replaced, input_names) or error from None
    assert isinstance(function, JAXFunction)
    shared = tuple(function.get_shared())
    state_names = [variable.name or str(variable) for variable in shared]
    trees = Trees(
        name,
        tuple(map(jax.tree.structure, arguments)),
        jax.tree.structure(outputs),
        tuple(map(variables.index, leaves)),
        (*input_names, *state_names),
    )
    return PureFunction(
        name,
        shared,
        (*input_names, *state_names),
        tuple(output_names),
        function,
        trees,
    )


def _flatten(tree: object, what: str) -> tuple[list[Variable], list[str]]:
    """The variables of a pytree, and a name for each."""
    import jax  # at first use: importing this package does not import JAX

    variables, names = [], []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        place = what + jax.tree_util.keystr(path)
        if not isinstance(leaf, Variable):
            raise TypeError(Code.NOT_PURE.mark(f"{place} is no variable: {leaf!r}"))
        variables.append(leaf)
        names.append(leaf.name or place)
    return variables, names


def _pairs(replacements: Any) -> list[tuple[Any, Any]]:
    if isinstance(replacements, Mapping):
        return list(replacements.items())
    return list(replacements or ())


def _missing(
    roots: Sequence[object],
    inputs: Sequence[Variable],
    replaced: Sequence[tuple[object, object]],
    names: Sequence[str],
) -> MissingInputError | None:
    """The error that names all variables which have no value."""
    known = {*inputs, *[old for old, _ in replaced]}
    found = [
        variable
        for variable in ancestors([root for root in roots if isinstance(root, Variable)], known)
        if variable.owner is None
        and variable not in known
        and not isinstance(variable, Constant | SharedVariable)
    ]
    if not found:
        return None
    return MissingInputError(
        Code.NOT_PURE.mark(
            f"the outputs depend on {', '.join(map(str, found))}, and the inputs are "
            f"{', '.join(names) or 'none'}: add what is missing to `inputs`, or give it by `givens`"
        )
    )
