"""When did British coal mines become safer?  A change point that one `jax.jit` cannot compile.

The yearly counts of disasters are Poisson with one rate before the change point ``tau`` and another
after it.  The likelihood slices the data at ``tau``, an integer that changes from call to call, so
PyTensor's mode "JAX" refuses it.  Here the same function runs under the mode "JAXSELECTIVE", is
sampled, and is timed beside the alternatives.

Run it with ``make demo``, or ``python docs/examples/coal_mining.py``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import pytensor_jaxlink as pjl

DATA = Path(__file__).with_suffix(".csv")
DRAWS, WARM_UP = 4_000, 500
console = Console(width=100)

# JAX hands programs of 1,000 operations or more to a thread, and waking it takes longer than these
# compute.  Here every call is waited for (docs/performance.md).
jax.config.update("jax_cpu_enable_async_dispatch", False)

Logp = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def read_data() -> tuple[np.ndarray, np.ndarray]:
    """The years, and the number of disasters in each."""
    table = np.loadtxt(DATA, delimiter=",", skiprows=3, dtype=int)
    return table[:, 0], table[:, 1].astype("float64")


def build(counts: np.ndarray, mode: str | pjl.JAXLinker) -> pytensor.compile.executor.Function:
    """The log posterior of the two log rates given ``tau``, and its gradient."""
    theta = pt.vector("theta", dtype="float64", shape=(2,))
    tau = pt.lscalar("tau")
    y = pytensor.shared(counts, name="y")
    early, late = pt.exp(theta[0]), pt.exp(theta[1])
    before, after = y[:tau], y[tau:]
    logp = (
        (before * theta[0] - early).sum()
        + (after * theta[1] - late).sum()
        # Exponential(1) priors on the rates, with the Jacobian of the logarithm.
        + (theta - pt.exp(theta)).sum()
    )
    return pytensor.function([theta, tau], [logp, pt.grad(logp, theta)], mode=mode)


def hand_written(counts: np.ndarray) -> Logp:
    """The same by a JAX programmer: jit, with ``tau`` declared static by hand."""

    def logp(theta: jax.Array, y: jax.Array, tau: int) -> jax.Array:
        early, late = jnp.exp(theta[0]), jnp.exp(theta[1])
        return (
            (y[:tau] * theta[0] - early).sum()
            + (y[tau:] * theta[1] - late).sum()
            + (theta - jnp.exp(theta)).sum()
        )

    compiled = jax.jit(jax.value_and_grad(logp), static_argnums=2)
    y = jnp.asarray(counts)
    return lambda theta, tau: compiled(theta, y, tau)


def show_refusal(counts: np.ndarray) -> None:
    """What PyTensor's own JAX mode says of the function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            build(counts, "JAX")(np.zeros(2), 40)
    except Exception as error:  # whatever it is, it is what is shown
        lines = [line for line in str(error).splitlines() if line.strip()]
        text = Text(f"{type(error).__name__}: " + "\n".join(lines[:3]), style="red")
        console.print(Panel(text, title='mode="JAX"', title_align="left"))


