"""What the DAG `profile_workloads` calls, one function a task: plan, measure a batch, collect.

A stage (configurations alone, then pairs) is planned as a whole and divided into batches, one plan file each,
which devices measure side by side into tables of their own. Whatever breaks off goes on where it was: a batch
by its table, a run by the tables of the run before it.
"""

import hashlib
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation.errors import NotFoundError, ServiceUnavailableError
from foundation.process_lock import ProcessLock, acquire_within
from foundation.progress import Progress, silent
from pipeline.profiling.measurement_store import (
    adopt_leftovers,
    fold_run,
    forget_run,
    measurements_uri,
    part_uris,
    refuse_simulated_over_measured,
    store_profiles,
)
from pipeline.profiling.orders import PairOrder, ranking_of
from pipeline.profiling.request import EVERYTHING, REJECTED, Request
from profiler_jobs.devices.device import DeviceKind
from profiler_jobs.plan import PairChoice, Plan, PlannedTask, plan_pairs, plan_solo
from profiler_jobs.plan_file import read_plan, write_plan
from profiler_jobs.session import Session, measure_plan, observed_overhead_s, read_state, stopped_by_signals
from profiler_jobs.summary import summarise
from profiler_jobs.tasks import SEPARATOR

SOLO, PAIRS = "solo", "pairs"
MOST_BATCHES = 200  # mapped tasks of a stage
SIMULATED_BATCH = 250  # tasks; simulated runs take no time
# Of starting and stopping a run, until the table tells.
OVERHEAD_GUESS_S = 30.0
# A batch may take so much longer than expected before the rest of it is left to the next run.
PATIENCE = 1.5
_SHOWN = 20


@dataclass(frozen=True)
class PlannedStage:
    """A planned stage: what each mapped task is given, and what to say of it."""

    batches: tuple[dict[str, Any], ...]
    remarks: tuple[str, ...]


def plan_solo_stage(request: Request) -> PlannedStage:
    """Plan the configurations that the cluster has no result of; goes on from runs that broke off.

    Raises BadInputError when simulated devices are asked for and the cluster has measured profiles.
    """
    if request.kind == DeviceKind.SIMULATED:
        refuse_simulated_over_measured(request.site, request.devices[0])
    remarks = adopt_leftovers(request.site, request.kind, request.run)
    measured = _measured_tasks(request)
    plan = plan_solo(request.job_types, measured.alone, method=request.method, overhead_s=measured.overhead_s)
    return _stage(request, SOLO, plan, request.budget_s, remarks)


def plan_pair_stage(
    request: Request, *, order: str = PairOrder.SPACE_FILLING, most: int | None = None
) -> PlannedStage:
    """Plan pairs of what fits, the most telling first, as far as the budget goes after the first stage.

    `order` is a PairOrder; those by the model's uncertainty go by the pairs of earlier runs. `most` bounds
    the pairs in all, those of earlier runs included. Raises UnknownNameError for another order.
    """
    ranking = ranking_of(order)
    folded = fold_run(
        request.site,
        request.kind,
        request.run,
        replace=request.again == EVERYTHING,
    )
    rows = folded.rows[folded.rows["device_kind"] == request.kind]
    if rows.empty:
        return PlannedStage(
            (), (*folded.remarks, "No configuration has a profile: there are no pairs to plan.")
        )
    measured = _measured_tasks(request)
    plan = plan_pairs(
        request.job_types,
        summarise(rows),
        measured.for_pairs,
        memory_mib=float(rows["device_memory_mib"].min()),
        method=request.method,
        overhead_s=measured.overhead_s,
        pairs=PairChoice(ranking, most=most),
    )
    budget_s = request.budget_s
    if budget_s is not None:
        budget_s -= _planned_s(request, SOLO) / len(request.devices)
    return _stage(request, PAIRS, plan, budget_s, folded.remarks)


