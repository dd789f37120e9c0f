"""Two plots for the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.benchmarks.calls import adders, time_calls
from tests.benchmarks.measure import Effort, Timing, interleave
from tests.benchmarks.report import DOCS
from tests.benchmarks.small_models import small_model
from tests.benchmarks.steady import actions_of

SIZES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
NODES = (10, 20, 50, 100, 200)
DATA = 100
# Colours that are told apart on light and dark pages, and by most eyes; one a candidate.
COLOURS = {
    "jax.jit": "#777777",
    "by hand": "#777777",
    "ours": "#d1495b",
    '"JAX"': "#3d7ea6",
    "NUMBA": "#7a9e3a",
}


def draw_all(effort: Effort) -> list[Path]:
    """Measure and draw both."""
    sizes = {}
    for size in SIZES:
        sizes[size] = time_calls(adders(1), [np.zeros(size)], effort)
    nodes = {
        count: interleave(actions_of(small_model(count, DATA, "normal"), trust_input=True), effort)
        for count in NODES
    }
    return [
        draw(sizes, "elements of one NumPy vector", DOCS / "benchmark_size.svg"),
        draw(nodes, f"nodes of a log density, {DATA} data", DOCS / "benchmark_nodes.svg"),
    ]


def draw(timings: Mapping[int, Timing], label: str, path: Path) -> Path:
    """Microseconds a call, one line a candidate, on logarithmic axes."""
    import matplotlib as mpl  # the tests, which import all modules, do without
    from matplotlib.figure import Figure

    # Without these the file would change though the figures do not.
    with mpl.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log")
        for name in _names(list(timings.values())):
            times = [1e6 * timing.median(name) for timing in timings.values()]
            axes.plot(list(timings), times, ".-", color=COLOURS[name], label=name)
        axes.set(xlabel=label, ylabel="µs a call", xticks=list(timings))
        axes.xaxis.set_major_formatter(_short)
        axes.yaxis.set_major_formatter(_short)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})
    return path


def _names(timings: Sequence[Timing]) -> list[str]:
    """The candidates that ran everywhere."""
    return [name for name in timings[0].rounds if all(name in t.rounds for t in timings)]


def _short(value: float, position: int) -> str:
    """An axis label: 10, 1,000, 1,000,000."""
    return f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}"
