"""The compiled layer of functions: plans, code of regions, host steps, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from types import MappingProxyType
from typing import Any

from jax import export
from pytensor.configdefaults import config
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.type import RandomType

from pytensor_jaxlink.artifact.compiled.saved_regions import ArrayKind, Specialisation
from pytensor_jaxlink.artifact.container import Member
from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.exporting.dimensions import Dimensions, distinct, names_in
from pytensor_jaxlink.artifact.exporting.region_export import (
    Bounds,
    NoBackwardError,
    NotSymbolicError,
    Target,
    code_for_calls,
    export_for_dimensions,
    export_for_shapes,
)
from pytensor_jaxlink.artifact.exporting.statics import static_values
from pytensor_jaxlink.artifact.exporting.traced import TracedFunction
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter, is_generic_none
from pytensor_jaxlink.artifact.records import describe
from pytensor_jaxlink.artifact.values import DataWriter
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError, NotDifferentiableError
from pytensor_jaxlink.frames import warn_at_user_line
from pytensor_jaxlink.link.jax_function import JAXFunction
from pytensor_jaxlink.link.own_gradients import has_own_gradients
from pytensor_jaxlink.lowering import Lowered, Program
from pytensor_jaxlink.lowering.size_arithmetic import describe_size
from pytensor_jaxlink.ops import WhileLoop, held_dtype, held_type
from pytensor_jaxlink.plan import Executable, HostBranch, HostLoop, HostStep, Region, Step
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import Ending

Shapes = dict[int, tuple[int | str, ...]]
"""The lengths of the values of a plan that are known, as numbers, names and expressions."""


class PlanWriter:
    """Describes the plan of a function.  This one refuses steps on the host.

    ``data`` and ``members`` take what it is made of; ``code`` is that of the regions, where it is
    there, and ``by_example`` says that the user gave examples of calls.  The manifest has
    ``regions``, a line for each, and ``host_ops``, the Ops that need PyTensor.
    """

    def __init__(
        self,
        data: DataWriter,
        members: dict[str, Member],
        code: Mapping[int, Sequence[Specialisation]] = MappingProxyType({}),
        *,
        by_example: bool = False,
    ) -> None:
        self.data, self.members, self._given, self._by_example = data, members, code, by_example
        self.regions: list[str] = []
        self.host_ops: list[str] = []

    def function(self, executable: Executable, shapes: Shapes, ending: Ending) -> dict[str, Json]:
        """The document of a function: its plan, the rest of that, and the end of its calls."""
        return {
            **self._part(executable, shapes),
            "plan": describe(executable.plan),
            "ending": describe(ending),
        }

    def _part(self, executable: Executable, shapes: Shapes) -> dict[str, Json]:
        """The functions of the steps of a plan, and its constants; ``shapes`` are of its inputs."""
        constants = executable.constants.items()
        for number, value in constants:
            if (shape := getattr(value, "shape", None)) is not None:
                shapes[number] = tuple(shape)
        steps = zip(executable.plan.steps, executable.functions, strict=True)
        return {
            "functions": [self._step(executable, *step, shapes) for step in steps],
            "constants": [[number, self.data.value(value)] for number, value in constants],
        }

    def _step(self, executable: Executable, step: Step, function: Any, shapes: Shapes) -> Json:
        match step:
            case Region():
                names = [executable.plan.names[number] for number in step.reads]
                return self._region(step, names, *self._code(step, function, shapes))
            case HostLoop() | HostBranch():
                return {"parts": [self._part(part, {}) for part in function.parts]}
            case HostStep():
                assert isinstance(executable, Lowered), "of functions of JAX nothing is on the host"
                view = executable.view
                node = view.nodes[view.producer[step.results[0]]]
                size = describe_size(node) if step.folded else None
                return self._host_op(step, node) if size is None else {"size": size}
        return None

    def _code(
        self, region: Region, program: Program, shapes: Shapes
    ) -> tuple[Sequence[Specialisation], str]:
        """The code of a region, and why there is not more."""
        return self._given.get(region.index, ()), ""

    def _host_op(self, step: HostStep, node: Apply) -> Json:
        text = f"{step.operation} runs on the host"
        raise ArtifactError(text, code=Code.STEP_ON_HOST)

    def _region(
        self, region: Region, names: Sequence[str], code: Sequence[Specialisation], reason: str
    ) -> dict[str, Json]:
        sizes = "; ".join(each.sizes(names) for each in code) or f"no code: {reason}"
        self.regions.append(f"region {region.index}: {sizes}")
        described = list(map(self._described, code))
        more = {"examples": True} if self._by_example else {}
        return {"names": names, "code": described, "reason": reason, **more}

    def _described(self, code: Specialisation) -> Json:
        name = f"regions/{len(self.members)}.stablehlo"
        self.members[name] = [bytes(code.blob)]
        return {
            "static": self.data.value(code.static),
            "arguments": self.data.value(code.arguments),
            "results": self.data.value(code.results),
            "leaves": self.data.value(code.leaves),
            "constraints": code.constraints,
            "blob": name,
        }


def describe_layer(
    writers: Mapping[str, PlanWriter], target: Target, *, needs_pytensor: bool = False
) -> Json:
    """The text of the manifest about the compiled layer."""
    today = datetime.now(UTC).date()
    return {
        "functions": {
            name: {"regions": writer.regions, "host_ops": sorted({*writer.host_ops})}
            for name, writer in writers.items()
        },
        "platforms": list(target.platforms or [export.default_export_platform()]),
        "vjp_order": target.vjp_order,
        "needs_pytensor": needs_pytensor,
        "float_type": config.floatX,
        "saved_on": today.isoformat(),
        # JAX promises to read what it has exported for six months.
        "good_until": (today + timedelta(days=180)).isoformat(),
    }


Seen = Sequence[tuple[tuple[object, ...], Sequence[object]]]
"""The static values and the arguments of the calls of a region."""


@dataclass(frozen=True)
class Wanted:
    """The user's wishes for the compiled layer; see `pytensor_jaxlink.save`."""

    dims: Mapping[str, object] | None
    static: Mapping[str, Any]
    target: Target


