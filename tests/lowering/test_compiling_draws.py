"""The first draw: one compilation a function, and little code."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.lowering import samplers

EVENT = "/jax/core/compile/backend_compile_duration"


def model() -> Any:
    """Draws of which each is a parameter of others; some parameters are constants."""
    rngs = [pytensor.shared(np.random.default_rng(seed)) for seed in range(5)]
    updates = {}

    def draw(name: str, *parameters: Any, size: tuple[int, ...] = ()) -> Any:
        rng = rngs[len(updates)]
        updates[rng], drawn = getattr(pt.random, name)(
            *parameters, size=size, rng=rng, return_next_rng=True
        )
        return drawn

    mean, scale = draw("normal", 0.0, 5.0), draw("halfnormal", 0.0, 5.0)
    groups = draw("normal", mean, scale, size=(8,))
    noise = draw("beta", 2.0, 3.0)
    outcome = draw("normal", groups, noise, size=(8,))
    return [mean, scale, groups, noise, outcome], updates


def test_one_compilation() -> None:
    compiled = []

    def note(event: str, duration: float, **_: Any) -> None:
        if event == EVENT:
            compiled.append(duration)

    outputs, updates = model()
    f = pytensor.function([], outputs, updates=updates, mode="JAXSELECTIVE")
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        for _ in range(3):
            f()
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert len(compiled) == 1
    assert f.stats.compilations == [1]


PARAMETERS: dict[str, tuple[float, ...]] = {
    "normal": (0.0, 1.0),
    "gamma": (2.0, 1.0),
    "beta": (2.0, 3.0),
    "poisson": (3.0,),
    "binomial": (10, 0.3),
}


def compiled(name: str) -> str:
    """The program of XLA that draws 20 numbers whose parameters are scalars."""
    sampler = samplers.SAMPLERS[f"pytensor.{name.capitalize()}RV"]
    key = np.array([1, 2], "uint32")
    with jax.enable_x64(True):
        values = [jnp.asarray(value) for value in PARAMETERS[name]]
        drawn = jax.jit(lambda key, *v: sampler(samplers.Draw(key, (20,), "float64"), *v))
        return drawn.lower(key, *values).compile().as_text()


# Instructions of the compiled program, which take as long to compile on every machine; those of
# `jax.random` are 1.4 (normal) to 4 times as many.
LARGEST = {"normal": 520, "gamma": 1700, "beta": 1800, "poisson": 1000, "binomial": 1300}


@pytest.mark.parametrize("name", LARGEST)
def test_a_sampler_is_short(name: str) -> None:
    assert compiled(name).count(" = ") < LARGEST[name]


# XLA runs kernels in several threads where more than a few do not depend on each other.
KERNELS = {"gamma": 8, "beta": 12, "poisson": 12, "binomial": 18}


@pytest.mark.cpu("other compilers make other kernels")
@pytest.mark.parametrize("name", KERNELS)
def test_a_sampler_is_few_kernels(name: str) -> None:
    text = compiled(name)
    lines = text[text.index("ENTRY") :].splitlines()
    kernels = [line for line in lines if any(f" {kind}(" in line for kind in KINDS)]
    assert len(kernels) <= KERNELS[name]


KINDS = ("fusion", "call", "while", "copy")


@pytest.mark.cpu("barriers are for its compiler")
def test_draws_that_others_read_are_stored() -> None:
    """Otherwise XLA draws them once for each reader."""
    outputs, updates = model()
    f = pytensor.function([], outputs, updates=updates, mode="JAXSELECTIVE")
    [region] = f.vm.compiled.lowered.functions
    keys = [np.zeros(2, "uint32")] * len(updates)
    lines = str(jax.make_jaxpr(lambda *keys: region((), *keys))(*keys)).splitlines()
    assert sum("= optimization_barrier" in line for line in lines) >= 4
