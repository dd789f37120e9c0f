"""Functions of equal graphs have compiled code in common, and their own counters and limits."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.tensor.random.basic import WaldRV
from pytensor.tensor.random.op import RandomVariable

import pytensor_jaxlink
from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.errors import OtherCodeError
from pytensor_jaxlink.runtime import whole

DATA = np.arange(1.0, 6.0)


@pytest.fixture(autouse=True)
def nothing_kept():
    whole._kept.clear()
    yield
    whole._kept.clear()


def built(scale=2.0, **options):
    x = pt.vector("x", dtype="float64")
    outputs = [pt.exp(-x).sum() * scale, pt.sin(x)]
    return pytensor.function([x], outputs, mode=JAXLinker(**options))


def check(f, data, scale=2.0):
    total, wave = f(data)
    np.testing.assert_allclose(total, np.exp(-data).sum() * scale, rtol=1e-14)
    np.testing.assert_allclose(wave, np.sin(data), rtol=1e-14)


def test_an_equal_function_compiles_nothing():
    first, second = built(), built()
    check(first, DATA)
    check(second, DATA)
    assert (first.stats.equal_code, second.stats.equal_code) == (0, 1)
    assert first.stats.compilations == second.stats.compilations == [1]
    check(second, DATA + 1)
    assert second.stats.calls == 2
    assert second.stats.slow_calls == second.stats.fallbacks == 0


def test_the_code_outlives_its_function_and_the_graph_does_not():
    first = built()
    check(first, DATA)
    graph = weakref.ref(first.vm.compiled.view)
    del first
    gc.collect()
    assert graph() is None
    second = built()
    check(second, DATA)
    assert second.stats.equal_code == 1


@pytest.mark.parametrize("dynamic", ["auto", False])
def test_each_goes_on_with_code_of_its_own_for_other_shapes(dynamic):
    first, second = built(dynamic=dynamic), built(dynamic=dynamic)
    check(first, DATA)
    check(second, DATA)
    for length in (3, 5, 0, 70):
        for f in (second, first):
            check(f, np.arange(1.0, length + 1.0))
    # The one that made the code counts nothing twice, though JAX compiles for it again.
    assert first.stats.compilations == second.stats.compilations
    assert first.stats.slow_calls == second.stats.slow_calls == 0


def test_limits_are_counted_for_each():
    for _ in range(2):
        f = built(dynamic=False, recompile_limit=2)
        check(f, DATA[:1])
        check(f, DATA[:2])
        with pytest.warns(pytensor_jaxlink.JAXLinkWarning):
            check(f, DATA[:3])
        assert f.stats.compilations == [2]


def test_code_of_several_shapes_is_nobody_elses():
    first = built(dynamic=False)
    check(first, DATA)
    check(first, DATA[:2])
    second = built(dynamic=False)
    check(second, DATA)
    assert second.stats.equal_code == 0


@pytest.mark.parametrize("value", [3.0, -2.0, np.nan, 0.0, -0.0])
def test_other_constants_are_other_graphs(value):
    x = pt.vector("x", dtype="float64")
    for other in (0.0, value, 0.0):
        f = pytensor.function([x], pt.switch(x > 2, np.float64(other), x), mode="JAXSELECTIVE")
        expected = np.where(DATA > 2, other, DATA)
        np.testing.assert_array_equal(f(DATA), expected)
        np.testing.assert_array_equal(np.signbit(f(DATA)), np.signbit(expected))


@pytest.mark.parametrize("inner", [-0.0, np.nan, 1.0])
def test_constants_of_inner_graphs_are_compared(inner):
    """To PyTensor's comparison of inner graphs 0.0 is -0.0."""
    x = pt.vector("x", dtype="float64")

    def found(value):
        f = pytensor.function([x], loop(lambda e: pt.switch(e > 2, value, e), x), mode=JAXLinker())
        return np.asarray(f(DATA))

    shared = [found(np.float64(value)) for value in (0.0, inner)]
    whole._kept.clear()
    np.testing.assert_array_equal(shared[1], found(np.float64(inner)))
    np.testing.assert_array_equal(np.signbit(shared[1]), np.signbit(found(np.float64(inner))))


