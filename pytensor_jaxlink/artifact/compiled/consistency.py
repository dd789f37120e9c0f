"""Checks that the documents of a file fit each other: a defect shows when it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytensor_jaxlink.artifact.compiled.regions import Specialisation
from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.plan import Plan, Region


def check_code(code: Specialisation, region: Region) -> None:
    """Raise `ValueError` if the code is not for that many values, or says of them what is none."""
    counts = [len(code.static), len(code.arguments), len(code.results), len(code.leaves)]
    expected = [len(part) for part in (region.static, region.arguments, region.results)]
    if counts != [*expected, arrays_of(code.arguments)]:
        raise ValueError(f"code of region {region.index} is for other values than the plan's")
    if not all(map(_is_leaf, code.leaves)):
        raise ValueError(f"code of region {region.index} is for arrays that are none")


def check_signature(signature: Signature, plan: Plan, overwritten: Sequence[int]) -> None:
    """Raise `ValueError` if a plan does not take and give what the signature says."""
    inputs = [spec.type for spec in signature.inputs]
    outputs = [spec.type for spec in signature.outputs]
    outputs += [spec.type for spec in signature.inputs if spec.updated]
    outputs += [inputs[place] for place in overwritten]
    for verb, types, numbers in (("takes", inputs, plan.inputs), ("gives", outputs, plan.outputs)):
        if len(types) != len(numbers):
            raise ValueError(
                f"the plan {verb} {len(numbers)} values, and the function {len(types)}"
            )
        for kind, number in zip(types, numbers, strict=True):
            if kind.kind in ("array", "number") and number in plan.generators | plan.sparse:
                raise ValueError(f"the plan {verb} no {kind.text} where the function does")


def arrays_of(forms: Sequence[Any]) -> int:
    """How many arrays values of these forms are."""
    return sum(1 if form is None else 3 for form in forms)


def _is_leaf(leaf: Any) -> bool:
    match leaf:
        case (tuple(shape), str()):
            return all(isinstance(length, int | str) for length in shape)
        case _:
            return False
