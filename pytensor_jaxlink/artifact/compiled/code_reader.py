"""Functions from the compiled layer of a file, whose documents have to fit each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pytensor_jaxlink.artifact.compiled.calling import Calling, TreeFunction
from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
from pytensor_jaxlink.artifact.compiled.saved_regions import (
    ArrayKind,
    Form,
    SavedRegion,
    Specialisation,
    arrays_of,
)
from pytensor_jaxlink.artifact.compiled.saved_state import SavedState
from pytensor_jaxlink.artifact.container import Container
from pytensor_jaxlink.artifact.documents import Parsed
from pytensor_jaxlink.artifact.records import reader
from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.artifact.values import DataReader
from pytensor_jaxlink.errors import CheckFailedError
from pytensor_jaxlink.plan import (
    ARRAYS,
    Executable,
    HostBranch,
    HostExecuted,
    HostLoop,
    HostStep,
    Plan,
    Region,
    Step,
    check_plan,
)
from pytensor_jaxlink.runtime import (
    Ending,
    Executor,
    Filter,
    Policy,
    Stats,
    argument_converter,
    hashable,
    is_out_of_memory,
)
from pytensor_jaxlink.size_functions import size_function, takes

MOST_KEPT = 64  # compilations by XLA of one region, for different shapes

HostOps = Callable[[object, HostStep], Callable[..., tuple[object, ...]]]
"""Makes the function of a host step that only PyTensor has, from its part of the file."""


class CompiledReader:
    """Makes functions from their compiled layer.

    ``host_ops`` makes functions of the host steps that need PyTensor, where there may be any;
    ``region`` those of regions.
    """

    def __init__(
        self,
        container: Container,
        data: DataReader,
        host_ops: HostOps | None = None,
        region: Callable[..., SavedRegion] = SavedRegion,
    ) -> None:
        self._container, self._data, self._host_ops = container, data, host_ops
        self._make_region = region

    def function(
        self,
        document: Parsed,
        signature: Signature,
        cells: Sequence[SavedState],
        defaults: Sequence[list[object] | None],
        float_type: str,
        policy: Policy,
        calling: Calling | None = None,
    ) -> LoadedFunction:
        """One function of the file; ``calling`` says how trees are given to it, where they are.

        ``defaults`` has for each input with a default a list that holds it, else None.
        """
        if calling is not None:
            policy = replace(policy, x64=calling.x64)
        executable = self.executable(document)
        runner = Executor(executable, Stats(), jit=True, fallback=_check_failed, policy=policy)
        tracer = Executor(executable, Stats(), jit=False, fallback=None)
        outputs = [*signature.outputs, *(spec for spec in signature.inputs if spec.updated)]
        kinds = tuple(spec.type for spec in outputs)
        ending = replace(reader(Ending)(document["ending"]), kinds=kinds)
        check_signature(signature, executable.plan, ending.overwritten)
        kind = LoadedFunction
        if calling is not None and not calling.pure:
            kind = partial(TreeFunction, calling)
        return kind(
            signature,
            cells,
            defaults,
            (runner, tracer),
            ending,
            [
                argument_converter(
                    each.name, each.type, Filter(each.strict, each.allow_downcast, float_type)
                )
                for each in signature.inputs
            ],
            [region for _, region in executable.regions],
        )

    def executable(self, document: Parsed) -> Executable:
        """The plan of a function, and what it needs to run."""
        plan = reader(Plan)(document["plan"])
        check_plan(plan)
        return self._executable(plan, document)

    def _executable(self, plan: Plan, document: Parsed) -> Executable:
        functions = tuple(
            self._step(step, described)
            for step, described in zip(plan.steps, document["functions"], strict=True)
        )
        constants = {number: self._data.value(each) for number, each in document["constants"]}
        check_constants(plan, document["functions"], constants)
        return Executable(plan, functions, constants)

    def _step(self, step: Step, described: Parsed) -> object:
        match step:
            case Region():
                return self._region(step, described)
            case HostLoop() | HostBranch():
                parts = zip(step.inner, described["parts"], strict=True)
                return HostExecuted(
                    step.operation, tuple(self._executable(*each) for each in parts)
                )
            case HostStep():
                return self._host_step(step, described)
        return None

    def _host_step(self, step: HostStep, described: Parsed) -> Callable[..., tuple[object, ...]]:
        if "size" in described:
            if not takes(described["size"], len(step.arguments)) or len(step.results) != 1:
                raise ValueError(f"{step.title} has other inputs and outputs than its arithmetic")
            return size_function(described["size"])
        if self._host_ops is None:
            raise ValueError(f"{step.title} on the host")
        return self._host_ops(described["op"], step)

    def _region(self, step: Region, described: Parsed) -> SavedRegion:
        where = f"{self._container.path}: region {step.index}"
        code = [self._specialisation(each, where) for each in described["code"]]
        for each in code:
            check_code(each, step)
        names = reader(tuple[str, ...])(described["names"])
        by_example, reason = "examples" in described, str(described["reason"])
        return self._make_region(step.index, names, code, reason, by_example=by_example)

    def _specialisation(self, described: Parsed, where: str) -> Specialisation:
        value = self._data.value
        return Specialisation(
            tuple(map(hashable, value(described["static"]))),
            reader(tuple[Form, ...])(described["arguments"]),
            reader(tuple[Form, ...])(described["results"]),
            reader(tuple[ArrayKind, ...])(described["leaves"]),
            dict(map(_bound, described["constraints"])),
            bytearray(self._container.read(described["blob"])),
            where,
        )


def _bound(constraint: str) -> tuple[str, int]:
    """The dimension and the least length of a text such as ``"n >= 3"``."""
    name, bound = constraint.split(" >= ")
    return name, int(bound)


def _check_failed(inputs: Sequence[object], error: BaseException | None) -> Sequence[object]:
    """The substitute for PyTensor's own implementation, which is not there."""
    if error is not None and is_out_of_memory(error):
        raise MemoryError(f"{error}") from error
    if error is not None:
        raise error
    raise CheckFailedError(
        "a check of the saved function is false for these arguments: an assertion, a specified "
        "shape, or an index or slice that reaches beyond an array. Where the file has its graph "
        "and PyTensor is installed, PyTensor finishes such a call, or says which check it is."
    )


