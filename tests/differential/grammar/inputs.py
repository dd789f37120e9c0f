"""The inputs and shared variables of a random graph, and values for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import scipy.sparse
from pytensor import sparse

from tests.differential.grammar.pool import Pool
from tests.differential.grammar.sizes import NARROW

FLOATS = ("float64", "float64", "float32", "float16")
EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.nan,
    np.inf,
    -np.inf,
    1e30,
    -1e30,
    1e-30,
    127.0,
    128.0,
    2.0**31,
    0.5,
)


@dataclass(frozen=True)
class Setting:
    """The lengths of one call."""

    length: int
    rows: int
    rng: np.random.Generator
    """For values."""
    shapes: np.random.Generator
    """For shapes, which stay the same in two calls."""

    def some_length(self) -> int:
        """The common length, rarely another one."""
        return int(self.shapes.integers(0, 5)) if self.shapes.random() < 0.05 else self.length


Draw = Callable[[Setting, np.dtype[Any]], Any]


@dataclass(frozen=True)
class Input:
    """An input, and a way to draw values for it; those of a fixed one stay while shapes stay."""

    variable: Any
    draw: Draw
    fixed: bool = False


_LENGTHS = (0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 6, 64, 65, 130, 200)


def value_of(each: Input, seed: int, call: int, shape: int) -> Any:
    """A value for an input in a call; calls of one shape number have the same shapes."""
    common = np.random.default_rng([seed, shape])
    length, rows = int(common.choice(_LENGTHS)), int(common.integers(0, 4))
    name = int.from_bytes(each.variable.name.encode()[:7], "little")
    values, shapes = (np.random.default_rng([seed, name, k]) for k in (call, shape))
    return each.draw(Setting(length, rows, values, shapes), each.variable.type.dtype)


def entries(setting: Setting, dtype: Any, shape: Any) -> Any:
    """Numbers of any type: ordinary ones, small whole ones with ties, or extremes among them."""
    rng, dtype = setting.rng, np.dtype(dtype)
    form = rng.choice(["ordinary", "whole", "edges"], p=[0.45, 0.3, 0.25])
    if dtype.kind == "b":
        return rng.random(shape) > 0.5
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -3
        values = rng.integers(low, 6, size=shape).astype(dtype)
        if form == "edges":
            limits = np.iinfo(dtype)
            extremes = np.array([limits.min, limits.max, limits.max - 1, 0, 1], dtype=dtype)
            values = np.where(rng.random(shape) < 0.4, rng.choice(extremes, size=shape), values)
        return values.astype(dtype)
    values = rng.normal(size=shape)
    if form == "whole":
        values = np.round(values * 2)
    elif form == "edges":
        values = np.where(rng.random(shape) < 0.3, rng.choice(EDGES, size=shape), values)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def _vector(setting: Setting, dtype: Any) -> Any:
    return entries(setting, dtype, setting.some_length())


def _matrix(setting: Setting, dtype: Any) -> Any:
    rng = setting.shapes
    width = setting.length if rng.random() < 0.7 else int(rng.integers(0, 4))
    return entries(setting, dtype, (setting.rows, width))


def _cube(axes: int) -> Draw:
    """Short, because there are many axes; each has a length of its own."""

    def draw(setting: Setting, dtype: Any) -> Any:
        lengths = np.minimum(setting.shapes.integers(0, 7, size=axes), 5)
        return entries(setting, dtype, tuple(lengths.tolist()))

    return draw


def _square(setting: Setting, dtype: Any) -> Any:
    return entries(setting, dtype, (setting.length, setting.length))


def _scalar(setting: Setting, dtype: Any) -> Any:
    return entries(setting, dtype, ())


def _size(setting: Setting, dtype: Any) -> Any:
    """Mostly a place in the arrays, sometimes negative or near the end of a narrow type."""
    rng, dtype = setting.rng, np.dtype(dtype)
    size = (
        int(rng.integers(-2, 6)) if rng.random() < 0.9 else int(rng.choice([127, 128, 200, -128]))
    )
    limits = np.iinfo(dtype)
    return np.asarray(size if limits.min <= size <= limits.max else 3, dtype=dtype)


def _index(setting: Setting, dtype: Any) -> Any:
    """Places in a vector, mostly in range; from its end where the type has a sign."""
    rng, dtype, length = setting.rng, np.dtype(dtype), setting.length
    limits = np.iinfo(dtype)
    low = max(-length, limits.min)
    high = min(max(length, 1), limits.max)
    if rng.random() < 0.05:
        high += 1
    places = rng.integers(low, high, size=int(setting.shapes.integers(0, 5)))
    return places.astype(dtype) if length else places[:0].astype(dtype)


def _sparse(kind: str) -> Draw:
    def draw(setting: Setting, dtype: Any) -> Any:
        shape = (max(setting.rows, 1), max(min(setting.length, 6), 1))
        values = entries(setting, dtype, shape)
        values = np.where((setting.rng.random(shape) < 0.6) & np.isfinite(values), values, 0)
        return getattr(scipy.sparse, f"{kind}_matrix")(values.astype(dtype))

    return draw


def give_inputs(pool: Pool) -> list[Input]:
    """Put inputs of every kind and many types into an empty pool."""
    one_of = pool.one_of
    inputs: list[Input] = []

    def add(kind: str, variable: Any, draw: Draw, tag: Any = None, fixed: bool = False) -> None:
        pool.add(kind, variable, variable.name, tag)
        inputs.append(Input(variable, draw, fixed))

    def vector(name: str, dtype: str) -> Any:
        return pt.vector(name, dtype=dtype)

    main = "float32" if pytensor.config.floatX == "float32" else "float64"
    add("vector", vector("x", main), _vector, "length")
    add("vector", vector("y", one_of(FLOATS)), _vector, "length")
    add("vector", vector("i", one_of((*NARROW, "bool"))), _vector, "length")
    add("matrix", pt.matrix("m", dtype=one_of((main, main, "float32", *NARROW))), _matrix)
    add("size", pt.scalar("n", dtype="int64"), _size, fixed=True)
    add("size", pt.scalar("k", dtype=one_of(NARROW)), _size, fixed=True)
    add("scalar", pt.scalar("v", dtype=main), _scalar)
    add("index", vector("places", "int64"), _index)
    add("index", vector("narrow", one_of(NARROW)), _index)
    add("mask", vector("mask", "bool"), _vector, "length")
    add("square", pt.matrix("square", dtype=main), _square)
    form = one_of(("csr", "csc"))
    add("sparse", sparse.matrix(form, "sp", one_of(("float64", "float32"))), _sparse(form))
    add("cube", pt.tensor("cube", dtype=main, shape=(None,) * 3), _cube(3))
    add("cube", pt.tensor("block", dtype=main, shape=(None,) * 4), _cube(4))
    pool.add("size", pt.constant(2), "two")
    pool.add("scalar", pt.constant(1.5), "one and a half")
    return inputs


def give_shared(pool: Pool) -> list[Input]:
    """Put shared variables into a pool; a value for each is drawn as for an input."""
    found: list[Input] = []

    def add(kind: str, name: str, dtype: str, shape: Sequence[int], draw: Draw) -> None:
        variable = pytensor.shared(np.zeros(shape, dtype=dtype), name=name)
        pool.add(kind, variable, name)
        pool.shared[kind].append(variable)
        found.append(Input(variable, draw))

    add("vector", "state", pool.one_of(("float64", "float32")), (0,), _vector)
    add("vector", "integers", pool.one_of(NARROW), (0,), _vector)
    add("matrix", "table", "float64", (0, 0), _matrix)
    add("size", "counter", pool.one_of(NARROW), (), _size)
    add("scalar", "level", "float64", (), _scalar)
    return found
