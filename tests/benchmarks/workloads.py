"""The ten workloads, by name, in the order of the tables."""

from __future__ import annotations

from collections.abc import Callable

from tests.benchmarks.regressions import (
    hierarchical_normal,
    logistic_regression,
    mixture,
    negative_binomial,
)
from tests.benchmarks.sequences import autoregression, hidden_markov
from tests.benchmarks.structured import (
    elementwise_chain,
    gaussian_process,
    matrix_factorisation,
    two_layer_network,
)
from tests.benchmarks.workload import Workload

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "logistic regression": logistic_regression,
    "hierarchical normal": hierarchical_normal,
    "mixture": mixture,
    "negative binomial": negative_binomial,
    "Gaussian process": gaussian_process,
    "AR(2) scan": autoregression,
    "hidden Markov scan": hidden_markov,
    "elementwise chain": elementwise_chain,
    "matrix factorisation": matrix_factorisation,
    "two-layer network": two_layer_network,
}