# -- a defect of a file shows when it is loaded ----------------------------------------------------


def check_code(code: Specialisation, region: Region) -> None:
    """Raise `ValueError` if the code is not for that many values, or says of them what is none."""
    counts = [len(code.static), len(code.arguments), len(code.results), len(code.leaves)]
    expected = [len(part) for part in (region.static, region.arguments, region.results)]
    if counts != [*expected, arrays_of(code.arguments)]:
        raise ValueError(f"code of region {region.index} is for other values than the plan's")


def check_constants(plan: Plan, functions: Parsed, constants: Mapping[int, object]) -> None:
    """Raise `ValueError` if the constants are others, or of other kinds, than a plan takes.

    Those of Ops on the host may be anything.
    """
    if set(constants) != set(plan.constants):
        raise ValueError("the constants of a plan are not those that it names")
    pairs = zip(plan.steps, functions, strict=True)
    steps = [step for step, described in pairs if "op" not in (described or ())]
    for number in {number for step in steps for number in step.reads} & constants.keys():
        kind = "a matrix" if number in plan.sparse else "an array"
        is_array = isinstance(constants[number], np.ndarray | np.generic)
        if is_array == (number in plan.sparse):
            raise ValueError(f"constant {number} is {constants[number]!r:.80} and not {kind}")


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
            if kind.kind in ARRAYS and number in plan.generators | plan.sparse:
                raise ValueError(f"the plan {verb} no {kind.text} where the function does")