def sample(logp: Logp, years: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Metropolis within Gibbs: the rates by Langevin proposals, the change point by jumps."""
    rng = np.random.default_rng(1851)
    step = 0.12
    theta, tau = np.array([1.0, 0.0]), years // 2
    value, slope = (np.asarray(part) for part in logp(theta, tau))
    thetas, taus, accepted = [], [], 0
    for draw in range(DRAWS + WARM_UP):
        ahead = theta + 0.5 * step**2 * slope
        proposal = ahead + step * rng.normal(size=2)
        new_value, new_slope = (np.asarray(part) for part in logp(proposal, tau))
        back = proposal + 0.5 * step**2 * new_slope
        forward_density = -((proposal - ahead) ** 2).sum() / (2 * step**2)
        backward_density = -((theta - back) ** 2).sum() / (2 * step**2)
        if np.log(rng.uniform()) < new_value - value + backward_density - forward_density:
            theta, value, slope = proposal, new_value, new_slope
            accepted += draw >= WARM_UP

        jump = tau + int(rng.integers(1, 7)) * int(rng.choice([-1, 1]))
        if 1 <= jump < years:
            new_value, new_slope = (np.asarray(part) for part in logp(theta, jump))
            if np.log(rng.uniform()) < new_value - value:
                tau, value, slope = jump, new_value, new_slope
        if draw >= WARM_UP:
            thetas.append(theta)
            taus.append(tau)
    return np.array(thetas), np.array(taus), accepted / DRAWS


def show_posterior(years: np.ndarray, thetas: np.ndarray, taus: np.ndarray) -> None:
    """The change point as a histogram, the rates as means and intervals."""
    shares = Counter(years[taus].tolist())
    most = max(shares.values())
    table = Table(title="posterior of the change point", title_justify="left", box=None)
    table.add_column("first year of the new rate", justify="right")
    table.add_column("share of draws", justify="right")
    table.add_column("")
    for year in range(min(shares), max(shares) + 1):
        if shares[year] / len(taus) >= 0.005:
            bar = "█" * round(40 * shares[year] / most)
            table.add_row(str(year), f"{shares[year] / len(taus):.3f}", f"[cyan]{bar}[/cyan]")
    console.print(table)
    for name, rates in zip(("before", "after"), np.exp(thetas).T, strict=True):
        low, high = np.quantile(rates, [0.05, 0.95])
        console.print(
            f"disasters a year {name}: [bold]{rates.mean():.2f}[/bold] "
            f"(90 %: {low:.2f} to {high:.2f})"
        )


def time_alternatives(counts: np.ndarray) -> Table:
    """Time to the first result, for a further change point, and per call, side by side.

    The row "one change point" is the program for a single ``tau``, which JAX compiles for again
    when another one comes.
    """
    builders: dict[str, Callable[[], Logp]] = {
        "hand-written JAX": lambda: hand_written(counts),
        "JAXSELECTIVE": lambda: build(counts, "JAXSELECTIVE"),
        "JAXSELECTIVE, one change point": lambda: build(counts, pjl.JAXLinker(dynamic=False)),
        "NUMBA": lambda: build(counts, "NUMBA"),
    }
    theta = np.array([1.0, 0.0])

    def seconds(action: Callable[[], object]) -> float:
        start = time.perf_counter()
        jax.block_until_ready(action())
        return time.perf_counter() - start

    first, further, functions = {}, {}, {}
    for name, builder in builders.items():
        start = time.perf_counter()
        functions[name] = builder()
        jax.block_until_ready(functions[name](theta, 40))
        first[name] = time.perf_counter() - start
        jax.block_until_ready(functions[name](theta, 42))  # the second one may become data
        further[name] = seconds(lambda: functions[name](theta, 44))  # noqa: B023 -- called at once
    calls: dict[str, list[float]] = {name: [] for name in builders}
    for _ in range(1_500):
        for name, function in functions.items():
            calls[name].append(seconds(lambda: function(theta, 40)))  # noqa: B023

    table = Table(title="the same function", title_justify="left")
    table.add_column("")
    for heading in ("first result", "a third change point", "a call (median)", "ratio"):
        table.add_column(heading, justify="right")
    reference = float(np.median(calls["hand-written JAX"]))
    for name in builders:
        typical = float(np.median(calls[name]))
        table.add_row(
            name,
            f"{first[name]:.2f} s",
            f"{further[name] * 1e3:.1f} ms",
            f"{typical * 1e6:.0f} µs",
            f"{typical / reference:.2f}",
        )
    return table


def show_break(counts: np.ndarray) -> None:
    """A change point that is itself computed from the data.

    The means before and after it are rewritten and break nothing; a result whose length depends on
    the data is a graph break.
    """
    y = pt.vector("y", dtype="float64")
    total, length = y.cumsum(), y.shape[0]
    split = pt.arange(1, length)
    before, after = total[:-1], total[-1] - total[:-1]
    profile = before * pt.log(before / split) + after * pt.log(after / (length - split))
    best = profile.argmax() + 1
    rates = pt.stack([y[:best].mean(), y[best:].mean()])
    seen = pt.unique(y)
    f = pytensor.function([y], [best, rates, seen], mode="JAXSELECTIVE")
    tau, (early, late), numbers = f(counts)
    console.print(
        f"best single split: {1851 + int(tau)}, with {early:.2f} disasters a year before it "
        f"and {late:.2f} after; numbers of a year: "
        + ", ".join(f"{number:.0f}" for number in numbers)
    )
    console.print(Panel(str(f.explain()), title="f.explain()", title_align="left"))


def main() -> None:
    """Print the whole page."""
    years, counts = read_data()
    console.print(Rule("British coal-mining disasters, 1851–1962"))
    console.print(
        f"{len(years)} years, {counts.sum():.0f} disasters. "
        "Likelihood: y[:tau] at one rate, y[tau:] at another, and the gradient.\n",
        markup=False,
    )
    console.print("[bold]1. PyTensor's own JAX mode[/bold]")
    show_refusal(counts)

    console.print("\n[bold]2. The same function under JAXSELECTIVE[/bold]")
    f = build(counts, "JAXSELECTIVE")
    console.print(Panel(str(f.explain()), title="f.explain()", title_align="left"))

    console.print("\n[bold]3. Sampling it[/bold]")
    start = time.perf_counter()
    thetas, taus, accepted = sample(f, len(years))
    took = time.perf_counter() - start
    show_posterior(years, thetas, taus)
    console.print(
        f"{f.stats.calls:,} calls in {took:.1f} s, with {len(set(taus))} change points that were "
        f"accepted; {accepted:.0%} of the moves of the rates accepted. Compiled for the first "
        "change point, and once more for all others:"
    )
    console.print("\n".join(f.explain().sizes), markup=False)

    console.print("\n[bold]4. What is rewritten, and where the graph does break[/bold]")
    show_break(counts)

    console.print("\n[bold]5. How fast it is[/bold]")
    console.print(time_alternatives(counts))
    console.print(
        f"pytensor_jaxlink {pjl.__version__}, PyTensor {pytensor.__version__}, "
        f"JAX {jax.__version__}, on {jax.devices()[0].platform}"
    )

    console.print("\n[bold]6. The same as a PyMC model[/bold]")
    if find_spec("pymc") is None:
        pip = f"{sys.executable} -m pip install --editable '.[pymc]'"
        console.print(f"PyMC is not installed here. To see this part: {pip}", markup=False)
    else:
        import coal_mining_pymc  # beside this script

        coal_mining_pymc.main()


if __name__ == "__main__":
    main()