def test_equal_loops_share_code():
    x = pt.vector("x", dtype="float64")
    for k in range(2):
        f = pytensor.function([x], loop(lambda e: pt.exp(-e) * 2.0, x), mode="JAXSELECTIVE")
        np.testing.assert_allclose(f(DATA), np.exp(-DATA) * 2)
        assert f.stats.equal_code == k


def loop(step, sequence):
    return pytensor.scan(step, sequences=[sequence], return_updates=False)


def test_large_constants_are_compared():
    def made(value):
        table = np.full(100_000, value)
        x = pt.lvector("x")
        return pytensor.function([x], pt.as_tensor(table)[x], mode="JAXSELECTIVE")

    for value in (1.0, 2.0, 1.0):
        np.testing.assert_array_equal(made(value)(np.array([0, 5])), [value, value])


def test_forms_of_answers_are_told_apart():
    x = pt.vector("x", dtype="float64")
    for outputs, expected in ((pt.exp(x), np.exp(DATA)), ([pt.exp(x)], [np.exp(DATA)])) * 2:
        found = pytensor.function([x], outputs, mode="JAXSELECTIVE")(DATA)
        assert type(found) is list if isinstance(outputs, list) else isinstance(found, jax.Array)
        np.testing.assert_allclose(found, expected)
    for _ in range(2):
        found = pytensor.function([x], pt.exp(x), mode=JAXLinker(outputs="numpy"))(DATA)
        assert type(found) is np.ndarray


def test_states_stay_their_own():
    functions, states = [], []
    for start in (1.0, 10.0):
        state, x = pytensor.shared(np.full(3, start)), pt.vector("x", dtype="float64")
        linker = JAXLinker(donate="none")
        functions.append(pytensor.function([x], x.sum(), updates={state: state + x}, mode=linker))
        states.append(state)
    for f in (*functions, *functions):
        f(np.ones(3))
    assert [f.stats.equal_code for f in functions] == [0, 1]
    assert [state.get_value()[0] for state in states] == [3.0, 12.0]


def test_draws_are_those_of_each_generator():
    def drawn(seed):
        generator = pytensor.shared(np.random.default_rng(seed))
        following, draws = pt.random.normal(rng=generator, size=4).owner.outputs
        f = pytensor.function([], draws, updates={generator: following}, mode="JAXSELECTIVE")
        return f, np.stack([f(), f()])

    (first, a), (second, b), (third, c) = map(drawn, (1, 2, 1))
    assert [f.stats.equal_code for f in (first, second, third)] == [0, 1, 1]
    np.testing.assert_array_equal(a, c)
    assert not np.any(a == b)
    assert not np.any(a[0] == a[1])


def distribution_of_pymc():
    """A class that PyMC defines and we have a sampler for; PyMC need not be there."""

    def rng_fn(cls, rng, mu, lam, alpha, size):
        return rng.wald(mu, lam, size) + alpha

    own = {"signature": "(),(),()->()", "rng_fn": classmethod(rng_fn)}
    return type("WaldRV", (WaldRV,), {"__module__": "pymc.distributions.continuous"} | own)


def drawn_from(distribution):
    generator = pytensor.shared(np.random.default_rng(1))
    parameters = map(pt.as_tensor, (2.0, 1.0, 0.5))
    following, draws = distribution.make_node(generator, pt.as_tensor([4]), *parameters).outputs
    f = pytensor.function([], draws, updates={generator: following}, mode="JAXSELECTIVE")
    found = f()
    assert f.stats.fallbacks == 0, f.explain()
    return f, found


def test_draws_of_pymcs_distributions_by_our_samplers():
    kind = distribution_of_pymc()
    (first, a), (second, b) = drawn_from(kind()), drawn_from(kind())
    assert (first.stats.equal_code, second.stats.equal_code) == (0, 1)
    np.testing.assert_array_equal(a, b)


def test_draws_by_a_sampler_of_the_users_are_compiled_for_each():
    kind = distribution_of_pymc()
    jax_sample_fn.register(kind, lambda op, node: lambda key, *_: jax.numpy.full(4, by))
    for by in (2.0, 3.0):
        f, draws = drawn_from(kind())
        assert f.stats.equal_code == 0
        np.testing.assert_array_equal(draws, np.full(4, by))


