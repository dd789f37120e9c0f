"""PyMC's samplers on JAX, for every model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import SimpleNamespace
from typing import Any

import jax
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.configdefaults import config
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.type import RandomType

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.link import JAXFunction, JAXLinker, jaxify
from pytensor_jaxlink.link.linker import mode_of


@contextmanager
def jax_samplers() -> Iterator[None]:
    """Let ``"numpyro"``, ``"blackjax"`` and ``"nutpie"`` sample any model of PyMC.

    PyMC and nutpie turn a model into a function of JAX with PyTensor's mode ``"JAX"``, and name it
    in their code.  Inside the block they do it by `jaxify` with ``host_ops="callback"``: masks and
    sizes need no data that JAX does not have, and black boxes are called on the host.  PyMC's own
    sampler needs no block: ``pm.sample(compile_kwargs={"mode": "JAXSELECTIVE"})``.

    Replaced, in the whole process, until the last block is left, with an exception too:

    ``pymc.sampling.jax.get_jaxified_graph``
        How PyMC makes functions of JAX, for numpyro and blackjax.
    ``pymc.sampling.jax._blackjax_inference_loop``
        The loop of blackjax.  PyMC 6.4 gives blackjax arguments that blackjax 1.6 has no longer.
    ``pymc.sampling.jax._sample_blackjax_nuts``, ``_sample_numpyro_nuts``
        They run with JAX's default types as ``floatX`` says.  Where there are fewer devices than
        chains, blackjax draws them vectorized.
    ``pymc.sampling.mcmc.JAXLinker``
        How PyMC chooses nutpie's backend: "jax" for our mode as well.
    ``nutpie.compile_pymc._make_functions``
        How nutpie makes functions.  Only ``backend="jax"`` is another.

    Raises
    ------
    NotJittableError
        From numpyro and blackjax, if JAX cannot trace the model; what stands in the way is named.
        nutpie samples these too: it calls the density from the host.

    Notes
    -----
    ::

        with model, pytensor_jaxlink.pymc.jax_samplers():
            trace = pm.sample(nuts_sampler="numpyro")
    """
    _replacement.enter()
    try:
        yield
    finally:
        _replacement.leave()


class _Replacement:
    """The replacements: made when the first block is entered, undone when the last is left."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._before: list[tuple[object, str, object]] = []

    def enter(self) -> None:
        with self._lock:
            if not self._blocks:
                for owner, name, make in _replaced():
                    original = getattr(owner, name)
                    self._before.append((owner, name, original))
                    setattr(owner, name, make(original))
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            while self._before and not self._blocks:
                setattr(*self._before.pop())


_replacement = _Replacement()


def _replaced() -> list[tuple[object, str, Callable[[object], object]]]:
    """Where, under which name, and what: a function of what is there."""
    sampling = import_module("pymc.sampling.jax")
    places: list[tuple[object, str, Callable[[Any], object]]] = [
        (sampling, "get_jaxified_graph", lambda _: jax_function),
        (sampling, "_blackjax_inference_loop", lambda _: _sample_by_blackjax),
        (sampling, "_sample_blackjax_nuts", _with_blackjax),
        (sampling, "_sample_numpyro_nuts", _with_types),
        (import_module("pymc.sampling.mcmc"), "JAXLinker", lambda theirs: theirs | JAXLinker),
    ]
    if find_spec("nutpie") is not None:
        places.append((import_module("nutpie.compile_pymc"), "_make_functions", _with_our_mode))
    return places


# -- numpyro and blackjax ------------------------------------------------------------------------


def jax_function(inputs: Sequence[object], outputs: Sequence[Any]) -> Callable[..., list[Any]]:
    """A function of JAX from the values of the inputs to the list of outputs.

    Shared variables (``pm.Data``) become constants, with the values that they now have.

    Parameters
    ----------
    inputs, outputs
        Variables of a model: its value variables, and its log density, say.

    Raises
    ------
    ValueError
        If the outputs draw random numbers.
    NotJittableError
        If JAX cannot trace the graph; what stands in the way is named.

    Examples
    --------
    >>> import jax, pytensor, pytensor.tensor as pt
    >>> from pytensor_jaxlink.pymc import jax_function
    >>> x, scale = pt.dscalar("x"), pytensor.shared(2.0)
    >>> jax.jit(jax_function([x], [x * scale]))(3.0)
    [Array(6., dtype=float64)]
    """
    shared = [v for v in graph_inputs(list(outputs)) if isinstance(v, SharedVariable)]
    if any(isinstance(variable.type, RandomType) for variable in shared):
        text = "these outputs draw random numbers, and a density is a function of its parameters"
        raise ValueError(Code.NOT_PURE.mark(text))
    values = {variable: variable.get_value(borrow=True) for variable in shared}
    function = jaxify(list(inputs), list(outputs), givens=values, name="model", host_ops="callback")
    _ = function.static_argnums  # raises what stands in the way now, and not inside a sampler
    return function


