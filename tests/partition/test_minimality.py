"""No partition has fewer regions."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.plan import HostStep
from tests.helpers import PYTHON, assert_same, compiled
from tests.partition.graphs import build, fewest_regions, random_nodes, sort


@pytest.mark.parametrize("seed", range(60))
def test_as_few_regions_as_exhaustive_search_finds(seed: int) -> None:
    nodes = random_nodes(np.random.default_rng(seed), count=6)
    x, output = build(nodes)
    plan = compiled([x], [output]).plan
    assert len(plan.regions) == fewest_regions(nodes), f"{nodes}\n{plan}"


@pytest.mark.parametrize("seed", range(12))
def test_partitioned_equals_unpartitioned(seed: int) -> None:
    generator = np.random.default_rng(1_000 + seed)
    x, output = build(random_nodes(generator, count=12))
    f = pytensor.function([x], output, mode="JAXSELECTIVE")
    g = pytensor.function([x], output, mode=PYTHON)
    for length in (1, 2, 7):
        values = generator.normal(size=length)
        assert_same(f(values), g(values))
    assert f.stats.fallbacks == 0


def test_two_thousand_nodes_with_twenty_scattered_breaks() -> None:
    generator = np.random.default_rng(7)
    x = pt.dvector("x")
    layers, position = [x], 0
    breaks = set(generator.choice(np.arange(1, 2_000), size=20, replace=False).tolist())
    depth = {0: 0}  # host steps on the longest path to a value, which bounds the regions below
    while len(layers) <= 2_000:
        position += 1
        first, second = (int(k) for k in generator.integers(max(0, position - 5), position, 2))
        if position in breaks:
            layers.append(sort(layers[first]))
            depth[position] = depth[first] + 1
        else:
            layers.append(layers[first] + layers[second])
            depth[position] = max(depth[first], depth[second])
    output = layers[-1] + sum(layers[k] for k in breaks)
    graph = compiled([x], [output])
    assert graph.explanation.graph_break_count == 20
    # Between two host steps on a path there is an addition here, unless they are adjacent.
    longest = max(depth[k] for k in (len(layers) - 1, *breaks))
    assert len(graph.plan.regions) <= longest + 1


def test_what_many_readers_need_is_computed_once() -> None:
    x = pt.dvector("x")
    shared = pt.exp(x)
    plan = compiled([x], [shared + 1, sort(shared), sort(shared) + shared]).plan
    operations = [name for region in plan.regions for name in region.operations]
    assert operations.count("Exp") == 1
    assert sum(isinstance(step, HostStep) for step in plan.steps) == 2


def test_nothing_runs_that_nobody_needs() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    plan = compiled([x, n], [x.reshape((n // 2, n - n // 2))]).plan
    [region] = plan.regions
    assert region.operations == ("Reshape{2}",)


CODE = """
import numpy as np
from tests.partition.graphs import build, random_nodes
from tests.helpers import compiled
x, output = build(random_nodes(np.random.default_rng(3), 40))
print(compiled([x], [output]).plan)
"""


def test_the_plan_does_not_depend_on_hashes() -> None:
    plans = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(plans) == 1
