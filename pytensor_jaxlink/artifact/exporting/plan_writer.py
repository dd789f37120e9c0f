"""Plans as documents: the steps and constants of a compiled graph, and the code of its regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytensor.graph.basic import Apply

from pytensor_jaxlink.artifact.compiled.plan_documents import describe_plan
from pytensor_jaxlink.artifact.compiled.saved_regions import Specialisation
from pytensor_jaxlink.artifact.container import Member
from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.values import DataWriter
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.lowering import Lowered, Program
from pytensor_jaxlink.lowering.size_arithmetic import describe_size
from pytensor_jaxlink.plan import HostBranch, HostLoop, HostStep, Plan, Region, Step

Shapes = dict[int, tuple[int | str, ...]]
"""The lengths of the values of a plan that are known, as numbers, names and expressions."""


def describe_function(
    plan: Plan,
    part: dict[str, Json],
    *,
    overwritten: Sequence[int] = (),
    copied: Sequence[int] = (),
    as_numpy: bool = False,
) -> dict[str, Json]:
    """The document of a function: its plan, what `PlanWriter` says of it, and its `Ending`."""
    ending = {"overwritten": list(overwritten), "copied": list(copied), "as_numpy": as_numpy}
    return {**part, "plan": describe_plan(plan), "ending": ending}


class PlanWriter:
    """Describes plans.  This one has no code for regions yet, and refuses steps on the host.

    Parameters
    ----------
    data
        Describes the values.
    members
        The code of the regions is added to these.
    """

    def __init__(self, data: DataWriter, members: dict[str, Member]) -> None:
        self.data, self.members = data, members

    def part(self, lowered: Lowered, shapes: Shapes) -> dict[str, Json]:
        """The functions of the steps of a plan, and its constants.

        Parameters
        ----------
        lowered
            The plan.
        shapes
            Those of its inputs.
        """
        for number, value in lowered.constants.items():
            if (shape := getattr(value, "shape", None)) is not None:
                shapes[number] = tuple(shape)
        steps = zip(lowered.plan.steps, lowered.functions, strict=True)
        return {
            "functions": [self._step(lowered, step, function, shapes) for step, function in steps],
            "constants": [[k, self.data.value(value)] for k, value in lowered.constants.items()],
        }

    def _step(self, lowered: Lowered, step: Step, function: Any, shapes: Shapes) -> Json:
        match step:
            case Region():
                return self._region(step, function, shapes)
            case HostLoop() | HostBranch():
                return {"parts": [self.part(part, {}) for part in function.parts]}
            case HostStep():
                node = lowered.view.nodes[lowered.view.producer[step.results[0]]]
                size = describe_size(node) if step.folded else None
                return self._host_op(step, node) if size is None else {"size": size}
        return None

    def _region(self, region: Region, program: Program, shapes: Shapes) -> Json:
        return self.region([], [], "")

    def _host_op(self, step: HostStep, node: Apply) -> Json:
        text = f"{step.operation} runs on the host"
        raise ArtifactError(text, code=Code.STEP_ON_HOST)

    def region(
        self,
        names: Sequence[str],
        code: Sequence[Specialisation],
        reason: str,
        **more: Json,
    ) -> dict[str, Json]:
        """The document of a region: names of what it reads, its code, and why there is not more."""
        return {"names": names, "code": list(map(self._code, code)), "reason": reason, **more}

    def _code(self, code: Specialisation) -> Json:
        name = f"regions/{len(self.members)}.stablehlo"
        self.members[name] = [bytes(code.blob)]
        return {
            "static": self.data.value(code.static),
            "arguments": self.data.value(code.arguments),
            "results": self.data.value(code.results),
            "leaves": self.data.value(code.leaves),
            "constraints": list(code.constraints),
            "blob": name,
        }
