"""Code with operations that our exporter does not write, put into a file that is good otherwise.

``python -m tests.artifact.code FILE`` calls each, and prints the errors as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import jax
import numpy as np
from jax import export
from jax.extend.mlir import serialize_portable_artifact
from jax.interpreters import mlir

from pytensor_jaxlink import load
from tests.artifact.damage import members_of, relisted

_VERSION = "1.0.0"  # of StableHLO: every version since reads it
_MODULE = """module {{
  func.func public @main(%x: tensor<4x4xf64>) -> (tensor<4x4xf64>, tensor<4x4xf64>) {{
{body}
    return %x, %x : tensor<4x4xf64>, tensor<4x4xf64>
  }}
}}"""
_OPEN_MODULE = """module {{
  func.func public @main(%x: tensor<?x?xf64>) -> (tensor<?x?xf64>, tensor<?x?xf64>) {{
{body}
    return %x, %x : tensor<?x?xf64>, tensor<?x?xf64>
  }}
}}"""
_CALL = (
    "    %r:{count} = stablehlo.custom_call @{target}({operands}) {{{config}}} : ({types}) -> "
    "({results})"
)


def call(target: str, operands: str, results: str, prepared: str = "", config: str = "") -> str:
    """A custom call: ``"x 4x4xf64"`` is an operand, ``"4xi32 i32"`` are results."""
    names, kinds = operands.split()[::2], operands.split()[1::2]
    found = [f"tensor<{each}>" for each in results.split()]
    attributes = f"mhlo.backend_config = {{{config}}}"
    if not target.endswith("_ffi") or target.startswith("xla"):
        attributes = "api_version = 2 : i32"
    line = _CALL.format(
        count=len(found),
        target=target,
        operands=", ".join(f"%{name}" for name in names),
        config=attributes + ", has_side_effect = true",
        types=", ".join(f"tensor<{kind}>" for kind in kinds),
        results=", ".join(found),
    )
    return f"{prepared}\n{line}"


_TAUS = "    %t = stablehlo.constant dense<1.0> : tensor<9xf64>"
_RIGHT = "    %b = stablehlo.constant dense<1.0> : tensor<4x9xf64>"
_TOKEN = "    %t = stablehlo.create_token : !stablehlo.token\n"

PREPARED = f"{_TAUS}\n{_RIGHT}"
"""The operands that are not the argument."""

PLAIN = {
    "callback": call("xla_ffi_python_cpu_callback", "x 4x4xf64", "4x4xf64"),
    "old callback": call("xla_python_cpu_callback", "x 4x4xf64", "4x4xf64"),
    "unknown": call("no_such_kernel", "x 4x4xf64", "4x4xf64"),
    "pallas": call("tpu_custom_call", "x 4x4xf64", "4x4xf64"),
    "tensorflow": call("tf.call_tf_function", "x 4x4xf64", "4x4xf64"),
    "infeed": _TOKEN
    + '    %i:2 = "stablehlo.infeed"(%t) <{infeed_config = "", layout = [[1, 0]]}> : '
    "(!stablehlo.token) -> (tensor<4x4xf64>, !stablehlo.token)",
    "outfeed": _TOKEN + '    %o = "stablehlo.outfeed"(%x, %t) <{outfeed_config = ""}> : '
    "(tensor<4x4xf64>, !stablehlo.token) -> !stablehlo.token",
    "send": _TOKEN
    + '    %o = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, '
    "type = 2>, is_host_transfer = true}> : (tensor<4x4xf64>, !stablehlo.token) -> "
    "!stablehlo.token",
    "recv": _TOKEN
    + '    %o:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 5, '
    "type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> "
    "(tensor<4x4xf64>, !stablehlo.token)",
}
"""Operations by what they are."""

KERNELS = {
    "pivots": call("lapack_dgetrf_ffi", "x 4x4xf64", "4x4xf64 1xi32 i32"),
    "status": call("lapack_dgetrf_ffi", "x 4x4xf64", "4x4xf64 4xi32 2xi32"),
    "copy": call("lapack_dgetrf_ffi", "x 4x4xf64", "2x2xf64 4xi32 i32"),
    "element": call("lapack_sgetrf_ffi", "x 4x4xf64", "4x4xf64 4xf32 i32"),
    "rank": call("lapack_dpotrf_ffi", "x 4x4xf64", "16xf64 i32", config="uplo = 76 : ui8"),
    "cholesky": call("lapack_dpotrf_ffi", "x 4x4xf64", "9x9xf64 i32", config="uplo = 76 : ui8"),
    "reflectors": call("lapack_dgeqrf_ffi", "x 4x4xf64", "4x4xf64 2xf64"),
    "householder": call("lapack_dorgqr_ffi", "x 4x4xf64 t 9xf64", "4x4xf64", _TAUS),
    "solve": call(
        "lapack_dtrsm_ffi", "x 4x4xf64 b 4x9xf64", "4x9xf64", _RIGHT,
        "diag = 78 : ui8, side = 82 : ui8, trans_x = 78 : ui8, uplo = 85 : ui8",
    ),
    "no side": call("lapack_dtrsm_ffi", "x 4x4xf64 b 4x9xf64", "4x9xf64", _RIGHT),
    "values": call(
        "lapack_dsyevd_ffi", "x 4x4xf64", "4x4xf64 1xf64 i32",
        config="mode = 86 : ui8, uplo = 76 : ui8",
    ),
    "vectors": call(
        "lapack_dgesdd_ffi", "x 4x4xf64", "4x4xf64 4xf64 1x1xf64 1x1xf64 i32",
        config="mode = 65 : ui8",
    ),
    "overwrite": call(
        "lapack_dgesdd_ffi", "x 4x4xf64", "4x4xf64 4xf64 4x4xf64 4x4xf64 i32",
        config="mode = 79 : ui8",
    ),
    "gpu": call("cusolver_getrf_ffi", "x 4x4xf64", "4x4xf64 1xi32 i32"),
}  # fmt: skip
"""Kernels with the shapes of somebody else's memory."""

