"""The remedies of saved functions, applied."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify

from pytensor_jaxlink import ArtifactError, JAXLinker, load, save
from pytensor_jaxlink.artifact import container
from pytensor_jaxlink.artifact.graphs import properties_of
from pytensor_jaxlink.remedies import Remedy
from tests.link.remedy_table import case, error_of

ONES = np.ones(4)


def total() -> Any:
    x = pt.dvector("x")
    return pytensor.function([x], x.sum(), mode="JAXSELECTIVE")


def prefix() -> Any:
    x, n = pt.dvector("x"), pt.lscalar("n")
    return pytensor.function([x, n], x[:n].sum(), mode="JAXSELECTIVE")


def warned(run: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return "\n".join(str(each.message) for each in caught)


WITHOUT = """
import sys
import numpy as np, pytensor, pytensor.tensor as pt
from pytensor_jaxlink import ArtifactError, JAXLinker, load, save
path = sys.argv[1]
x = pt.dvector("x")
f = pytensor.function([x], x.sum(), mode="JAXSELECTIVE")
save(f, path)
there, sys.modules["flatbuffers"] = sys.modules["flatbuffers"], None
for name in [name for name in sys.modules if name.startswith("jax._src.export.serial")]:
    del sys.modules[name]
for action in (lambda: save(f, path + "2"), lambda: load(path)(np.ones(4))):
    try:
        action()
    except ArtifactError as error:
        print(error, end=" END ")
save(f, path + "3", compiled=False)
assert load(path + "3")(np.ones(4)) == 4
assert load(path, prefer="graph")(np.ones(4)) == 4
sys.modules["flatbuffers"] = there
save(f, path + "4")
assert load(path + "4")(np.ones(4)) == 4
"""


@cache
def without_flatbuffers() -> list[str]:
    with TemporaryDirectory() as folder:
        process = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", WITHOUT, str(Path(folder) / "f")],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
    assert process.returncode == 0, process.stderr
    saving, loading, _ = process.stdout.split(" END ")
    return [saving, loading]


@case(Remedy.INSTALL)
def install() -> Iterator[str]:
    yield from without_flatbuffers()


@case(Remedy.SAVE_GRAPH_ONLY)
def save_graph_only() -> Iterator[str]:
    yield without_flatbuffers()[0]


@case(Remedy.OTHER_MODE)
def other_mode() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        save(total(), path)
        yield error_of(lambda: load(path, prefer="graph", mode=Mode("c")), ArtifactError)
        for mode in (JAXLinker(), Mode(linker="py")):
            assert load(path, prefer="graph", mode=mode)(ONES) == 4


@case(Remedy.LOAD_GRAPH)
def load_graph() -> Iterator[str]:
    yield without_flatbuffers()[1]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        x, i = pt.dvector("x"), pt.lvector("i")
        f = pytensor.function([x, i], x[i] * 2, mode="JAXSELECTIVE")
        f(ONES, [1])
        save(f, path)
        plain = error_of(lambda: load(path, prefer="graph")(ONES, [9]), IndexError)
        assert "out of bounds" in plain


@case(Remedy.SAVE_FROM_GRAPH)
def save_from_graph() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        first, second, third = (Path(folder) / name for name in ("f", "g", "h"))
        f = total()
        f(ONES)
        save(f, first)
        yield error_of(lambda: save(load(first), second))
        save(load(first, prefer="graph"), second)
        third.write_bytes(first.read_bytes())
        assert load(second)(ONES) == load(third)(ONES) == 4.0


@case(Remedy.CALL_FIRST)
def call_first() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        f = prefix()
        yield warned(lambda: save(f, Path(folder) / "f"))
        f(ONES, 2)
        assert not warned(lambda: save(f, Path(folder) / "f"))
        assert load(Path(folder) / "f")(ONES, 2) == 2


@case(Remedy.NAME_SIZES)
def name_sizes() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        yield warned(lambda: save(prefix(), Path(folder) / "f"))
        assert not warned(lambda: save(prefix(), Path(folder) / "f", static={"n": [2]}))
        assert load(Path(folder) / "f")(ONES, 2) == 2


@case(Remedy.SAVE_SIZES)
def save_sizes() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        save(prefix(), path, static={"n": [2]})
        yield warned(lambda: load(path)(ONES, 3))
        save(prefix(), path, static={"n": [2, 3]})
        assert not warned(lambda: load(path)(ONES, 3))


@case(Remedy.SAVE_BACKWARD)
def save_backward() -> Iterator[str]:
    with TemporaryDirectory() as folder, jax.enable_x64(True):
        path = Path(folder) / "f"
        save(total(), path)
        yield error_of(lambda: jax.grad(lambda x: load(path).jax_fn(x)[0])(ONES), ArtifactError)
        save(total(), path, vjp_order=1)
        assert jax.grad(lambda x: load(path).jax_fn(x)[0])(ONES).shape == ONES.shape


@case(Remedy.BACKWARD_ALONE)
def backward_alone() -> Iterator[str]:
    with TemporaryDirectory() as folder, jax.enable_x64(True):
        path = Path(folder) / "f"
        save(total(), path, vjp_order=1)
        loaded = load(path).jax_fn
        yield error_of(lambda: jax.jvp(loaded, (ONES,), (ONES,)), ArtifactError)
        assert jax.grad(lambda x: loaded(x)[0])(ONES).shape == ONES.shape


@case(Remedy.OPEN_AXIS)
def open_axis() -> Iterator[str]:
    with TemporaryDirectory() as folder, jax.enable_x64(True):
        path, rows = Path(folder) / "f", np.ones((2, 4))
        save(total(), path)
        yield error_of(lambda: jax.vmap(load(path).jax_fn)(rows), NotImplementedError)
        x = pt.dmatrix("x")
        f = pytensor.function([x], x.sum(axis=1), mode="JAXSELECTIVE")
        save(f, path, dims={"x": ("n", 4)})
        assert load(path)(rows).tolist() == [4, 4]


@case(Remedy.SAVE_GRAPH_TOO)
def save_graph_too() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        save(total(), path, graph=False)
        yield error_of(lambda: load(path).explain(), ArtifactError)
        save(total(), path, graph=True)
        assert load(path).explain().graph_break_count == 0


def damaged(path: Path) -> str:
    save(total(), path)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(bytes(content))
    return error_of(lambda: load(path), ArtifactError)


@case(Remedy.SAVE_AGAIN)
def save_again() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        yield damaged(path)
        save(total(), path)
        assert load(path)(ONES) == 4


@case(Remedy.COPY_AGAIN)
def copy_again() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        whole, path = Path(folder) / "whole", Path(folder) / "f"
        save(total(), whole)
        yield damaged(path)
        path.write_bytes(whole.read_bytes())
        assert load(path)(ONES) == 4


@case(Remedy.NEWER_VERSION)
def newer_version() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path, known = Path(folder) / "f", container.VERSION
        save(total(), path)
        container.VERSION = known - 1  # an older version of this package
        try:
            yield error_of(lambda: load(path), ArtifactError)
        finally:
            container.VERSION = known
        assert load(path)(ONES) == 4


class Scaled(Op):
    """Its constructor takes what no attribute holds."""

    __props__ = ("factor",)

    def __init__(self, halves: int) -> None:
        self.factor = halves / 2

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x)], [pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] * self.factor


@jax_funcify.register(Scaled)
def _scaled(op: Scaled, **_: Any) -> Any:
    return lambda x: jnp.multiply(x, op.factor)


def scaled(op: Op) -> Any:
    x = pt.dvector("x")
    return pytensor.function([x], op(x).sum(), mode="JAXSELECTIVE")


@case(Remedy.PROPERTIES)
def properties() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        yield error_of(lambda: save(scaled(Scaled(4)), path), ArtifactError)
        properties_of.register(Scaled, lambda op: {"halves": int(op.factor * 2)})
        save(scaled(Scaled(4)), path)
        assert load(path)(ONES) == 8


@case(Remedy.TOP_LEVEL)
def top_level() -> Iterator[str]:
    class Twice(Thrice):
        pass

    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        yield error_of(lambda: save(scaled(Twice()), path), ArtifactError)
        save(scaled(Thrice()), path)
        assert load(path, prefer="graph", allow=("tests",))(ONES) == 12


class Thrice(Op):
    """At the top level of a module."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x)], [pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] * 3


