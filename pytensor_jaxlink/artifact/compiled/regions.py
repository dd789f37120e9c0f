"""Regions that were compiled to StableHLO when they were saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import export

from pytensor_jaxlink.artifact.compiled.dimensions import why_not
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.sparse_values import SparseValue

Leaf = tuple[tuple[int | str, ...], str]
"""A shape, in which strings are open dimensions, and a dtype."""


class NotSavedError(ArtifactError):
    """A saved function is called with sizes for which it holds no code."""


@dataclass
class Specialisation:
    """The code of a region for some static values, and shapes or families of shapes.

    Attributes
    ----------
    static
        The values.
    arguments, results
        The form of each: None for an array, else the shape and format of a sparse matrix.
    leaves
        The arrays that it takes.
    constraints
        What holds for the open dimensions, as texts such as ``"n >= 3"``.
    blob
        The code, serialised by `jax.export`.
    """

    static: tuple[Any, ...]
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    leaves: tuple[Leaf, ...]
    constraints: tuple[str, ...]
    blob: bytearray
    _exported: Any = field(default=None, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether it is for more than one combination of shapes."""
        return any(isinstance(length, str) for shape, _ in self.leaves for length in shape)

    def why_not(
        self, static: Sequence[Any], arguments: Sequence[Any], names: Sequence[str] = ()
    ) -> str | None:
        """What it is for, where that does not fit a call; else None."""
        if tuple(static) != self.static:
            values = zip(names, self.static, strict=False)
            return ", ".join(f"{name} = {value}" for name, value in values) or "other values"
        forms = tuple(map(form_of, arguments))
        if forms != self.arguments:
            return f"the sparse shapes {_listed(self.arguments)}"
        leaves = jax.tree_util.tree_leaves(list(arguments))
        return why_not([shape for shape, _ in self.leaves], self.constraints, leaves)

    def __call__(self, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """The results and the conditions of the region."""
        if self._exported is None:
            self._exported = self._deserialized()
        leaves = [
            jax.numpy.asarray(leaf, dtype=dtype)
            for leaf, (_, dtype) in zip(
                jax.tree_util.tree_leaves(list(arguments)), self.leaves, strict=True
            )
        ]
        found, conditions = self._exported.call(*leaves)
        rest = iter(found)
        return tuple(_result(form, rest) for form in self.results), conditions

    def _deserialized(self) -> Any:
        try:
            exported = export.deserialize(self.blob)
            taken = [str(each.dtype) for each in exported.in_avals]
        except ImportError as error:
            raise ArtifactError(
                "running saved code needs the package flatbuffers, which is not installed: "
                "pip install 'pytensor_jaxlink[save]', or load(path, prefer='graph')."
            ) from error
        except Exception as error:  # whatever JAX, or what it reads with, finds wrong
            raise ArtifactError(
                f"JAX {jax.__version__} cannot read the code of a region, because it is damaged or "
                f"too old ({type(error).__name__}: {error!s:.200}). load(path, prefer='graph') "
                "compiles it anew."
            ) from error
        if taken != [dtype for _, dtype in self.leaves]:
            raise ArtifactError(
                f"the code of a region takes {taken}, and the file says it takes "
                f"{[dtype for _, dtype in self.leaves]}. Save the function again."
            )
        return exported


class SavedRegion:
    """A region as a function: ``(static, *arguments) -> (results, conditions)``."""

    def __init__(
        self, names: Sequence[str], specialisations: Sequence[Specialisation], reason: str
    ) -> None:
        self._names, self._specialisations, self._reason = names, specialisations, reason

    def __call__(
        self, static: Sequence[Any], *arguments: Any, fences: bool = False
    ) -> tuple[Any, Any]:
        """Run the code that fits.  It has the fences that it was exported with.

        Raises
        ------
        NotSavedError
            If none does; the message says for what there is code.
        """
        reasons = []
        for specialisation in self._specialisations:
            reason = specialisation.why_not(static, arguments, self._names)
            if reason is None:
                return specialisation(arguments)
            reasons.append(reason)
        given = [*static, *(np.shape(argument) for argument in arguments)]
        found = ", ".join(
            f"{name} = {value}" for name, value in zip(self._names, given, strict=True)
        )
        there = "; ".join(dict.fromkeys(reasons)) or f"nothing ({self._reason})"
        raise NotSavedError(
            f"no code was saved for {found}. There is code for {there}. Save the function with "
            "static={...} or after calls with these sizes, or load it with prefer='graph'."
        )


def form_of(value: Any) -> Any:
    """None for an array, else what is the same for all values of a sparse matrix."""
    return (*value.shape, value.format) if isinstance(value, SparseValue) else None


def _result(form: Any, rest: Any) -> Any:
    if form is None:
        return next(rest)
    rows, columns, kind = form
    return SparseValue(next(rest), next(rest), next(rest), (rows, columns), kind)


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))
