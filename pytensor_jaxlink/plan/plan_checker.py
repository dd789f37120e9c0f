"""An independent check of a plan: it can be run from top to bottom."""

from __future__ import annotations

from pytensor_jaxlink.plan.schema import Fetch, HostBranch, HostLoop, HostStep, Plan, Region


def check_plan(plan: Plan) -> None:
    """Raise `AssertionError` unless the plan is acyclic, complete and free of repetition.

    Every value is available before it is read and computed once; what selects a specialisation,
    and what NumPy computes with, has been brought to the host; every region computes something.
    """
    _check_order(plan)
    indices = [region.index for region in plan.regions]
    assert indices == list(range(len(indices))), f"the regions are numbered {indices}"


def _check_order(plan: Plan) -> None:
    given = {*plan.inputs, *plan.constants}
    arrays, on_host = set(given), set(given)
    for position, step in enumerate(plan.steps):
        where = f"step {position} of the plan"
        match step:
            case Fetch(value):
                assert value in arrays, f"{where} fetches {value} before it is computed"
                on_host.add(value)
            case HostStep(_, arguments, results, folded=True):
                missing = set(arguments) - on_host
                assert not missing, f"{where} computes with {missing}, which are not on the host"
                repeated = set(results) & on_host
                assert not repeated, f"{where} computes {repeated} again"
                on_host.update(results)
            case HostLoop(_, arguments, results) | HostBranch(_, arguments, results):
                _check_step(where, arguments, results, arrays, arrays | on_host)
                on_host.update(results)
                for inner in step.inner:
                    _check_order(inner)
            case HostStep(_, arguments, results):
                _check_step(where, arguments, results, arrays, arrays | on_host)
                on_host.update(results)
            case Region(_, static, arguments, results):
                _check_step(where, arguments, results, arrays, arrays)
                missing = set(static) - on_host
                assert not missing, f"{where} depends on {missing}, which are not on the host"
                assert results, f"{where} is a region without results"
    missing = set(plan.outputs) - arrays
    assert not missing, f"the outputs {missing} are never computed"


def _check_step(
    where: str,
    arguments: tuple[int, ...],
    results: tuple[int, ...],
    arrays: set[int],
    available: set[int],
) -> None:
    missing = set(arguments) - available
    assert not missing, f"{where} reads {missing} before they are computed"
    repeated = set(results) & arrays
    assert not repeated, f"{where} computes {repeated} again"
    arrays.update(results)
