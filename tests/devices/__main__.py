"""Runs the cases of a module in this process, which has several simulated devices.

``python -m tests.devices MODULE [NUMBER PORT]`` prints one line of JSON: for each case what went
wrong, or null.  With a number it is one of two processes that find each other on a port.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from importlib import import_module

import jax


def main() -> None:
    [module, *process] = sys.argv[1:]
    jax.config.update("jax_enable_x64", True)
    if process:
        number, port = process
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(number))
    found = {}
    # A list: a warning at a line of the module adds a registry to its names.
    for name, case in list(vars(import_module(f"tests.devices.{module}")).items()):
        if name.startswith("case_"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.filterwarnings("ignore", "", DeprecationWarning, "pytensor|jax")
                    case()
                found[name] = None
            except Exception:
                found[name] = "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
    print("FOUND " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
