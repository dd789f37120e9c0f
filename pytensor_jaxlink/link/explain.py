"""Explaining without running."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytensor.compile.executor import Function
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import graph_inputs

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.link.explanation import Explanation
from pytensor_jaxlink.link.jax_function import JAXFunction
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.rewriting import keeping_lines, linked_rewriter


def explain(f: Function | Variable | Sequence[Variable]) -> Explanation:
    """How a function, or the graph of some outputs, would run under ``"JAXSELECTIVE"``.

    Nothing is run.  A function of another mode is explained from its graph as that mode rewrote
    it, which may name Ops of that mode's own.

    Parameters
    ----------
    f : Function, variable, or sequence of variables

    Returns
    -------
    Explanation

    Raises
    ------
    TypeError
        If it is something else.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> from pytensor_jaxlink import explain
    >>> x = pt.vector("x")
    >>> explain(x[: x.argmax(), None] * x).graph_break_count
    1
    """
    from pytensor_jaxlink.link.compiler import CompiledGraph

    if isinstance(f, JAXFunction):
        return f.explain()
    if isinstance(f, Function):
        fgraph = f.maker.fgraph.clone()
    else:
        outputs = _outputs(f)
        # The clone keeps the user's graph as it is.
        inputs = [v for v in graph_inputs(outputs) if not isinstance(v, Constant)]
        fgraph = FunctionGraph(inputs, outputs, clone=True)
    with keeping_lines(fgraph):
        linked_rewriter().rewrite(fgraph)
    return CompiledGraph(fgraph, Options()).explanation


def _outputs(given: object) -> list[Variable]:
    if isinstance(given, Variable):
        return [given]
    outputs = [*given] if isinstance(given, Iterable) else [given]
    variables = [each for each in outputs if isinstance(each, Variable)]
    if len(variables) != len(outputs):
        text = (
            "explain takes a PyTensor function, a variable, or a list of variables; "
            f"found {given!r:.80}"
        )
        raise TypeError(Code.NOT_EXPLAINED.mark(text))
    return variables