def test_draws_of_a_class_of_the_users_are_compiled_for_each():
    kind = type("Mine", (distribution_of_pymc(),), {})
    assert [drawn_from(kind())[0].stats.equal_code for _ in range(2)] == [0, 0]


def test_checks_are_those_of_each():
    for _ in range(2):
        x, k = pt.vector("x", dtype="float64"), pt.lscalar("k")
        f = pytensor.function([x, k], x[k], mode="JAXSELECTIVE")
        assert f(DATA, 1) == 2.0
        with pytest.raises(IndexError):
            f(DATA, 7)
        assert f(DATA, 2) == 3.0
        k_on_device = jax.numpy.asarray(1)
        assert [float(f(jax.numpy.asarray(DATA), k_on_device)) for _ in range(3)] == [2.0] * 3


class Scaled(Op):
    """An Op with a rule that reads a variable."""

    __props__ = ()
    by = 2.0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * self.by


def test_code_of_others_is_made_for_each():
    @jax_funcify.register(Scaled)
    def rule(op, **kwargs):
        return lambda x: x * Scaled.by

    x = pt.vector("x", dtype="float64")
    try:
        for Scaled.by in (2.0, 3.0):
            f = pytensor.function([x], Scaled()(x), mode="JAXSELECTIVE")
            np.testing.assert_array_equal(f(DATA), DATA * Scaled.by)
            assert f.stats.equal_code == 0
    finally:
        Scaled.by = 2.0


class OnHost(Op):
    """The same without a rule: it runs between two regions."""

    __props__ = ()
    runs = 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        OnHost.runs += 1
        outputs[0][0] = inputs[0] * Scaled.by


def around_a_host_step(**options):
    x = pt.vector("x", dtype="float64")
    return pytensor.function([x], pt.cos(OnHost()(pt.exp(-x))).sum(), mode=JAXLinker(**options))


@pytest.mark.parametrize("dynamic", ["auto", False])
def test_regions_around_a_host_step(dynamic):
    """The step runs once a call, also in that which finds the code; it may be the user's."""
    first, second, third = (around_a_host_step(dynamic=dynamic) for _ in range(3))
    try:
        for f, Scaled.by, shared in ((first, 2.0, 0), (second, 3.0, 2), (third, 2.0, 2)):
            OnHost.runs = 0
            for data in (DATA, DATA + 1.0):
                np.testing.assert_allclose(f(data), np.cos(np.exp(-data) * Scaled.by).sum())
            assert (f.stats.equal_code, f.stats.compilations, OnHost.runs) == (shared, [1, 1], 2)
            assert (f.stats.direct, f.stats.slow_calls) == (2, 0)
        for data in (DATA[:2], DATA[:0], DATA, np.arange(50.0)):
            for f in (second, first, third):
                np.testing.assert_allclose(f(data), np.cos(np.exp(-data) * 2.0).sum())
        assert first.stats.compilations == second.stats.compilations == third.stats.compilations
    finally:
        Scaled.by = 2.0


class Coin(RandomVariable):
    """A distribution that has no sampler in JAX."""

    name, signature, dtype = "coin", "()->()", "float64"

    @classmethod
    def rng_fn(cls, rng, chance, size):
        return (rng.random(size) < chance) * 1.0


def test_draws_beside_a_distribution_without_a_sampler():
    """A host step that ran twice would draw something else."""

    def drawn(seed):
        generators = [pytensor.shared(np.random.default_rng(seed + k)) for k in range(2)]
        following, scale = Coin()(0.5, rng=generators[0], size=20, return_next_rng=True)
        then, draws = pt.random.normal(scale=scale + 1.0, rng=generators[1]).owner.outputs
        new = dict(zip(generators, (following, then), strict=True))
        f = pytensor.function([], [scale, draws], updates=new, mode="JAXSELECTIVE")
        return f, [np.asarray(value) for _ in range(3) for value in f()]

    (first, a), (second, b), (third, c) = map(drawn, (1, 2, 1))
    assert [f.stats.equal_code for f in (first, second, third)] == [0, 1, 1]
    for one, same, other in zip(a, c, b, strict=True):
        np.testing.assert_array_equal(one, same)
        assert np.any(one != other)