def compiled_layer(
    named: Mapping[str, JAXFunction | TracedFunction],
    data: DataWriter,
    wanted: Wanted,
    members: dict[str, Member],
) -> Json:
    """Add the members of the compiled layer; returns what the manifest says of it."""
    host, code = GraphWriter(data), dict[str, Member]()
    document: dict[str, Json] = {}
    writers: dict[str, PlanWriter] = {}
    for name, function in named.items():
        if isinstance(function, TracedFunction):
            exported = {0: function.code(wanted.dims or {}, wanted.target)}
            writers[name] = writer = PlanWriter(data, code, exported, by_example=True)
            document[name] = writer.function(function.executable, {}, Ending())
        else:
            writers[name] = writer = _FunctionWriter(data, code, host, wanted, function)
            document[name] = writer.document(name)
    members |= {"compiled.json": [dump_document(document)], **code}
    if host.entries:
        members["host.json"] = [dump_document(host.entries)]
    return describe_layer(writers, wanted.target, needs_pytensor=bool(host.entries))


class _FunctionWriter(PlanWriter):
    """Writes the compiled layer of one function, with the code of its regions.

    Attributes
    ----------
    compiled
        What is written: code in a file cannot call back, so what JAX calls here is a host step.
    """

    def __init__(
        self,
        data: DataWriter,
        members: dict[str, Member],
        host: GraphWriter,
        wanted: Wanted,
        function: JAXFunction,
    ) -> None:
        super().__init__(data, members)
        self._host, self._wanted, self._function = host, wanted, function
        self.compiled = function.vm.compiled.without_callbacks()
        if wanted.target.vjp_order and has_own_gradients(self.compiled):
            text = (
                f"vjp_order={wanted.target.vjp_order}: the regions hold no operation that declares "
                "another gradient (zero_grad, grad_clip). Save with vjp_order=0, or save a "
                "function that returns the gradient."
            )
            raise ArtifactError(text, code=Code.NO_REVERSE_MODE)
        self._least: Bounds = {}
        self._without_code: list[str] = []
        plan = self.compiled.plan
        names = [plan.names[number] for number in plan.inputs]
        self._asked = [
            static_values(self.compiled.lowered, dict(zip(plan.inputs, values, strict=True)))
            for values in _assignments(names, self._wanted.static)
        ]

    def document(self, name: str) -> Json:
        """The document of the function."""
        ending = self._function.vm.ending
        document = self.function(self.compiled.lowered, self._shapes_of_inputs(), ending)
        if self._without_code:
            warn_at_user_line(
                f"{name or 'the function'}: no code is saved for "
                f"{'; '.join(self._without_code)}. {Remedy.CALL_FIRST.text()}, or "
                f"{Remedy.NAME_SIZES.text()}.",
                Code.CODE_NOT_SAVED,
            )
        return document

    def _shapes_of_inputs(self) -> Shapes:
        """The shapes of the function's inputs, open where the user allows it."""
        if self._wanted.dims is None:
            return {}
        maker, plan = self._function.maker, self.compiled.plan
        values = [
            container.storage[0] if spec.implicit else None
            for spec, container in zip(maker.inputs, self._function.input_storage, strict=True)
        ]
        names = [spec.name for spec in maker.inputs]
        view = self.compiled.lowered.view
        variables = (
            [view.variables[k] for k in numbers] for numbers in (view.inputs, view.outputs)
        )
        inputs, outputs = variables
        graphs = maker.given, FunctionGraph(inputs, outputs, clone=False)
        self._dimensions = Dimensions(graphs, names, self._wanted.dims, values)
        return {number: self._dimensions.of(place) for place, number in enumerate(plan.inputs)}

    # -- regions -------------------------------------------------------------------------------

    def _code(
        self, region: Region, program: Program, shapes: Shapes
    ) -> tuple[Sequence[Specialisation], str]:
        code: list[Specialisation] = []
        reasons: list[str] = []
        seen = self.compiled.stats.signatures[region.index]
        for static in self._statics(region, seen):
            try:
                found, reason = self._exported(region, program, static, shapes, seen)
            except NoBackwardError as error:
                text = self._no_backward(region, program)
                raise ArtifactError(text, code=Code.NO_REVERSE_MODE) from error
            code += found
            reasons += [reason] if reason else []
        reason = "; ".join(dict.fromkeys(reasons)) or "it was never called"
        if not code:
            self._without_code.append(f"region {region.index} ({reason})")
        return code, reason

    def _host_op(self, step: HostStep, node: Apply) -> Json:
        self.host_ops.append(step.operation)
        return {"op": _describe_op(node, self._host)}

    def _no_backward(self, region: Region, program: Program) -> str:
        order = self._wanted.target.vjp_order
        ops = [program.view.nodes[each.node].op for each in program.instructions]
        loops = [str(op) for op in ops if isinstance(op, WhileLoop)]
        return (
            f"vjp_order={order}: JAX cannot differentiate region {region.index} backward, because "
            "it has no reverse mode for a loop that ends by a condition: "
            f"{', '.join(loops) or 'one inside of another loop'}. Save with vjp_order=0, or save a "
            "function that returns the gradient, which PyTensor takes of such loops too."
        )

    def _statics(self, region: Region, seen: Seen) -> list[tuple[object, ...]]:
        if not region.static:
            return [()]
        asked = [values[region.index] for values in self._asked if region.index in values]
        return list(dict.fromkeys([*asked, *(static for static, _ in seen)]))

    def _exported(
        self,
        region: Region,
        program: Program,
        static: tuple[object, ...],
        shapes: Shapes,
        seen: Seen,
    ) -> tuple[list[Specialisation], str]:
        """The code for one combination of static values, and why there is not more."""
        kinds = {str(arguments): arguments for values, arguments in seen if values == static}
        opened: list[Specialisation] = []
        reason = "dims=None"
        if self._wanted.dims is not None:
            try:
                opened.append(self._open(region, program, static, shapes))
            except NotSymbolicError as error:
                reason = str(error)

        def export(arguments: Sequence[object]) -> list[Specialisation]:
            nonlocal reason
            try:
                return [export_for_shapes(program, static, arguments, self._wanted.target)]
            except (ArtifactError, NoBackwardError, NotDifferentiableError):
                raise
            except Exception as error:  # the call failed too, and raised what the user saw
                reason = str(error)
                return []

        found = code_for_calls(export, static, kinds.values(), opened)
        return found, f"its dimensions cannot be open: {reason}"

    def _open(
        self, region: Region, program: Program, static: tuple[object, ...], shapes: Shapes
    ) -> Specialisation:
        leaves = [self._leaf(program, number, shapes) for number in region.arguments]
        if region.static and program.view is self.compiled.lowered.view:
            numbers = zip(region.static, static, strict=True)
            values = {program.view.variables[k]: v for k, v in numbers if isinstance(v, int)}
            implied = self._dimensions.implied(values)
            leaves = [(tuple(implied.get(n, n) for n in shape), kind) for shape, kind in leaves]
        code, results = export_for_dimensions(
            program, static, leaves, self._least, self._wanted.target
        )
        self._least |= code.least
        if not region.static:
            shapes.update(zip(region.results, results, strict=True))
        return code

    @staticmethod
    def _leaf(program: Program, number: int, shapes: Shapes) -> ArrayKind:
        kind: Any = program.types[number]
        if isinstance(kind, RandomType):
            return (2,), "uint32"
        if isinstance(kind, SparseTensorType):
            raise NotSymbolicError("a sparse matrix has a number of entries for each shape")
        if number not in shapes:
            lengths, taken = enumerate(getattr(kind, "shape", ())), names_in(shapes.values())
            shapes[number] = tuple(
                distinct(f"v{number}_{axis}", taken) if length is None else length
                for axis, length in lengths
            )
        return shapes[number], kind.dtype


def _describe_op(node: Apply, writer: GraphWriter) -> int:
    """The place of a graph that holds the node alone, its inputs variables where they can be."""
    passes = all(map(held_dtype, (*node.inputs[:1], *node.outputs)))
    types = {each: held_type(each) if passes else each.type for each in node.inputs + node.outputs}
    inputs = [each if is_generic_none(each) else types[each]() for each in node.inputs]
    outputs = [types[each]() for each in node.outputs]
    free = [each for each in inputs if each not in node.inputs]
    return writer.place(InnerGraph(free, outputs, [Apply(node.op, inputs, outputs)]))


def _assignments(names: Sequence[str], static: Mapping[str, Any]) -> list[list[object]]:
    """For each combination of the values asked for, a value or None for each input."""
    if not set(names) & set(static):
        return []
    choices = [
        (list(static[name]) if isinstance(static[name], list | tuple | range) else [static[name]])
        if name in static
        else [None]
        for name in names
    ]
    return [list(values) for values in product(*choices)]
