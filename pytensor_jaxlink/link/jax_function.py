"""The functions that `pytensor.function` returns under our modes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from pytensor.compile.maker import FunctionMaker
from pytensor.configdefaults import config

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import OtherCodeError
from pytensor_jaxlink.link.explanation import Explanation, with_fallbacks
from pytensor_jaxlink.link.fast_function import FastFunction
from pytensor_jaxlink.link.virtual_machine import with_declared_type
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime import Stats


class JAXFunction(FastFunction):
    """A compiled PyTensor function that also explains itself and shows its pure JAX function.

    Everything of `pytensor.compile.executor.Function` works: keyword inputs, defaults, updates,
    ``copy``, pickling.

    Examples
    --------
    >>> import jax, numpy as np, pytensor, pytensor.tensor as pt
    >>> import pytensor_jaxlink
    >>> x, n = pt.vector("x", dtype="float64"), pt.lscalar("n")
    >>> f = pytensor.function([x, n], x.reshape((n, -1)).sum(axis=0), mode="JAXSELECTIVE")
    >>> f(np.arange(6.0), 3)
    Array([6., 9.], dtype=float64)
    >>> print(f.explain())
    1 region, 0 graph breaks
    static inputs: n
    region 0: 2 operations; compiled for each value of n
    >>> f.static_argnums
    (1,)
    >>> jax.jit(f.jax_fn, static_argnums=f.static_argnums)(np.arange(6.0), 3)
    [Array([6., 9.], dtype=float64)]
    """

    def copy(self, *args: Any, **options: Any) -> Any:
        """A function of the same graph; see `pytensor.compile.executor.Function.copy`."""
        maker = self.maker
        with maker.copied():
            found: Any = super().copy(*args, **options)
        found.interface.form = self.interface.form  # PyTensor too sets it now
        return found

    def compile(self, *examples: object) -> JAXFunction:
        """Compile for arguments like these, ahead of the first call; nothing is stored.

        A function that is one region is not run.  One with several regions is, up to its last
        region, because the shapes of what they exchange are known only then; host steps run too,
        and raise what they raise in a call.

        Parameters
        ----------
        *examples
            Arrays, or `jax.ShapeDtypeStruct` where the function is one region without static
            sizes.  Other types are converted as in a call.

        Returns
        -------
        JAXFunction
            The function itself.

        Raises
        ------
        TypeError
            If the arguments do not fit, or only arrays show the program of such a call.

        Examples
        --------
        >>> import jax, pytensor, pytensor.tensor as pt
        >>> import pytensor_jaxlink
        >>> x = pt.vector("x", dtype="float64")
        >>> f = pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")
        >>> f.compile(jax.ShapeDtypeStruct((5,), "float64")).stats.compilations
        [1]
        """
        expected = len(self.interface.given)
        if len(examples) != expected:
            text = f"expected {expected} examples, found {len(examples)}"
            raise TypeError(Code.EXAMPLES_OF_COMPILE.mark(text))
        executor = None
        while executor is not self._compiled.executor:  # a failure changes the plan
            executor = self._compiled.executor
            self._find_fast()
            try:
                self.vm.compile_for(self._converted(examples), self._kept())
            except OtherCodeError as other:
                self._follow(other)
                if other.code is None:
                    executor = None  # there is a path that has compiled nothing
        return self

    def _converted(self, examples: Sequence[object]) -> list[object]:
        """The examples in the types that the inputs declare, as the arguments of calls are."""
        specs = zip(examples, self.maker.inputs, self.input_names, self.input_storage, strict=False)
        return [
            with_declared_type(example, spec.variable, name)
            if isinstance(example, jax.ShapeDtypeStruct)
            else container.type.filter(
                example, strict=bool(container.strict), allow_downcast=container.allow_downcast
            )
            for example, spec, name, container in specs
        ]

    def warmup(
        self, calls: Iterable[Sequence[object]], *, progress: Callable[[int], None] | None = None
    ) -> JAXFunction:
        """`compile` for several calls.

        Parameters
        ----------
        calls
            For each, the arguments, as a tuple or list.
        progress
            Called with the number of calls that are done after each; by default the progress is
            shown on a terminal, and nowhere else.

        Returns
        -------
        JAXFunction
            The function itself.
        """
        calls = list(calls)
        show = progress or _shown(len(calls))
        for done, arguments in enumerate(calls, start=1):
            self.compile(*arguments)
            show(done)
        return self

    def explain(self) -> Explanation:
        """Regions, graph breaks and static inputs, and calls that fell back, in words."""
        compiled = self._compiled
        return with_fallbacks(compiled.explanation, self.stats, compiled.policy.limit)

    @property
    def plan(self) -> Plan:
        """The frozen plan that is run."""
        return self._compiled.plan

    @property
    def stats(self) -> Stats:
        """Counters of calls, compilations and cache hits, host steps and bytes moved."""
        return self._compiled.stats.collected()

    @property
    def jax_fn(self) -> Callable[..., list[Any]]:
        """The pure function ``(*inputs, *shared) -> [*outputs, *updates]``, not jitted.

        It can be traced by `jax.jit` (with `static_argnums`), `jax.grad`, `jax.vmap` and others
        where the graph has no break; with concrete arguments it runs whatever the graph.  Sizes
        are ints or tuples of ints.  A generator is given as a NumPy generator, or, where JAX
        traces it, as a key: ``jax.random.key_data`` or two 32-bit words.  Checks are dropped.
        """
        trace, count = self._compiled.trace, len(self.output_names)
        if not self.interface.ending.overwritten:
            return trace
        return lambda *values: trace(*values)[:count]  # without what operations in place leave

    def _static_inputs(self) -> tuple[int, ...]:
        return self._compiled.for_user.static_argnums

    def __reduce__(self) -> tuple[Any, ...]:
        containers = list(self.input_storage)
        return _rebuild, (self.maker, containers, self.trust_input)


def _shown(total: int) -> Callable[[int], None]:
    """Shows progress in one line of a terminal."""

    def show(done: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == total else ""
            sys.stderr.write(f"\rcompiled {done} of {total}{end}")
            sys.stderr.flush()

    return show


def _rebuild(maker: FunctionMaker, containers: list[object], trust_input: bool) -> Any:
    if not config.unpickle_function:
        return None  # as PyTensor
    function = maker.create(containers)
    function.trust_input = trust_input
    return function