def measure_batch(
    *,
    plan_uri: str,
    table_uri: str,
    device: str,
    budget_s: float | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure a batch on a device into its table; what the table holds already is not measured again.

    Waits while another task measures on the device. Returns what became of the batch, with counts. Raises
    ServiceUnavailableError when it was stopped, or when nothing but failures came of it: a device that does
    not work is worth another try later.
    """
    from profiler_jobs.devices.opening import open_device

    plan_file = read_plan(plan_uri)
    with only_user_of(device, progress):
        opened = open_device(device)
        session = Session(opened, table_uri, plan_file.method, budget_s, progress=progress)
        try:
            with stopped_by_signals():
                report = measure_plan(session, plan_file.plan)
        except KeyboardInterrupt:
            raise ServiceUnavailableError(
                f"The measurement on device {device} was stopped.", remedy="What was measured is kept; go on."
            ) from None
    settled = report.done_before + len(report.measured) + len(report.out_of_memory)
    if report.failed and not settled:
        task, reason = next(iter(report.failed.items()))
        raise ServiceUnavailableError(
            f"All {len(report.failed)} measurements on {report.device} failed, the first, {task}: {reason}",
            remedy="Look at the device: `nvidia-smi`.",
        )
    return {
        "device": report.device,
        "measured": len(report.measured),
        "out_of_memory": len(report.out_of_memory),
        "failed": dict(list(report.failed.items())[:_SHOWN]),
        "rejected": dict(list(report.rejected.items())[:_SHOWN]),
        "done_before": report.done_before,
        "left": len(report.left),
    }


def collect_measurements(request: Request) -> dict[str, Any]:
    """Merge the run's tables into the cluster's and store the profiles that it says; again changes nothing.

    Returns where they are, with counts, what was rejected and why, and whether profile tables were `stored`:
    rows of a processor never are, nor tables that teach nothing. Raises BadInputError when simulated rows
    would replace or join measured ones.
    """
    folded = fold_run(
        request.site,
        request.kind,
        request.run,
        replace=request.again == EVERYTHING,
    )
    rows = folded.rows[folded.rows["device_kind"] == request.kind]
    summary = summarise(rows)
    remarks = list(folded.remarks)
    stored = None
    if request.kind == DeviceKind.CPU:
        remarks.append("A processor was measured: that proves the way of measuring and profiles no GPU.")
    else:
        stored, stored_remarks = store_profiles(request.site, summary)
        remarks += stored_remarks
    forget_run(request.site, request.kind, request.run)
    reasons = dict(zip(summary.rejected["task"], summary.rejected["reason"], strict=True))
    return {
        "measurements_uri": folded.uri,
        "rows": len(folded.rows),
        "device": None if rows.empty else str(rows["device"].iloc[0]),
        "solo_measured": len(summary.solo),
        "pairs_measured": len(summary.pairs),
        "out_of_memory": len(summary.out_of_memory),
        "rejected": len(reasons),
        "rejected_first": dict(list(reasons.items())[:_SHOWN]),
        "stored": stored is not None,
        "profiles_uri": stored.uri if stored else None,
        "solo_profiles": stored.solo_rows if stored else 0,
        "pair_profiles": stored.pair_rows if stored else 0,
        "simulated": bool(stored.simulated) if stored else request.kind == DeviceKind.SIMULATED,
        "remarks": remarks,
    }


@dataclass(frozen=True)
class _MeasuredTasks:
    alone: tuple[str, ...]  # tasks with a result by the method, as measured
    for_pairs: tuple[str, ...]  # the same, with configurations alone by any method
    overhead_s: float


def _measured_tasks(request: Request) -> _MeasuredTasks:
    """What the cluster's table says of devices of the request's kind."""
    state = read_state(
        measurements_uri(request.site, request.kind),
        None,
        request.method,
    )
    if set(state.rows["device_kind"]) != {request.kind}:
        return _MeasuredTasks((), (), OVERHEAD_GUESS_S)
    alone, for_pairs = state.settled, state.settled_for_pairs
    if request.again == EVERYTHING:
        alone, for_pairs = (), tuple(name for name in for_pairs if SEPARATOR not in name)
    elif request.again == REJECTED:
        refused = set(state.profiles.rejected["task"])
        alone, for_pairs = (
            tuple(name for name in names if name not in refused) for names in (alone, for_pairs)
        )
    overhead_s = observed_overhead_s(state.rows)
    return _MeasuredTasks(alone, for_pairs, OVERHEAD_GUESS_S if overhead_s is None else overhead_s)


def _stage(
    request: Request, name: str, plan: Plan, budget_s: float | None, remarks: Sequence[str]
) -> PlannedStage:
    """Divide a plan among the devices and write a plan file for each batch."""
    queues, left_out = _divide(plan.planned, request.devices, budget_s)
    sentences = [
        *remarks,
        f"{name}: {sum(map(len, queues.values())):,} to measure, {len(plan.done):,} were before.",
    ]
    sentences += [f"Left out: {len(names):,}: {rule}." for rule, names in plan.left_out.items()]
    if left_out:
        sentences.append(f"{left_out:,} do not fit the budget; the next run goes on with them.")
    if request.kind == DeviceKind.SIMULATED:
        chunks = {device: _by_count(queue, SIMULATED_BATCH) for device, queue in queues.items()}
    else:
        batch_s = request.batch_s
        while True:
            chunks = {device: _by_time(queue, batch_s) for device, queue in queues.items()}
            if sum(map(len, chunks.values())) <= MOST_BATCHES:
                break
            batch_s *= 2
    # Devices take turns: the pool's slots, one a device, are filled in this order.
    rounds = max(map(len, chunks.values()), default=0)
    turns = [
        (device, own[turn]) for turn in range(rounds) for device, own in chunks.items() if turn < len(own)
    ]
    batches = []
    for position, (device, chunk) in enumerate(turns):
        plan_uri, table_uri = part_uris(
            request.site,
            request.kind,
            request.run,
            f"{name}-{position:04d}",
        )
        write_plan(plan_uri, Plan(tuple(chunk)), request.method, device)
        expected_s = math.fsum(each.expected_s for each in chunk)
        simulated = request.kind == DeviceKind.SIMULATED
        batches.append(
            {
                "device": device,
                "plan_uri": plan_uri,
                "table_uri": table_uri,
                "budget_s": None if simulated else PATIENCE * expected_s,
                "what": _in_words(device, chunk),
            }
        )
    return PlannedStage(tuple(batches), tuple(sentences))


def _divide(
    planned: Sequence[PlannedTask], devices: Sequence[str], budget_s: float | None
) -> tuple[dict[str, list[PlannedTask]], int]:
    """Give each task, in its order, to the device with the least to do; count those that fit no budget."""
    load_s = dict.fromkeys(devices, 0.0)
    queues: dict[str, list[PlannedTask]] = {device: [] for device in devices}
    left_out = 0
    for each in planned:
        device = min(devices, key=lambda name: load_s[name])
        if budget_s is not None and load_s[device] + each.expected_s > budget_s:
            left_out += 1
            continue
        load_s[device] += each.expected_s
        queues[device].append(each)
    return queues, left_out


def _by_count(queue: Sequence[PlannedTask], most: int) -> list[Sequence[PlannedTask]]:
    return [queue[first : first + most] for first in range(0, len(queue), most)]


def _by_time(queue: Sequence[PlannedTask], most_s: float) -> list[Sequence[PlannedTask]]:
    chunks: list[list[PlannedTask]] = []
    spent_s = math.inf
    for each in queue:
        if spent_s + each.expected_s > most_s:
            chunks.append([])
            spent_s = 0.0
        chunks[-1].append(each)
        spent_s += each.expected_s
    return list(chunks)


def _in_words(device: str, chunk: Sequence[PlannedTask]) -> str:
    more = f" and {len(chunk) - 1} more" if len(chunk) > 1 else ""
    return f"{device}: {chunk[0].task.name}{more}"


def _planned_s(request: Request, stage: str) -> float:
    """How long this run's batches of a stage were expected to take."""
    total_s = 0.0
    for position in range(MOST_BATCHES):
        plan_uri, _ = part_uris(
            request.site,
            request.kind,
            request.run,
            f"{stage}-{position:04d}",
        )
        try:
            total_s += read_plan(plan_uri).plan.expected_s
        except NotFoundError:
            break
    return total_s


@contextmanager
def only_user_of(device: str, progress: Progress = silent) -> Iterator[None]:
    """Wait until no other task of this machine measures on the device, and keep them off it.

    The lock ends with the process, whatever ends it.
    """
    name = hashlib.sha256(device.encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir()) / f"lucid-device-{os.getuid()}-{name}.lock"
    with ProcessLock(place) as lock:
        acquire_within(
            lock, None, lambda waited_s: progress(int(waited_s), None, f"waiting for device {device}")
        )
        yield