def test_a_region_with_a_static_value_has_code_of_its_own():
    def built():
        x = pt.vector("x", dtype="float64")
        size = pt.cast(OnHost()(x).sum(), "int64")
        return pytensor.function([x], [pt.exp(x), pt.arange(size)], mode=JAXLinker(dynamic=False))

    for k in range(2):
        f = built()
        for data in (np.ones(2), np.ones(2) * 2, np.ones(3)):
            values = np.exp(data), np.arange(data.sum() * 2)
            for found, expected in zip(f(data), values, strict=True):
                np.testing.assert_allclose(found, expected)
        assert f.stats.slow_calls == 0, k


def test_a_rule_registered_anew_is_used():
    from pytensor.tensor.basic import Eye

    def made():
        n = pt.vector("x", dtype="float64")
        return pytensor.function([n], n.sum() * pt.eye(2), mode="JAXSELECTIVE")

    check_rule = jax_funcify.dispatch(Eye)
    np.testing.assert_array_equal(made()(DATA), 15 * np.eye(2))
    try:
        jax_funcify.register(Eye, lambda op, **kwargs: check_rule(op, **kwargs))
        f = made()
        np.testing.assert_array_equal(f(DATA), 15 * np.eye(2))
        assert f.stats.equal_code == 0
    finally:
        jax_funcify.register(Eye, check_rule)


def test_compile_and_warmup_take_it_over():
    check(built(), DATA)
    f = built().compile(DATA)
    assert (f.stats.equal_code, f.stats.compilations, f.stats.calls) == (1, [1], 0)
    check(f, DATA)
    assert (f.stats.compilations, f.stats.calls) == ([1], 1)
    f.warmup([(DATA,), (DATA[:2],)])
    check(f, DATA[:2])
    check(f, DATA)


def test_profiles_see_calls_of_shared_code():
    check(built(), DATA)
    f = built()
    with pytensor_jaxlink.profile(f) as times:
        check(f, DATA)
        check(f, DATA)
    assert f.stats.equal_code == 1
    assert times is not None


def test_a_saved_function_has_its_code(tmp_path):
    check(built(), DATA)
    f = built()
    check(f, DATA)
    pytensor_jaxlink.save(f, tmp_path / "f")
    loaded = pytensor_jaxlink.load(tmp_path / "f", prefer="compiled")
    check(loaded, DATA)


def test_jax_may_forget_the_code():
    first, second = built(), built()
    check(first, DATA)
    check(second, DATA)
    jax.clear_caches()
    for f in (second, first, second):
        check(f, DATA)
        check(f, DATA[:2])


def test_many_threads():
    functions = [built() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda f: [check(f, DATA[:k]) for k in (5, 5, 3, 5)], functions):
            pass
    assert sum(f.stats.slow_calls for f in functions) == 0


def test_code_that_could_not_be_traced_is_not_there():
    """Lengths that do not fit, in a region after a host step."""
    for _ in range(2):
        x, y = pt.vector("x", dtype="float64"), pt.vector("y", dtype="float64")
        f = pytensor.function([x, y], pt.exp(OnHost()(x) + y), mode=JAXLinker(dynamic=False))
        for _ in range(2):
            with pytest.raises(ValueError, match="broadcast"):
                f(DATA, DATA[:2])
        assert not whole._kept
        assert f.stats.equal_code == 0
        np.testing.assert_allclose(f(DATA, DATA), np.exp(3 * DATA))
        whole._kept.clear()


def test_few_codes_are_kept():
    for k in range(whole._MOST + 3):
        x = pt.vector("x", dtype="float64")
        pytensor.function([x], x + float(k), mode="JAXSELECTIVE")(DATA)
    assert len(whole._kept) <= whole._MOST


def test_code_for_a_plan_that_was_replaced_is_not_taken():
    """Another thread may make sizes data between the trace that finds code and its use."""
    first, second, other = built(), built(), built(3.0)
    check(first, DATA)
    [code] = whole._kept.values()
    other._follow(OtherCodeError(code, second.vm.compiled.executor.codes[0]))
    check(other, DATA, 3.0)
    assert other.stats.equal_code == 0
    several = around_a_host_step()
    several._follow(OtherCodeError(None, None))  # of the one region that it was
    np.testing.assert_allclose(several(DATA), np.cos(np.exp(-DATA) * Scaled.by).sum())
