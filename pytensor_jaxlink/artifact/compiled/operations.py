"""The operations of saved code, which is walked before XLA sees it.

XLA hands the memory of a custom call's operands to the kernel that the call names.  Kernels of
linear algebra trust the shapes that the code claims; others run Python.  So saved code may call
only the kernels that JAX's exporter writes, with the shapes that JAX gives them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
from jax.export import Exported
from jax.interpreters import mlir

from pytensor_jaxlink.runtime.typed_jax import configuration

_DIALECTS = frozenset({"builtin", "chlo", "func", "sdy", "stablehlo"})
_DEVICE_TRAFFIC = frozenset(f"stablehlo.{name}" for name in ("infeed", "outfeed", "recv", "send"))
_REPLACED_BY_XLA = frozenset({
    "AllocateBuffer", "ApproxTopK", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape",
    "annotate_device_placement", "shape_assertion", "stablehlo.dynamic_approx_top_k",
    "stablehlo.dynamic_reduce_window", "stablehlo.dynamic_rng_bit_generator",
    "stablehlo.dynamic_top_k",
})  # fmt: skip
"""Calls that no kernel answers: XLA compiles them, after checks of its own."""


class ForeignCodeError(ValueError):
    """Code holds an operation that the exporter does not write."""


_OPEN = -1
Array = tuple[tuple[int, ...], str]
"""A shape, in which `_OPEN` is a length that is not known yet, and an element type."""


@dataclass(frozen=True)
class _Form:
    """Operands and results of a kernel.

    Letters are lengths, after the lengths of a batch: ``k`` is the shorter of ``m`` and ``n``, and
    ``p`` is ``n - 1``.  After a colon stands the element type where it is not that of the first
    operand: ``r`` its real type, ``c`` its complex type, ``i`` and ``u`` integers of 32 bits.
    """

    target: str
    text: str
    attributes: tuple[tuple[str, str], ...] = ()


_LAPACK, _GPU = "lapack_[sdcz]{}_ffi", "(?:cu|hip)solver_{}_ffi"
_BOTH = f"{_LAPACK}|{_GPU}"
_SVD = "gesdd"
_GPU_SVD = _GPU.format("(?:gesvd|gesdd)")
_JACOBI = _GPU.format("gesvdj")


def _of(target: str, text: str, **attributes: str) -> _Form:
    return _Form(target, text, tuple(attributes.items()))


_FORMS = (
    _of(_BOTH.format("potrf", "potrf"), "nn -> nn, :i"),
    _of(_LAPACK.format("geev"), "nn -> n, nn:c, nn:c, :i"),
    _of(_LAPACK.format("geev"), "nn -> n, n, nn:c, nn:c, :i"),
    _of(_BOTH.format("(?:sy|he)evd", "syevd"), "nn -> nn, n:r, :i"),
    _of("Eigh", "nn -> nn, n:r"),
    _of(_LAPACK.format("gehrd"), "nn -> nn, p, :i"),
    _of(
        _BOTH.format("(?:or|un)gqr", "orgqr") + "|ProductOfElementaryHouseholderReflectors",
        "mn, j -> mn where j <= n <= m",
    ),
    _of(_BOTH.format("getrf", "getrf"), "mn -> mn, k:i, :i"),
    _of("LuDecomposition", "mn -> mn, k:i, m:i"),
    _of("(?:cu|hip)_lu_pivots_to_permutation", "j:i -> n:i where j <= n"),
    _of(_BOTH.format("geqrf", "geqrf") + "|Qr", "mn -> mn, k"),
    _of(_LAPACK.format("gees"), "nn -> nn, nn, n, :i, :i"),
    _of(_LAPACK.format("gees"), "nn -> nn, nn, n, n, :i, :i"),
    _of(_LAPACK.format(_SVD), "mn -> mn, k:r, mk, kn, :i", mode="SN"),
    _of(_LAPACK.format(_SVD), "mn -> mn, k:r, mm, nn, :i", mode="AN"),
    _of(_GPU_SVD, "mn -> mn, k:r, mk, kn, :i", full_matrices="0", transposed="0"),
    _of(_GPU_SVD, "mn -> mn, k:r, mm, nn, :i", full_matrices="1", transposed="0"),
    _of(_GPU_SVD, "mn -> mn, k:r, kn, mk, :i", full_matrices="0", transposed="1"),
    _of(_GPU_SVD, "mn -> mn, k:r, nn, mm, :i", full_matrices="1", transposed="1"),
    _of(_GPU_SVD, "mn -> mn, k:r, (), (), :i", compute_uv="0"),
    _of(_JACOBI, "mn -> mn, k:r, mk, nk, :i", full_matrices="0"),
    _of(_JACOBI, "mn -> mn, k:r, mm, nn, :i", full_matrices="1"),
    _of(_LAPACK.format("trsm"), "nn, nj -> nj", side="L"),
    _of(_LAPACK.format("trsm"), "nn, jn -> jn", side="R"),
    _of(_BOTH.format("(?:sy|he)trd", "sytrd"), "nn -> nn, n:r, p:r, p, :i"),
    _of(_LAPACK.format("gtsv"), "n, n, n, nj -> n, n, n, nj, :i"),
    _of("cusparse_gtsv2_ffi", "n, n, n, nj -> nj"),
    _of("(?:cu|hip)_threefry2x32_ffi", ":u, :u, :u, :u -> :u, :u"),
)


def check_operations(exported: Exported) -> bool:
    """Walk exported code, without its derivatives.

    Returns whether it calls kernels with open lengths, which `check_for_shapes` has to look at.
    Raises `ForeignCodeError` if the code holds an operation that the exporter does not write.
    """
    with mlir.make_ir_context():
        return _check_module(exported.mlir_module(serialized=False))


def check_all(exported: Exported) -> bool:
    """The same with the derivatives that a file holds."""
    is_open = check_operations(exported)
    while exported.has_vjp():
        exported = exported.vjp()
        is_open |= check_operations(exported)
    return is_open


def check_for_shapes(exported: Exported, leaves: Sequence[object]) -> None:
    """Walk code and its derivatives with the lengths that kernels get for these arguments.

    It takes about as long as tracing the code.
    """
    from jax.extend import mlir as extended

    while True:
        lowered: Any = jax.jit(exported.call).lower(*leaves).compiler_ir()
        refined = extended.refine_polymorphic_shapes(
            mlir_module=mlir.module_to_bytecode(lowered),
            enable_shape_assertions=True,
            validate_static_shapes=True,
            enable_shardy=configuration.jax_use_shardy_partitioner,
        )
        with mlir.make_ir_context():
            _check_module(mlir.ir.Module.parse(refined))
        if not exported.has_vjp():
            return
        results = jax.tree_util.tree_leaves(jax.eval_shape(exported.call, *leaves))
        exported = exported.vjp()
        given = exported.in_avals[len(leaves) :]  # whose lengths are those of the results
        leaves = [
            *leaves,
            *(
                jax.ShapeDtypeStruct(result.shape, aval.dtype)
                for result, aval in zip(results, given, strict=True)
            ),
        ]


def _check_module(module: mlir.ir.Module) -> bool:
    problems: list[str] = []
    found_open = False

    def check(operation: mlir.ir.Operation) -> mlir.ir.WalkResult:
        nonlocal found_open
        name = operation.name
        if name == "stablehlo.custom_call":
            problem, is_open = _check_call(operation)
            found_open |= is_open
            problems.extend([problem] if problem else [])
        elif name in _DEVICE_TRAFFIC or name.partition(".")[0] not in _DIALECTS:
            problems.append(f"the operation {name}")
        return mlir.ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(check)
    if problems:
        raise ForeignCodeError(f"{problems[0]}, which no saved function needs")
    return found_open


def _check_call(call: Any) -> tuple[str | None, bool]:
    """The defect of a custom call, or None, and whether the call has open lengths."""
    attributes = call.attributes
    target = attributes["call_target_name"].value
    if target in _REPLACED_BY_XLA:
        return None, False
    forms = _forms(target)
    if not forms:
        return f"the custom call {target!r}", False
    shapes_at = attributes["indices_of_shape_operands"] if _has_shapes(call) else ()
    of_shapes = set(shapes_at)
    operands = [_array(each) for place, each in enumerate(call.operands) if place not in of_shapes]
    results = [_array(each) for each in call.results]
    config = _config(attributes)
    if not any(_accepts(form, operands, results, config) for form in forms):
        return f"the custom call {target!r} of {_shown(operands)} for {_shown(results)}", False
    return None, any(_OPEN in shape for shape, _ in (*operands, *results))


@cache
def _forms(target: str) -> tuple[_Form, ...]:
    return tuple(form for form in _FORMS if re.fullmatch(form.target, target))


def _has_shapes(call: Any) -> bool:
    return "indices_of_shape_operands" in call.attributes


def _config(attributes: Any) -> dict[str, object]:
    """The attributes that a call gives to the kernel, in either of two places."""
    found: dict[str, object] = {}
    for place in ("backend_config", "mhlo.backend_config"):
        if place not in attributes or not isinstance(attributes[place], mlir.ir.DictAttr):
            continue
        for each in attributes[place]:
            value = getattr(each.attr, "value", None)
            found[each.name] = value if found.get(each.name, value) == value else None
    return found


def _array(value: Any) -> Array:
    kind = value.type
    return tuple(
        _OPEN if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in range(kind.rank)
    ), str(kind.element_type)


def _accepts(
    form: _Form, operands: Sequence[Array], results: Sequence[Array], config: dict[str, object]
) -> bool:
    for name, values in form.attributes:
        value = config.get(name)
        if not isinstance(value, int) or not {str(int(value)), chr(value)} & set(values):
            return False
    text, _, order = form.text.partition(" where ")
    expected = [part.split(", ") for part in text.split(" -> ")]
    if [len(part) for part in expected] != [len(operands), len(results)]:
        return False
    batch = operands[0][0][: len(operands[0][0]) - len(expected[0][0].partition(":")[0])]
    lengths: dict[str, int] = {}
    element = operands[0][1]
    for spec, array in zip((*expected[0], *expected[1]), (*operands, *results), strict=True):
        if not _matches(spec, array, batch, lengths, element):
            return False
    bounds = [lengths[name] for name in order.split(" <= ")] if order else []
    return _OPEN in bounds or bounds == sorted(bounds)


def _matches(
    spec: str, array: Array, batch: tuple[int, ...], lengths: dict[str, int], element: str
) -> bool:
    shape, found = array
    dims, _, kind = spec.partition(":")
    if dims == "()":
        return shape == ()
    if found != _ELEMENTS[kind](element) or len(shape) != len(batch) + len(dims):
        return False
    own = shape[len(batch) :]
    return all(map(_same, shape, batch)) and all(
        _same(length, _length(name, length, lengths))
        for name, length in zip(dims, own, strict=True)
    )


def _length(name: str, length: int, lengths: dict[str, int]) -> int:
    """The length with a name; the first that is seen gives it."""
    if name == "k":
        both = lengths["m"], lengths["n"]
        return _OPEN if _OPEN in both else min(both)
    if name == "p":
        return _OPEN if lengths["n"] == _OPEN else lengths["n"] - 1
    if lengths.get(name, _OPEN) == _OPEN:
        lengths[name] = length
    return lengths[name]


def _same(one: int, other: int) -> bool:
    return _OPEN in (one, other) or one == other


_REAL = {"complex<f32>": "f32", "complex<f64>": "f64"}
_COMPLEX = {real: both for both, real in _REAL.items()}
_ELEMENTS = {
    "": lambda element: element,
    "r": lambda element: _REAL.get(element, element),
    "c": lambda element: _COMPLEX.get(element, element),
    "i": lambda element: "i32",
    "u": lambda element: "ui32",
}


def _shown(arrays: Sequence[Array]) -> str:
    return ", ".join(
        "x".join(["?" if length == _OPEN else str(length) for length in shape] + [element])
        for shape, element in arrays
    )