@jax_funcify.register(Thrice)
def _thrice(op: Thrice, **_: Any) -> Any:
    return lambda x: jnp.multiply(x, 3.0)


@case(Remedy.ALLOW, module="tests")
def allow() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        save(scaled(Thrice()), path)
        yield error_of(lambda: load(path, prefer="graph"), ArtifactError)
        assert load(path, prefer="graph", allow=("tests",))(ONES) == 12


# -- functions of JAX ------------------------------------------------------------------------------


@case(Remedy.GIVE_EXAMPLES)
def give_examples() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        yield error_of(lambda: save(jnp.add, path), ArtifactError)
        save(jnp.add, path, examples=(ONES, ONES))
        assert load(path)(ONES, ONES)[0] == 2


def repeated(x: Any, n: Any) -> Any:
    return jnp.concatenate([x] * n)


@case(Remedy.STATIC_ARGNUMS)
def static_argnums() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        yield error_of(lambda: save(repeated, path, examples=(ONES, 2)), ArtifactError)
        save(repeated, path, examples=(ONES, 2), static_argnums=1)
        assert load(path)(ONES, 2).shape == (8,)


@case(Remedy.SEVERAL_FUNCTIONS)
def several_functions() -> Iterator[str]:
    def copies(x: Any, n: int) -> Any:
        return (x,) * n

    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        calls = [(1.0, 1), (1.0, 2)]
        yield error_of(lambda: save(copies, path, examples=calls, static_argnums=1), ArtifactError)
        one, two = ((call,) for call in calls)
        save(
            {"one": copies, "two": copies},
            path,
            examples={"one": [*one], "two": [*two]},
            static_argnums={"one": 1, "two": 1},
        )
        assert len(load(path)["two"](3.0, 2)) == 2


@case(Remedy.MORE_EXAMPLES)
def more_examples() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        save(repeated, path, examples=(ONES, 2), static_argnums=1)
        yield error_of(lambda: load(path)(ONES, 3), ArtifactError)
        save(repeated, path, examples=[(ONES, 2), (ONES, 3)], static_argnums=1, dims={"x": "n"})
        assert load(path)(ONES, 3).shape == (12,)
        assert load(path)(np.ones(2), 3).shape == (6,)


@case(Remedy.BIND_TO_FUNCTION)
def bind_to_function() -> Iterator[str]:
    def apply(node: Any, x: Any) -> Any:
        return node(x)

    node = jax.tree_util.Partial(jnp.multiply, jnp.full(4, 3.0))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        yield error_of(lambda: save(apply, path, examples=(node, ONES)), ArtifactError)
        save(partial(apply, node), path, examples=(ONES,))
        assert load(path)(ONES)[0] == 3


@case(Remedy.LOAD_AGAIN)
def load_again() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        save(total(), path)
        yield error_of(lambda: pickle.dumps(load(path)), TypeError)
        assert load(path) is not load(path)
