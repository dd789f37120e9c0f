"""A workload: a PyTensor graph, and what a JAX programmer would have written instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytensor.tensor as pt


@dataclass(frozen=True)
class Workload:
    """A graph and a hand-written function that take and return the same.

    Attributes
    ----------
    name
        As in the tables.
    inputs, outputs
        Of the PyTensor graph; gradients are made by `pytensor.grad`.
    arguments
        One NumPy array for each input, data included: nobody closes over anything.
    by_hand
        The same in JAX, not jitted.  It may nest its results.
    """

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    arguments: tuple[np.ndarray, ...]
    by_hand: Callable[..., Any]


def value_and_gradient(
    name: str,
    inputs: Mapping[Any, np.ndarray],
    cost: Any,
    by_hand: Callable[..., Any],
    parameters: int = 1,
) -> Workload:
    """The cost and its gradient in the first inputs, both ways."""
    variables = tuple(inputs)
    gradients = pt.grad(cost, list(variables[:parameters]))
    return Workload(
        name,
        variables,
        (cost, *gradients),
        tuple(inputs.values()),
        jax.value_and_grad(by_hand, argnums=tuple(range(parameters))),
    )