def _with_types(sample: Callable[..., object]) -> Callable[..., object]:
    """The same sampler, run with 64-bit types of JAX if and only if ``floatX`` is float64.

    Samplers take JAX's default type for their own numbers, and branches of one ``cond`` must agree.
    """

    def with_types(**options: object) -> Any:
        with jax.enable_x64(config.floatX == "float64"):
            return sample(**options)

    return with_types


def _with_blackjax(sample: Callable[..., object]) -> Callable[..., object]:
    """The same sampler, with a progress bar, and vectorized where chains have no device each."""
    sample = _with_types(sample)

    def with_blackjax(**options: Any) -> Any:
        chains = options["chains"]
        if options["chain_method"] == "parallel" and chains > jax.local_device_count():
            options["chain_method"] = "vectorized"
        if not options["progressbar"]:
            return sample(**options)
        with import_module("rich.progress").Progress() as bar:  # PyMC needs rich
            # Vectorized chains make their transitions together.
            together = 1 if options["chain_method"] == "vectorized" else chains
            task = bar.add_task("blackjax", total=together * (options["tune"] + options["draws"]))
            result = sample(**options | {"progressbar": lambda: bar.advance(task)})
            jax.effects_barrier()
        return result

    return with_blackjax


def _sample_by_blackjax(
    seed: Any,
    init_position: object,
    logp_fn: Callable[[object], object],
    draws: int,
    tune: int,
    target_accept: float,
    **options: Any,
) -> tuple[object, dict[str, object]]:
    """One chain: window adaptation, then ``draws`` transitions; positions and statistics."""
    blackjax = import_module("blackjax")
    advance = options.pop("progress_bar", None)
    algorithm = getattr(blackjax, options.pop("algorithm", "nuts"))

    def note(*_: object) -> None:
        """Advance the bar by one transition."""
        if advance:
            jax.debug.callback(advance)

    warmup = blackjax.window_adaptation(
        algorithm,
        logp_fn,
        target_acceptance_rate=target_accept,
        adaptation_info_fn=note,
        **options,
    )
    warmup_key, key = jax.random.split(seed)
    (state, parameters), _ = warmup.run(warmup_key, init_position, num_steps=tune)
    transition = algorithm(logp_fn, **parameters).step

    def step(state: Any, key: object) -> tuple[object, Any]:
        state, info = transition(key, state)
        note()
        statistics = {
            name: getattr(info, attribute)
            for name, attribute in _STATISTICS.items()
            if hasattr(info, attribute)
        }
        return state, (state.position, {**statistics, "lp": state.logdensity})

    _, (positions, statistics) = jax.lax.scan(step, state, jax.random.split(key, draws))
    return positions, statistics


_STATISTICS = {
    "diverging": "is_divergent",
    "energy": "energy",
    "tree_depth": "num_trajectory_expansions",
    "n_steps": "num_integration_steps",
    "acceptance_rate": "acceptance_rate",
}


# -- nutpie --------------------------------------------------------------------------------------


def _with_our_mode(make_functions: Callable[..., Any]) -> Callable[..., object]:
    """The same maker of functions, which makes ours where it would make those of mode "JAX"."""

    def make(*args: object, mode: object, **options: object) -> tuple[object, ...]:
        if mode != "JAX":
            return make_functions(*args, mode=mode, **options)
        # Nutpie calls what has PyTensor's gradient from the host, where host steps cost less than
        # callbacks; what JAX is to differentiate has to be one function of JAX.
        traced = not options.get("compute_grad", True)
        ours = mode_of(JAXLinker(host_ops="callback" if traced else "split"))
        return tuple(
            _ForNutpie(part) if isinstance(part, JAXFunction) else part
            for part in make_functions(*args, mode=ours, **options)
        )

    return make


class _ForNutpie:
    """One of our functions as nutpie takes those of mode "JAX": it looks into them."""

    def __init__(self, function: JAXFunction) -> None:
        self.get_shared = function.get_shared
        self.vm = SimpleNamespace(jit_fn=_PureCall(function))


class _PureCall:
    """Calls a function with the values of its shared variables, from several threads."""

    def __init__(self, function: JAXFunction) -> None:
        self._compiled = function.vm.compiled
        # Nutpie gives this to JAX, for gradients.
        self._fun = function.jax_fn
        # What runs on the host between regions need not expect several threads.
        self._lock = Lock() if function.explain().breaks else nullcontext()

    def __call__(self, *values: object) -> list[Any]:
        with self._lock:
            return self._compiled.executor(values)
