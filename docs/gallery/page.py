"""The page of an example: its model, the picture of its plan, its posterior and its times."""

from __future__ import annotations

import inspect
import io
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
import pymc as pm
import pytensor
from rich.console import Console

from docs.gallery.example import FOLDER, NAMES, OURS, Comparison, Timing

mpl.use("agg")
import matplotlib.pyplot as plt

_WIDTH = 100
_LARGEST = 60_000  # bytes of an image


def write(
    name: str, script: ModuleType, found: Comparison, draws: dict[str, np.ndarray], folder: Path
) -> None:
    """Write the page and its two images."""
    images = folder / "images"
    images.mkdir(exist_ok=True, parents=True)
    plan = images / f"{name}_plan.svg"
    plan.write_text(_plan(found.explanation))
    posterior = images / f"{name}_posterior.png"
    _posterior(script, draws, posterior)
    for image in (plan, posterior):
        assert image.stat().st_size < _LARGEST, image
    title, _, text = inspect.cleandoc(script.__doc__ or "").partition("\n")
    path, count = FOLDER / f"{name}.py", len(next(iter(draws.values())))
    (folder / f"{name}.md").write_text(
        f"# {title.rstrip('.')}\n\n{_joined(text)}\n\n"
        f"The script is [{name}.py]({name}.py); `python -m docs.gallery {name}` runs it.\n\n"
        f"```python\n{_model_of(path)}\n```\n\n"
        f"## Plan\n\n![The plan of the log density and its gradient]({_link(images, plan)})\n\n"
        f"## Posterior\n\n![The posterior]({_link(images, posterior)})\n\n"
        f"{count} draws of PyMC's own sampler under this mode, in two chains.\n\n"
        f"## Times\n\n{_table(script, found)}"
    )


def index(folder: Path) -> str:
    """The page that lists the examples, from their pages."""
    return _INDEX + "".join(_listed(name, (folder / f"{name}.md").read_text()) for name in NAMES)


def _listed(name: str, text: str) -> str:
    title = text.partition("\n")[0].removeprefix("# ")
    rows = {mode: cells for mode, *cells in re.findall(_ROW, text, re.MULTILINE)}
    refusal = rows["JAX"][0].strip("`").partition(":")[0]
    [breaks] = re.findall(r"^Graph breaks: (\d+)", text, re.MULTILINE)
    ours, numba = rows[OURS][2], rows["NUMBA"][2]
    return f"| [{title}]({name}.md) | `{refusal}` | {breaks} | {ours} | {numba} |\n"


_ROW = r"^\| (\w+) \| (.*?) \| (.*?) ?\| (.*?) ?\|$"
_INDEX = f"""# Gallery

Eight models of kinds that PyMC users write and that PyTensor's mode "JAX" refuses. Each page shows
the model, the plan of its log density and gradient, the posterior that PyMC's own sampler draws,
and the times beside other modes. `python -m docs.gallery` (with the extra `pymc`) ran the scripts
and wrote the pages, so no figure is typed. The scripts simulate their data.

On a CPU and called from Python, NUMBA is faster for small models like these;
[which backend](../pymc.md#which-backend) says when it is not.

| model | mode "JAX" | graph breaks here | a call, {OURS} | a call, NUMBA |
| --- | --- | --- | --- | --- |
"""


def _plan(explanation: Any) -> str:
    """The library's picture for terminals, as SVG."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO())
    console.print(explanation)
    picture = console.export_svg(title="f.explain()", unique_id="plan")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # no font of a web site


def _posterior(script: ModuleType, draws: dict[str, np.ndarray], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    axes.spines[["top"]].set_visible(False)
    script.plot(axes, draws)
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)


def _table(script: ModuleType, found: Comparison) -> str:
    rows = "".join(_row(mode, timing) for mode, timing in found.timings.items())
    return (
        "The log density and its gradient, as one function. *First result*: from the graph to the "
        f"value. *After a change*: the first call after {script.CHANGE}.\n\n"
        "| mode | first result | after a change | a call |\n| --- | --- | --- | --- |\n"
        f"{rows}\nGraph breaks: {found.explanation.graph_break_count}; "
        f"compilations: {found.compilations}. {_conditions()}\n"
    )


def _row(mode: str, timing: Timing) -> str:
    if timing.refusal:
        return f"| {mode} | `{timing.refusal.replace('|', '/')}` | | |\n"
    return f"| {mode} | {_time(timing.first)} | {_time(timing.changed)} | {_time(timing.call)} |\n"


def _conditions() -> str:
    today = datetime.now(UTC).date()
    return (
        f"Measured on {today.day} {today:%B %Y} with PyMC {pm.__version__}, PyTensor "
        f"{pytensor.__version__} and JAX {jax.__version__} on {jax.devices()[0].platform} "
        f"({os.cpu_count()} cores; calls of the modes took turns, first results did not)."
    )


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def _joined(text: str) -> str:
    """Paragraphs as lines."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _model_of(path: Path) -> str:
    """The script from its first import to the end of `build`."""
    text = path.read_text()
    code = text[text.index('"""', 3) + 3 : text.index("# -- for the page")]
    return code.strip()


def _link(images: Path, image: Path) -> str:
    return f"{images.name}/{image.name}"
