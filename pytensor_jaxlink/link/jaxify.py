"""Pure JAX functions straight from PyTensor variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytensor.compile.maker import function as compile_function
from pytensor.compile.mode import get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MissingInputError

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.link.jax_function import JAXFunction
from pytensor_jaxlink.link.linker import JAXLinker, mode_of
from pytensor_jaxlink.link.modes import MODE_NAME
from pytensor_jaxlink.pure_function import PureFunction
from pytensor_jaxlink.trees import Trees


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
        jax.tree.structure({}),
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
