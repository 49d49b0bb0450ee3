"""Steps that measure a cluster's GPUs: plan a stage, measure its batches side by side, collect."""

import logging
from collections.abc import Mapping
from typing import Any

from foundation.progress import Progress
from foundation.site import Site
from foundation.steps import Done, StepRun
from pipeline.profiling import steps
from pipeline.profiling.request import ProfilingForm, Request, read_request
from pipeline.training.windows import only_cluster

_log = logging.getLogger(__name__)


def plan_measurements(
    *,
    run: StepRun,
    site: Site,
    stage: str,
    asked: Mapping[str, Any],
    wanted: bool = True,
    order: str = "space-filling",
    most_pairs: int | None = None,
) -> Done:
    """Plan a stage, `solo` or `pairs`, and write a plan file for each batch.

    `asked` holds fields of `ProfilingForm`. Returns what the tasks are told that measure, a batch a task;
    none where there is nothing to do. Beside it the cluster (empty: the lake's only one).
    """
    site = site.of(site.cluster or only_cluster(site.lake))
    run.check_right(site.cluster)
    named = {"cluster": site.cluster}
    if not wanted:
        return Done([], f"The form asks for no {stage}.", others=named, on_the_way=True)
    request = _request(site, run, asked)
    if stage == steps.SOLO:
        planned = steps.plan_solo_stage(request)
    else:
        planned = steps.plan_pair_stage(request, order=order, most=most_pairs)
    for remark in planned.remarks:
        _log.info("%s", remark)
    batches = list(planned.batches)
    words = f"{len(batches)} batches to measure" if batches else "nothing to measure"
    return Done(batches, f"Stage {stage} of {site.cluster}: {words}.", others=named, on_the_way=True)


def measure_batch(
    *,
    progress: Progress,
    plan_uri: str,
    table_uri: str,
    device: str,
    budget_s: float | None = None,
    what: str = "",
) -> Done:
    """Measure one batch on one device into a table of its own; returns what became of it.

    Stopped or killed, it goes on after the last finished measurement when it is tried again. A measurement
    that does not fit the memory, or fails, is a row of the table, not a failed step. `what`: the batch in
    words, for people who watch.
    """
    done = steps.measure_batch(
        plan_uri=plan_uri, table_uri=table_uri, device=device, budget_s=budget_s, progress=progress
    )
    for task, reason in {**done["failed"], **done["rejected"]}.items():
        _log.warning("%s: %s", task, reason)
    counts = (
        "{device}: {measured} measured, {out_of_memory} out of memory, {done_before} were there before, "
        "{left} left."
    )
    return Done(done, counts.format(**done), on_the_way=True)


def collect_measurements(*, run: StepRun, site: Site, asked: Mapping[str, Any]) -> Done:
    """Merge what the tasks measured into the cluster's table and store the profiles that it says.

    Returns where the tables are and what they hold. The run ends when there are no profiles to store: too
    few, or a processor's.
    """
    result = steps.collect_measurements(_request(site, run, asked))
    for remark in result["remarks"]:
        _log.info("%s", remark)
    for task, reason in result["rejected_first"].items():
        _log.warning("rejected: %s: %s", task, reason)
    counts = {
        "alone": int(result["solo_measured"]),
        "pairs": int(result["pairs_measured"]),
        "out of memory": int(result["out_of_memory"]),
        "rejected": int(result["rejected"]),
    }
    stored = (
        f"the lake has {result['solo_profiles']} solo profiles and {result['pair_profiles']} pairs"
        if result["stored"]
        else "no profiles are stored"
    )
    warning = (
        " The simulated GPU was measured: a release of a real log orders jobs and lets none share GPUs."
        if result["simulated"]
        else ""
    )
    parts = ", ".join(f"{count} {name}" for name, count in counts.items())
    sentence = f"Profiles of {site.cluster} on {result['device']}: {parts}; {stored}.{warning}"
    return Done(result, sentence, bars=("Measurements", counts), ends_run=not result["stored"])


def announce_measurements(*, site: Site, hold_out_days: int | None = None, as_of: str | None = None) -> Done:
    """Tell `retrain_models` that the profiles are new: the packing model is trained again."""
    told = {
        "cluster": site.cluster,
        "lake_uri": site.lake,
        "models": ["packing"],
        "hold_out_days": hold_out_days,
        "as_of": as_of,
    }
    sentence = f"The profiles of {site.cluster} are announced: retrain_models starts."
    return Done(told, sentence, announced=told, on_the_way=True)


def _request(site: Site, run: StepRun, asked: Mapping[str, Any]) -> Request:
    return read_request(site, ProfilingForm(**asked), run_id=run.run_id)
