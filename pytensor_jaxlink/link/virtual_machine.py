"""A compiled graph tied to storage, which a `pytensor.compile.executor.Function` calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from pytensor.graph.basic import Variable

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import (
    FalseConditionError,
    GoesOnError,
    NewSizeError,
    OtherCodeError,
    is_of_node,
)
from pytensor_jaxlink.graph import ArrayType, as_kind
from pytensor_jaxlink.plan import ARRAYS, fits
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import (
    Dispatch,
    Ending,
    Executor,
    FastPath,
    Interface,
    refused,
    replace_in_forked_child,
)

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.link.profile_report import Report


class VirtualMachine:
    """Reads the inputs from their cells, runs the plan, and fills the cells of the outputs.

    Updates are outputs like others: `Function.__call__` commits them together, after everything
    has succeeded, so a failed call leaves every shared variable as it was.
    """

    need_update_inputs = True
    update_profile: Report  # where PyTensor's profile asks for the times of nodes

    def __init__(
        self,
        compiled: CompiledGraph,
        input_cells: list[list[object]],
        output_cells: list[list[object]],
        storage_map: dict[Variable, list[object]],
        overwritten: tuple[int, ...],
        *,
        allow_gc: bool | None,
    ) -> None:
        self.compiled = compiled
        self.storage_map = storage_map
        self.allow_gc = True if allow_gc is None else allow_gc
        self._input_cells, self._output_cells = input_cells, output_cells
        count = len(compiled.source.outputs) - len(overwritten)
        self.ending = Ending(
            compiled.copied,
            overwritten,
            compiled.options.outputs == "numpy",
            tuple(as_kind(variable.type) for variable in compiled.source.outputs[:count]),
        )
        self._path: FastPath | None = None
        self._own: tuple[Executor | None, FastPath | None] = None, None

    def fast(self, interface: Interface) -> FastPath | None:
        """The function as one that goes straight to compiled code; see `Executor.fast`."""
        self._path = None
        executor, options = self.compiled.executor, self.compiled.options
        own = executor.own if isinstance(executor, Dispatch) else executor
        if not isinstance(own, Executor):
            return None
        if own is not self._own[0]:  # or it would be compiled again
            repeatable = options.host_ops == "split"
            self._own = own, interface.fast(own, repeatable=repeatable)
        self._path = self._own[1]
        if isinstance(executor, Dispatch) and self._path is not None:
            self._path = executor.fast(self._path, interface.boundary(own), interface.pack())
        return self._path

    def follow(self, other: OtherCodeError) -> None:
        """Run other code; the fast path is looked for anew."""
        own, self._own = self._own[0], (None, None)
        assert own is not None, "the executor of the path that raised it"
        own.follow(other)

    def compile_for(self, examples: list[object], others: list[object]) -> None:
        """Compile for arguments like the examples; the other inputs have the values given.

        `jax.jit` finds what is compiled here when it is called.
        """
        plan, values = self.compiled.plan, [*examples, *others]
        abstract = any(isinstance(value, jax.ShapeDtypeStruct) for value in values)
        if abstract and not plan.is_one_region:
            raise _needs_arrays(
                "a function with several regions or static sizes is compiled by running it"
            )
        try:
            with jax.enable_x64(True), self.compiled.policy.here():
                self._compile(values)
        except NewSizeError as error:
            executor = self.compiled.executor
            if not self.compiled.changing.make_dynamic(values, error):
                self._call(values, abstract=abstract)  # finished in another way
            elif executor is self.compiled.executor:
                self.compile_for(examples, others)
        except GoesOnError:
            self._call(values, abstract=abstract)
        except FalseConditionError:
            self.compiled.fall_back(values, None, plan=self.compiled.plan)
        except Exception as error:
            if not is_of_node(error):
                raise
            if abstract:
                raise _needs_arrays(f"JAX cannot trace these examples ({error!s:.200})") from error
            # As a call does, whose outputs nobody wants.
            self.compiled.fall_back(values, error, plan=self.compiled.plan)

    def _call(self, values: list[object], *, abstract: bool) -> None:
        """Run the plan where a call would not be one program that JAX compiles."""
        if abstract:
            raise _needs_arrays("a call with such arguments is not one compiled program")
        self.compiled.executor(values)

    def _compile_in_child(self, examples: list[object], others: list[object]) -> None:
        raise refused("nothing can be compiled")

    def _compile(self, values: list[Any]) -> None:
        if self._path is not None:
            self._path.compile(values)
        else:
            self.compiled.executor(values)

    def __call__(self) -> list[Any]:
        """Run the function on what its input cells hold.  Returns outputs and updates."""
        outputs = self.run([cell[0] for cell in self._input_cells])
        for cell, value in zip(self._output_cells, outputs, strict=True):
            cell[0] = value
        return outputs

    def run(self, values: list[object]) -> list[Any]:
        """Run the function on the values of its inputs, without touching any cell."""
        if self.compiled.policy.device is None:
            return self._run(values)
        with self.compiled.policy.here():
            return self._run(values)

    def finish(self, values: list[object], error: BaseException | None = None) -> list[Any]:
        """The same by PyTensor's own implementation, after a condition was false or a failure."""
        executor = self.compiled.executor
        assert isinstance(executor, Executor | Dispatch), "the function has run"
        return self.ending.of(values, executor.finish(values, error), self.compiled.stats)

    def _run(self, values: list[object]) -> list[Any]:
        compiled = self.compiled
        if any(
            value is None and isinstance(variable.type, ArrayType)
            for value, variable in zip(values, compiled.source.inputs, strict=True)
        ):  # a shared variable without a value: each operation of PyTensor's has its own error
            outputs = list(compiled.fall_back(values, None, plan=compiled.plan))
        else:
            outputs = compiled.executor(values)
        return self.ending.of(values, outputs, compiled.stats)


def _needs_arrays(reason: str) -> TypeError:
    return TypeError(Code.EXAMPLES_OF_COMPILE.mark(f"{reason}: {Remedy.GIVE_ARRAYS.text()}"))


def with_declared_type(example: jax.ShapeDtypeStruct, variable: Variable, name: str) -> object:
    """The shape and dtype of an array, in the type that its input declares."""
    kind = as_kind(variable.type)
    if (
        kind.kind in ARRAYS
        and fits(example.shape, kind.shape or ())
        and jax.numpy.issubdtype(example.dtype, np.generic)  # keys of generators are not
        and np.can_cast(example.dtype, np.dtype(kind.dtype))
    ):
        return example.update(dtype=kind.dtype)
    text = f"{name}: expected {kind.text}, found {example}"
    raise TypeError(Code.EXAMPLES_OF_COMPILE.mark(text))


replace_in_forked_child(VirtualMachine, compile_for=VirtualMachine._compile_in_child)
