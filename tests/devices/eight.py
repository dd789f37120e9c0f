"""Cases on eight simulated devices; `test_devices.py` runs them in a process of their own."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax.sharding import AxisType

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, jaxify, load, profile, save
from tests.devices.models import KINDS, ROWS, W, X, Y, mesh_of, over, regression, spread
from tests.helpers import black_box, sort_down

sort = black_box(sort_down)
MODE = "JAXSELECTIVE"
BIG = np.arange(float(ROWS))  # a constant that is an argument of its region


def assert_not_on_host(f) -> None:
    stats = f.stats
    assert (stats.arrays_gathered, stats.bytes_to_host, stats.fallbacks) == (0, 0, 0), stats


def case_data_parallel_log_likelihood_and_gradient() -> None:
    inputs, outputs = regression()
    alone = pytensor.function(inputs, outputs, mode=MODE)(X, Y, W)
    for kind in KINDS:
        mesh = mesh_of(kind)
        f = pytensor.function(inputs, outputs, mode=MODE)
        for weights in (W, spread(W, over(mesh))):
            logp, gradient = f(
                spread(X, over(mesh, "data")), spread(Y, over(mesh, "data")), weights
            )
            np.testing.assert_allclose(logp, alone[0], rtol=1e-12)
            np.testing.assert_allclose(gradient, alone[1], rtol=1e-12)
            assert gradient.sharding.mesh == mesh
            assert gradient.is_fully_replicated
        assert_not_on_host(f)


def case_results_lie_as_asked() -> None:
    x = pt.dvector("x")
    for kind in KINDS:
        rows = over(mesh_of(kind), "data")
        f = pytensor.function([x], [pt.exp(x / ROWS), x.sum()], mode=MODE)
        assert f(spread(Y, rows))[0].sharding == rows
        asked = jax.jit(f.jax_fn, out_shardings=[over(mesh_of(kind)), over(mesh_of(kind))])
        assert asked(spread(Y, rows))[0].is_fully_replicated
        assert_not_on_host(f)


def case_jaxify_under_transformations() -> None:
    inputs, outputs = regression()
    rows, weights = over(mesh_of(AxisType.Auto), "data"), np.stack([W, 2 * W])
    fn = jaxify(inputs, outputs[0])
    over_weights = jax.vmap(jax.grad(fn, argnums=2), (None, None, 0))
    with jax.checking_leaks():
        found = jax.jit(over_weights)(spread(X, rows), spread(Y, rows), weights)
    expected = jaxify(inputs, outputs[1])
    for gradient, each in zip(found, weights, strict=True):
        np.testing.assert_allclose(gradient, expected(X, Y, each), rtol=1e-12)


def case_states_keep_their_sharding() -> None:
    x = pt.dvector("x")
    for kind in KINDS:
        rows, everywhere = over(mesh_of(kind), "data"), over(mesh_of(kind))
        for size, donated in ((ROWS, False), (ROWS * 200, kind == AxisType.Auto)):
            state = pytensor.shared(np.zeros(size), "state")
            # XLA alone would leave the state where x is: everywhere.
            f = pytensor.function([x], state.sum(), updates={state: 0 * state + x}, mode=MODE)
            state.set_value(spread(np.zeros(size), rows))
            given = spread(np.ones(size), everywhere)
            for _ in range(10):
                f(given)
                assert state.get_value(return_internal_type=True).sharding == rows
            assert f(given) == size
            assert (f.stats.donated_bytes > 0) == donated
            assert_not_on_host(f)


def case_values_of_shared_variables_stay_where_they_are() -> None:
    state = pytensor.shared(np.zeros(ROWS), "state")
    rows = over(mesh_of(AxisType.Explicit), "data")
    f = pytensor.function([], state * 2, mode=MODE)
    for borrow in (False, True):
        state.set_value(spread(Y, rows), borrow=borrow)
        assert state.get_value(return_internal_type=True).sharding == rows
        np.testing.assert_array_equal(f(), 2 * Y)
    state.set_value(Y)
    assert type(state.get_value()) is np.ndarray
    state.set_value(spread(Y, rows).astype("int32"))  # another type is converted, by PyTensor
    assert state.get_value().dtype == "float64"
    with pytest.raises(TypeError, match="Wrong number of dimensions"):
        state.set_value(spread(X, over(rows.mesh, "data")))
    assert type(pickle.loads(pickle.dumps(state.container)).type) is type(state.type)


def case_numpy_mode_keeps_numpy() -> None:
    state = pytensor.shared(np.zeros(ROWS), "state")
    f = pytensor.function(
        [], state * 2, updates={state: state + 1}, mode=JAXLinker(outputs="numpy")
    )
    state.set_value(spread(Y, over(mesh_of(AxisType.Auto), "data")))
    assert type(state.get_value(borrow=True)) is np.ndarray
    assert type(f()) is type(state.get_value(borrow=True)) is np.ndarray


def case_state_of_a_pure_function() -> None:
    rows = over(mesh_of(AxisType.Auto), "data")
    state = pytensor.shared(np.zeros(ROWS), "state")
    fn = jaxify([], state.sum(), updates={state: state + 1})
    state.set_value(spread(Y, rows))
    _, new = jax.jit(fn)(*fn.initial_state())
    fn.store(new)
    assert state.get_value(return_internal_type=True).sharding == rows
    np.testing.assert_array_equal(state.get_value(), Y + 1)


def case_constants_go_to_each_mesh_once() -> None:
    x, state = pt.dvector("x"), pytensor.shared(np.zeros(3), "state")
    mesh = mesh_of(AxisType.Auto)
    functions = [
        pytensor.function([x], x * BIG, mode=MODE),
        pytensor.function([x], x * BIG, updates={state: state + 1}, mode=MODE),
        pytensor.function([x], sort(x * BIG) * BIG, mode=MODE),
    ]
    for f in functions:
        for where in (over(mesh, "data"), jax.devices()[5], over(mesh)):
            given = jax.device_put(Y, where)
            state.set_value(np.zeros(3))
            f(given)
            f(given)
            state.set_value(np.zeros(3))
            with jax.transfer_guard_device_to_device("disallow"):
                f(given)
    assert functions[0](spread(Y, over(mesh, "data"))).sharding == over(mesh, "data")


def case_constants_of_what_the_user_traces() -> None:
    x, y = pt.dvectors("x", "y")
    f = pytensor.function([x, y], x * BIG + y, mode=MODE)
    given = spread(Y, over(mesh_of(AxisType.Auto), "data"))
    for factor in (1, 2):  # the first trace leaves nothing behind
        found = jax.jit(lambda values, factor=factor: f.jax_fn(given, values * factor))(Y)
        np.testing.assert_allclose(found[0], Y * BIG + Y * factor)


def case_host_steps_gather() -> None:
    x, state = pt.dvector("x"), pytensor.shared(np.zeros(ROWS), "state")
    z = sort(x + BIG)
    f = pytensor.function([x], z[:3], updates={state: state + z * BIG}, mode=MODE)
    expected = -np.sort(-(Y + BIG))
    for kind in KINDS:
        rows = over(mesh_of(kind), "data")
        state.set_value(spread(np.zeros(ROWS), rows))
        before = f.stats.arrays_gathered
        for _ in range(10):
            found = f(spread(Y, rows))
            assert state.get_value(return_internal_type=True).sharding == rows
        np.testing.assert_array_equal(found, expected[:3])
        np.testing.assert_allclose(state.get_value(), 10 * expected * BIG, rtol=1e-12)
        assert f.stats.arrays_gathered - before == 10
    assert f.stats.fallbacks == 0
    assert f.stats.bytes_to_host == 20 * BIG.nbytes


def case_loops() -> None:
    rows = pt.dmatrix("rows")
    start = [pt.zeros(rows.shape[1])]
    for step, gathered in ((lambda a, s: 0.9 * s + a, 0), (lambda a, s: sort(s) + a, 1)):
        states = pytensor.scan(step, sequences=[rows], outputs_info=start, return_updates=False)
        f = pytensor.function([rows], [states[-1], (states**2).sum()], mode=MODE)
        given = X[:80].T
        alone = f(given)
        for kind in KINDS:
            before = f.stats.arrays_gathered
            found = f(spread(given, over(mesh_of(kind), None, "data")))
            for one, other in zip(found, alone, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
            assert f.stats.arrays_gathered - before == gathered
        assert f.stats.fallbacks == 0


def case_running_sums_ask_not_once_for_each_entry() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.cumsum(x), mode=MODE)
    given = spread(Y, over(mesh_of(AxisType.Auto), "data"))
    np.testing.assert_allclose(f(given), np.cumsum(Y), rtol=1e-12)
    assert " while(" not in jax.jit(f.jax_fn).lower(given).compile().as_text()
    assert_not_on_host(f)


def case_generators() -> None:
    x = pt.dvector("x")

    def drawn(value: object) -> list[jax.Array]:
        rng = pytensor.shared(np.random.default_rng(1))
        following, draws = pt.random.normal(size=x.shape, rng=rng).owner.outputs
        f = pytensor.function([x], x + draws, updates={rng: following}, mode=MODE)
        return [f(value), f(value)]

    alone = drawn(Y)
    for kind in KINDS:
        rows = over(mesh_of(kind), "data")
        for one, other in zip(drawn(spread(Y, rows)), alone, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
            assert one.sharding == rows


def case_false_checks_raise() -> None:
    x, k = pt.dvector("x"), pt.lvector("k")
    f = pytensor.function([x, k], x[k], mode=MODE)
    given = spread(Y, over(mesh_of(AxisType.Auto), "data"))
    np.testing.assert_array_equal(f(given, np.array([1, 2])), Y[1:3])
    assert_not_on_host(f)
    with pytest.raises(IndexError, match=f"index {ROWS} is out of bounds for axis 0 with size"):
        f(given, np.array([ROWS]))
    assert (f.stats.arrays_gathered, f.stats.fallbacks) == (1, 1)


def case_lengths_that_change() -> None:
    """What lies on several devices is not padded, and takes the fast path all the same."""
    x = pt.dvector("x")
    f = pytensor.function([x], (x**2).sum(), mode=MODE)
    rows = over(mesh_of(AxisType.Auto), "data")
    for _ in range(3):
        for length in (8, 16, 24, 32, 40, 48):
            assert float(f(spread(np.ones(length), rows))) == length
    assert (f.stats.direct, f.stats.padded_calls) == (18, 0)
    assert f.stats.compilations == [6]
    assert float(f(np.ones(5))) == 5.0
    assert f.stats.padded_calls == 1


def case_saved_functions() -> None:
    inputs, outputs = regression()
    state = pytensor.shared(np.zeros(ROWS), "state")
    f = pytensor.function(inputs, outputs, updates={state: 0 * state + inputs[1]}, mode=MODE)
    with tempfile.TemporaryDirectory() as folder:
        save(f, Path(folder, "f.jaxlink"))
        compiled = load(Path(folder, "f.jaxlink"))
        [graph] = [load(Path(folder, "f.jaxlink"), prefer="graph")]
    alone = f(X, Y, W)
    for kind in KINDS:
        rows = over(mesh_of(kind), "data")
        for g, held in ((compiled, compiled.state[0]), (graph, graph.get_shared()[0])):
            held.set_value(spread(np.zeros(ROWS), rows))
            for _ in range(10):
                found = g(spread(X, rows), spread(Y, over(rows.mesh)), W)
                assert held.get_value(return_internal_type=True).sharding == rows
            for one, other in zip(found, alone, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
            assert_not_on_host(g)


def _where(f) -> list:
    held = f.state if hasattr(f, "state") else f.get_shared()
    return [each.get_value(borrow=True, return_internal_type=True).sharding for each in held]


def case_states_of_saved_functions_lie_where_they_were() -> None:
    rows, third = over(mesh_of(AxisType.Auto), "data"), jax.devices()[3]
    spread_out = pytensor.shared(np.zeros(ROWS), "spread_out")
    alone = pytensor.shared(np.zeros(3), "alone")
    x = pt.dscalar("x")
    updates = {spread_out: spread_out + x}
    f = pytensor.function([x], spread_out.sum(), updates=updates, mode=MODE)
    g = pytensor.function([x], alone.sum(), updates={alone: alone + x}, mode=MODE)
    spread_out.set_value(spread(np.zeros(ROWS), rows), borrow=True)
    alone.set_value(jax.device_put(np.zeros(3), third), borrow=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f.jaxlink")
        save({"f": f, "g": g}, path)
        for prefer in ("compiled", "graph"):
            found = load(path, prefer=prefer)
            for _ in range(3):
                assert _where(found["f"]) == [rows]
                assert _where(found["g"])[0].device_set == {third}
                found["f"](1.0), found["g"](1.0)
            first = load(path, prefer=prefer, device="cpu:5")
            for _ in range(3):
                for name in "fg":
                    first[name](1.0)
                    assert _where(first[name])[0].device_set == {jax.devices()[5]}
            four = jax.make_mesh((4, 2), ("data", "other"), axis_types=(AxisType.Auto,) * 2)
            for half in (four, mesh_of(AxisType.Explicit)):
                for made in (
                    load(path, prefer=prefer, device=half),
                    _under(half, lambda p=prefer: load(path, prefer=p)),
                ):
                    [where] = _where(made["f"])
                    assert where.mesh == half
                    assert tuple(where.spec) == tuple(rows.spec)
                    assert made["f"](1.0) == 0
                    assert made["f"](1.0) == ROWS
                    assert _where(made["f"]) == [where]


def _under(mesh, make):
    with jax.set_mesh(mesh):
        return make()


def case_shardings_are_no_shapes() -> None:
    x = pt.dvector("x")
    linker = JAXLinker(recompile_limit=1, on_recompile_limit="error")
    for outputs in (x * 2, sort(x * 2) * 2):
        f = pytensor.function([x], outputs, mode=linker)
        for kind in KINDS:
            for where in (over(mesh_of(kind), "data"), over(mesh_of(kind)), jax.devices()[3]):
                f(jax.device_put(Y, where))
        f(Y)


def case_beyond_the_limit_arrays_are_gathered() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x), mode=JAXLinker(recompile_limit=1))
    f(Y[:8])
    rows = over(mesh_of(AxisType.Auto), "data")
    with pytest.warns(JAXLinkWarning, match="recompile_limit"):
        f(spread(Y, rows))
    np.testing.assert_allclose(f(spread(Y, rows)), np.exp(Y))
    assert f.stats.arrays_gathered == 2


def case_compiling_ahead_for_a_sharding() -> None:
    x = pt.dvector("x")
    rows = over(mesh_of(AxisType.Auto), "data")
    f = pytensor.function([x], x * BIG, mode=MODE)
    f.compile(jax.ShapeDtypeStruct((ROWS,), "float64", sharding=rows))
    assert f.stats.compilations == [1]
    assert f(spread(Y, rows)).sharding == rows
    assert f.stats.compilations == [1]


def case_the_device_of_a_function() -> None:
    third, x = jax.devices()[3], pt.dvector("x")
    for device in (third, "cpu:3"):
        linker = JAXLinker(device=device)
        assert "device='cpu:3'" in repr(linker)
        state = pytensor.shared(np.zeros(200_000), "state")
        functions = [
            pytensor.function([x], pt.exp(x), mode=linker),
            pytensor.function([x], x * BIG, mode=linker),
            pytensor.function([x], sort(x + 1) * BIG, mode=linker),
            pytensor.function([x], sort(x + 1), mode=linker),
            pytensor.function([x], x.sum(), updates={state: state + 1}, mode=linker),
        ]
        functions += [copy.deepcopy(functions[0]), pickle.loads(pickle.dumps(functions[1]))]
        for f in functions:
            assert f(Y).devices() == f(Y).devices() == {third}
        assert state.get_value(True, return_internal_type=True).devices() == {third}
        # What is committed runs where it is.
        assert len(functions[0](spread(Y, over(mesh_of(AxisType.Auto), "data"))).devices()) == 8


def case_profiles_leave_arrays_where_they_are() -> None:
    """Also those that are large, and would be transferred on their own on one device."""
    x, y = pt.dvectors("x", "y")
    outputs = [pt.exp(x) + y, sort(x * 2).sum() + y.sum()]
    large = np.linspace(0, 1, 1 << 16)
    for place in (None, *(over(mesh_of(kind), "data") for kind in KINDS)):
        given = large if place is None else spread(large, place)
        f, g = (pytensor.function([x, y], outputs, mode=MODE) for _ in range(2))
        f(given, large), g(given, large)
        with profile(f) as found:
            one = f(given, large)
        for mine, other in zip(one, g(given, large), strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.sharding == other.sharding
        assert f.stats == g.stats
        assert not [row for row in found.rows if row.name.startswith("compilation")]
        moved = [row.name for row in found.rows if row.name.startswith("transfer to device sort")]
        assert len(moved) == (place is None)


def case_devices_that_are_not_there() -> None:
    x = pt.dvector("x")
    for name in ("tpu", "cpu:8"):
        with pytest.raises(ValueError, match="no such device") as found:
            pytensor.function([x], x * 2, mode=JAXLinker(device=name))
        assert str(found.value) == (
            f"device={name!r}: this process has no such device. JAX found cpu:0, "
            "cpu:1, cpu:2, cpu:3, cpu:4, cpu:5, cpu:6, cpu:7; write a platform ('cpu'), or one "
            "of its devices ('cpu:0') [PJL612]"
        )


def case_arguments_on_different_devices() -> None:
    x, y = pt.dvectors("x", "y")
    f = pytensor.function([x, y], x + y, mode=MODE)
    given = spread(Y, over(mesh_of(AxisType.Auto), "data")), jax.device_put(Y, jax.devices()[2])
    with pytest.raises(ValueError, match="incompatible devices") as found:
        f(*given)
    assert found.value.__notes__[-1] == (
        "the arguments are committed to different devices: x on cpu:0 and 7 more; y on cpu:2. "
        "Put them on the same ones by jax.device_put(value, sharding), or give NumPy arrays, "
        "which go where the others are [PJL611]"
    )
    assert f.stats.fallbacks == 0


def case_explicit_axes_are_not_for_what_the_user_traces() -> None:
    inputs, outputs = regression()
    f = pytensor.function(inputs, outputs, mode=MODE)
    rows = over(mesh_of(AxisType.Explicit), "data")
    with pytest.raises(Exception, match="ambiguous how the output should be sharded") as found:
        jax.jit(f.jax_fn)(spread(X, rows), spread(Y, rows), W)
    assert any("axis_types=(AxisType.Auto, ...)" in note for note in found.value.__notes__)


def case_a_mesh_that_is_set() -> None:
    x = pt.dvector("x")
    for kind in KINDS:
        mesh = mesh_of(kind)
        f = pytensor.function([x], pt.exp(x / ROWS) * BIG, mode=MODE)
        with jax.set_mesh(mesh):
            assert f(spread(Y, over(mesh, "data"))).sharding == over(mesh, "data")
            np.testing.assert_allclose(f(Y), np.exp(Y / ROWS) * BIG)
        assert_not_on_host(f)
