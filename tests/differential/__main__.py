"""``python -m tests.differential --count 5000 --seed 0``: compare any number of random graphs."""

from __future__ import annotations

import argparse

import jax

import pytensor_jaxlink  # noqa: F401 -- registers the mode
from tests.differential.compare import differences


def main() -> None:
    """Print every difference, and how many graphs had one."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--loops", action="store_true")
    options = parser.parse_args()
    wrong = 0
    for number, seed in enumerate(range(options.seed, options.seed + options.count)):
        found = differences(seed, loops=options.loops)
        wrong += bool(found)
        for line in found:
            print(line)
        if number % 100 == 99:
            jax.clear_caches()
    print(f"{options.count} graphs, {wrong} with differences")


if __name__ == "__main__":
    main()