FAILING = {
    "no half": call("lapack_dpotrf_ffi", "x 4x4xf64", "4x4xf64 i32"),
    "no mode": call("lapack_dsyevd_ffi", "x 4x4xf64", "4x4xf64 4xf64 i32"),
}
"""Kernels that refuse a call when it runs."""

_LENGTHS = """    %l = stablehlo.constant dense<4> : tensor<2xi32>
    %one = stablehlo.constant dense<1> : tensor<1xi32>
    %none = stablehlo.constant dense<> : tensor<0xi32>
"""
OPEN = {
    "open pivots": _LENGTHS
    + "    %r:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%x, %l, %one, %none) "
    "{mhlo.backend_config = {}, indices_of_shape_operands = dense<[1, 2, 3]> : tensor<3xi64>, "
    "has_side_effect = true} : "
    "(tensor<?x?xf64>, tensor<2xi32>, tensor<1xi32>, tensor<0xi32>) -> "
    "(tensor<?x?xf64>, tensor<?xi32>, tensor<i32>)",
    "open callback": call("xla_ffi_python_cpu_callback", "x ?x?xf64", "4x4xf64"),
}
"""The same in code for open lengths: what a kernel gets shows when it is called."""


def module_of(body: str) -> str:
    """A module whose function has a body."""
    return _MODULE.format(body=body)


def changed(content: bytes, module: str) -> bytes:
    """A file whose only code is a module."""
    members = dict(members_of(content))
    name = "regions/0.stablehlo"
    exported = export.deserialize(bytearray(members[name]))
    with mlir.make_ir_context():
        code = mlir.module_to_bytecode(mlir.ir.Module.parse(module))
    artifact = serialize_portable_artifact(code, _VERSION, False)
    other = dataclasses.replace(exported, mlir_module_serialized=artifact)
    members[name] = bytes(other.serialize())
    return relisted(list(members.items()))


def error_of(path: Path) -> str:
    """What a call says."""
    try:
        jax.block_until_ready(load(path)(np.eye(4)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def main(exact: Path, opened: Path) -> None:
    """Print the error that each gives."""
    found = {}
    for path, module, bodies in (
        (exact, _MODULE, {**PLAIN, **KERNELS, **FAILING}),
        (opened, _OPEN_MODULE, OPEN),
    ):
        content = path.read_bytes()
        for name, body in bodies.items():
            path.write_bytes(changed(content, module.format(body=body)))
            found[name] = error_of(path)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
