"""What a command that measures does: `lucid profile` and `python -m profiler_jobs` share it.

A session goes on from its table and ends when nothing is left or its budget is spent. Pairs need the solo
profiles of both configurations, so those are measured first; pairs are ranked anew after every batch.
"""

import math
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.fs as pafs

from foundation import strict_json
from foundation.errors import BadInputError
from foundation.process_lock import ProcessLock
from foundation.progress import Progress, silent
from foundation.storage import locate
from profiler_jobs.campaign import CampaignReport, Clock, run_campaign, settled_tasks, with_runs
from profiler_jobs.devices.device import ProfilingDevice
from profiler_jobs.measurement_table import (
    FAILED,
    MEASURED,
    method_id,
    read_measurements,
    write_measurements,
)
from profiler_jobs.method import Method
from profiler_jobs.plan import (
    NOT_YET_ALONE,
    PairChoice,
    Plan,
    PlannedTask,
    pair_names,
    pairs_to_come,
    plan_pairs,
    plan_solo,
)
from profiler_jobs.profile_table import ProfileSet
from profiler_jobs.session_report import SessionReport
from profiler_jobs.shared_run import groups, measure_together
from profiler_jobs.summary import summarise
from profiler_jobs.tasks import SEPARATOR, MeasurementTask
from profiler_jobs.workloads import JobType

LONGEST_OVERHEAD_S = 120.0  # a longer gap between two runs is a break
# Ending a run of many: each worker, and the driver's last samples.
END_EACH_S, LATE_S = 0.1, 4.0


@dataclass(frozen=True)
class Session:
    """On what, into which table and by which method is measured; `budget_s` None: until all is done."""

    device: ProfilingDevice
    table_uri: str
    method: Method = field(default_factory=Method)
    budget_s: float | None = None
    at_once: int = 1  # configurations that a run may hold; with more than two, their pairs share its windows
    progress: Progress = silent
    clock: Clock = time.monotonic


@dataclass(frozen=True)
class TableState:
    """What a measurement table holds: its rows, what they say, and which tasks are settled, as measured.

    Pairs are settled by one method; for the solo profiles that they are chosen by, any method will do.
    """

    rows: pd.DataFrame
    profiles: ProfileSet
    settled: tuple[str, ...]
    settled_for_pairs: tuple[str, ...]


def read_state(table_uri: str, device: str | None, method: Method) -> TableState:
    """Read a table as a device (None: whichever the table is of) and a method have left it.

    Raises BadInputError when the table is another device's.
    """
    rows = read_measurements(table_uri)
    if device is None:
        device = "" if rows.empty else str(rows["device"].iloc[0])
    settled = settled_tasks(rows, device, method_id(method))
    alone = rows.loc[rows["job_type_2"].isna() & (rows["outcome"] != FAILED), "task"]
    return TableState(rows, summarise(rows), settled, tuple(dict.fromkeys([*alone.astype(str), *settled])))


def plan_campaign(
    state: TableState,
    job_types: Sequence[JobType],
    *,
    memory_mib: float,
    method: Method,
    overhead_s: float,
    pairs: PairChoice | None,
) -> Plan:
    """Plan what is left: configurations alone, then pairs (None: no pairs)."""
    settled = state.settled if pairs is None else state.settled_for_pairs
    alone = plan_solo(job_types, settled, method=method, overhead_s=overhead_s)
    if pairs is None:
        return alone
    together = plan_pairs(
        job_types,
        state.profiles,
        settled,
        memory_mib=memory_mib,
        method=method,
        overhead_s=overhead_s,
        pairs=pairs,
    )
    return Plan(alone.planned + together.planned, alone.done + together.done, together.left_out)


def measure(
    session: Session,
    job_types: Sequence[JobType],
    *,
    pairs: PairChoice | None = None,
    again_rejected: bool = False,
) -> SessionReport:
    """Measure configurations alone, then pairs of them (None: none), as far as the budget goes.

    `again_rejected`: forget what was refused before, and measure it again.

    Raises BadInputError when the budget is too short for a single run, and when another process writes the
    table.
    """
    with only_writer(session.table_uri):
        if again_rejected:
            forget_rejected(session.table_uri, job_types)
        running = _Running(session)
        plan = running.plan(job_types, pairs)
        running.count_done(plan)
        if session.at_once > 2:
            running.measure_in_groups(job_types, pairs)
            plan = running.plan(job_types, pairs)
        running.measure([task for task in plan.tasks if not task.is_pair])
        while pairs is not None and not running.out_of_time:
            plan = running.plan(job_types, pairs)
            pair_tasks = [task for task in plan.tasks if task.is_pair and task.name not in running.tried]
            if not pair_tasks:
                break
            settled = sum(SEPARATOR in name for name in plan.done)
            running.measure(pair_tasks[: pairs.batch - settled % pairs.batch], len(pair_tasks))
        return running.report(running.plan(job_types, pairs), pairs)


def forget_rejected(table_uri: str, job_types: Sequence[JobType]) -> int:
    """Take what was refused of these configurations and their pairs out of the table, to be measured again.

    Returns the number of tasks. Failed tasks stay: they are tried again anyway.
    """
    rows = read_measurements(table_uri)
    names = {job_type.name for job_type in job_types}
    refused = {
        str(task) for task in summarise(rows).rejected["task"] if names.issuperset(str(task).split(SEPARATOR))
    }
    forgotten = rows["task"].isin(refused) & (rows["outcome"] == MEASURED)
    if forgotten.any():
        write_measurements(table_uri, rows[~forgotten])
    return int(rows.loc[forgotten, "task"].nunique())


def measure_plan(session: Session, plan: Plan) -> SessionReport:
    """Measure a plan's tasks in its order, as far as the budget goes."""
    with only_writer(session.table_uri):
        running = _Running(session)
        running.count_done(running.rest_of(plan))
        running.measure(plan.tasks)
        return running.report(running.rest_of(plan), None)


class _Running:
    """A session while it runs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began_s = session.clock()
        self._done_before = 0
        self._reports: list[CampaignReport] = []
        self._shown = 0
        self.shared_failures: list[str] = []

    @property
    def out_of_time(self) -> bool:
        """Return whether a task was left because of the budget."""
        return any(report.beyond_budget for report in self._reports)

    @property
    def tried(self) -> set[str]:
        """Return the tasks that this session ran: what failed is not tried twice in one session."""
        return {
            name for each in self._reports for name in (*each.measured, *each.out_of_memory, *each.failed)
        }

    @property
    def _left_s(self) -> float | None:
        session = self._session
        return None if session.budget_s is None else session.budget_s - (session.clock() - self._began_s)

    def state(self) -> TableState:
        session = self._session
        return read_state(session.table_uri, session.device.description.name, session.method)

    def plan(self, job_types: Sequence[JobType], pairs: PairChoice | None) -> Plan:
        session = self._session
        return plan_campaign(
            self.state(),
            job_types,
            memory_mib=session.device.description.memory_mib,
            method=session.method,
            overhead_s=session.device.run_overhead_s(),
            pairs=pairs,
        )

    def rest_of(self, plan: Plan) -> Plan:
        """Return what is left of a plan, by what the table holds now."""
        session, settled = self._session, set(self.state().settled)
        return Plan(
            tuple(
                PlannedTask(
                    each.task,
                    session.method.expected_s(each.task, overhead_s=session.device.run_overhead_s()),
                    each.why,
                )
                for each in plan.planned
                if each.task.name not in settled
            ),
            tuple(task.name for task in plan.tasks if task.name in settled),
            plan.left_out,
        )

    def count_done(self, plan: Plan) -> None:
        """Take note of what was there before."""
        self._done_before = len(plan.done)

    def measure(self, tasks: Sequence[MeasurementTask], of: int | None = None) -> None:
        """Measure the tasks, the first ones of `of` that are to come (None: all of them)."""
        session = self._session
        shown, total = self._shown, self._shown + (len(tasks) if of is None else of)
        if session.budget_s is not None:
            self._require_time_for_one(tasks)

        def progress(done: int, _: int | None, what: str) -> None:
            # The campaign's last word comes also when the budget is spent; ours comes with the report.
            if done < len(tasks):
                session.progress(shown + done, total, what)

        self._reports.append(
            run_campaign(
                session.device,
                tasks,
                session.table_uri,
                method=session.method,
                budget_s=self._left_s,
                progress=progress,
                clock=session.clock,
            )
        )
        self._shown += len(tasks) - len(self._reports[-1].beyond_budget)

    def measure_in_groups(self, job_types: Sequence[JobType], pairs: PairChoice | None) -> None:
        """Measure groups of configurations that are loaded at once: what is left alone, and pairs of theirs.

        Each group gets its share of the time and of the pairs that are left. A group that fails leaves its
        tasks to runs of their own, and `shared_failures` says why.
        """
        session, waiting = self._session, list(job_types)
        device_mib = session.device.description.memory_mib
        while waiting:
            state = self.state()
            group = groups(waiting, _memory_mib(state.rows), most=session.at_once, device_mib=device_mib)[0]
            share = len(group) / len(waiting)
            waiting = [each for each in waiting if each not in group]
            alone = [each for each in group if each.name not in state.settled]
            wanted = _pairs_left(pairs, state.settled) != 0 and _of_two(self.plan(group, pairs).tasks)
            rounds_s = session.method.warmup_s + session.method.window_s * session.method.repeats
            expected_s = session.device.run_overhead_s() + len(group) * rounds_s
            if not (wanted or alone) or len(group) < 2:
                continue
            if self._left_s is not None and expected_s > self._left_s:
                self.shared_failures.append(
                    f"{len(group)} configurations at once take {expected_s:.0f} s alone, and "
                    f"{max(0.0, self._left_s):.0f} s are left"
                )
                return
            run = measure_together(
                session.device,
                group,
                session.method,
                partial(self._pairs_of, group, pairs, share),
                partial(self._left_for_pairs_s, len(group), (1 - share) * (self._left_s or 0.0)),
                self._keep,
                session.progress,
            )
            if run.failure is not None:
                self.shared_failures.append(f"{len(group)} configurations at once: {run.failure}")
                continue
            if len(run.rows) == len(group) and pairs and _of_two(self.plan(group, pairs).tasks):
                self.shared_failures.append(f"{len(group)} configurations at once: no time for their pairs")
            self._reports.append(CampaignReport(measured=[str(each[0]["task"]) for each in run.rows]))
            self._shown += len(run.rows)

    def _keep(self, runs: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Write the rows of tasks into the table."""
        table_uri = self._session.table_uri
        write_measurements(table_uri, with_runs(read_measurements(table_uri), runs))

    def _left_for_pairs_s(self, workers: int, for_others_s: float) -> float:
        """Return what is left of the budget for windows of a group: ending its workers takes time too."""
        return (
            math.inf if self._left_s is None else self._left_s - for_others_s - END_EACH_S * workers - LATE_S
        )

    def _pairs_of(
        self, group: Sequence[JobType], pairs: PairChoice | None, share: float, alone: ProfileSet
    ) -> list[MeasurementTask]:
        """Return a group's share of the pairs that are left, in their order by the profiles just seen."""
        if pairs is None:
            return []
        session, state = self._session, self.state()
        names = {each.name for each in group}
        plan = plan_pairs(
            group,
            replace(state.profiles, solo=alone.solo),
            [*names, *(name for name in state.settled if SEPARATOR in name)],
            memory_mib=session.device.description.memory_mib,
            method=session.method,
            overhead_s=0.0,
            pairs=replace(pairs, most=None),
        )
        left = _pairs_left(pairs, state.settled)
        return _of_two(plan.tasks)[: None if left is None else math.ceil(share * left)]

    def _require_time_for_one(self, tasks: Sequence[MeasurementTask]) -> None:
        """Raise BadInputError when the whole budget is too short for any task: none would ever run."""
        session, overhead_s = self._session, self._session.device.run_overhead_s()
        shortest_s = min(
            (session.method.expected_s(task, overhead_s=overhead_s) for task in tasks), default=0.0
        )
        if session.budget_s is not None and shortest_s > session.budget_s and not self.tried:
            raise BadInputError(
                f"The budget of {session.budget_s:g} s is too short: a run takes {shortest_s:.0f} s.",
                remedy="Give a longer budget, or shorter windows or fewer repeats.",
            )

    def report(self, unmeasured: Plan, pairs: PairChoice | None) -> SessionReport:
        """Return what the session came to."""
        session, state = self._session, self.state()
        tried = self.tried
        failed = state.rows[(state.rows["outcome"] == FAILED) & state.rows["task"].isin(tried)]
        reasons = state.profiles.rejected
        refused = reasons[reasons["task"].isin(tried - set(failed["task"]))]
        flagged = state.profiles.pairs[state.profiles.pairs["suspicious"].astype(bool)]
        coming = pairs_to_come(
            unmeasured,
            method=session.method,
            overhead_s=session.device.run_overhead_s(),
            most=None if pairs is None else pairs.most,
        )
        whole = Plan(unmeasured.planned + coming.planned)
        description = session.device.description
        return SessionReport(
            device=description.name,
            device_kind=str(description.kind),
            table=session.table_uri,
            elapsed_s=session.clock() - self._began_s,
            measured=tuple(name for each in self._reports for name in each.measured),
            out_of_memory=tuple(name for each in self._reports for name in each.out_of_memory),
            failed=dict(zip(failed["task"].astype(str), failed["detail"].astype(str), strict=True)),
            rejected=dict(zip(refused["task"].astype(str), refused["reason"].astype(str), strict=True)),
            flagged=tuple(name for name in pair_names(flagged) if name in tried),
            done_before=self._done_before,
            left=tuple(task.name for task in unmeasured.tasks),
            undecided_pairs=len(coming.planned),
            left_out={
                rule: len(names) for rule, names in unmeasured.left_out.items() if rule != NOT_YET_ALONE
            },
            expected_left_s=whole.expected_s,
            sessions_left=None if session.budget_s is None else len(whole.sessions(session.budget_s)),
            shared_failures=tuple(self.shared_failures),
            solo_profiles=len(state.profiles.solo),
            pair_profiles=len(state.profiles.pairs),
        )


def _memory_mib(rows: pd.DataFrame) -> dict[str, float]:
    """Return what each configuration that was measured alone needs."""
    alone = rows[rows["job_type_2"].isna() & (rows["outcome"] == MEASURED)]
    largest = alone.groupby("task", sort=False)["gpu_mem_mib"].max()
    return {str(name): float(memory_mib) for name, memory_mib in largest.items()}


def _of_two(tasks: Sequence[MeasurementTask]) -> list[MeasurementTask]:
    """Return the pairs of two different configurations."""
    return [task for task in tasks if len(set(task.job_types)) == 2]


def _pairs_left(pairs: PairChoice | None, settled: Sequence[str]) -> int | None:
    """Return how many pairs may still be measured; None: as many as there are."""
    if pairs is None:
        return 0
    return None if pairs.most is None else max(0, pairs.most - sum(SEPARATOR in name for name in settled))


@contextmanager
def only_writer(table_uri: str) -> Iterator[None]:
    """Hold the table's lock where it is a local file: of two processes that replace it, one would lose rows.

    Raises BadInputError when another process holds it. The lock ends with the process, whatever ends it.
    """
    fs, path = locate(table_uri)
    if not isinstance(fs, pafs.LocalFileSystem):
        yield
        return
    table = Path(path)
    table.parent.mkdir(parents=True, exist_ok=True)
    with ProcessLock(table.parent / f".{table.name}.lock", 0o666) as lock:
        if not lock.acquire():
            raise BadInputError(
                f"Another process is measuring into {table_uri}.",
                remedy="Wait for it, or name another table with --out.",
            )
        yield


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM end the session as Ctrl-C does, so that what was started is stopped again."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def observed_overhead_s(rows: pd.DataFrame) -> float | None:
    """Return what a run took besides windows and warm-up: the median over runs that follow one another.

    None where the table does not say: a simulated device has no clock. Breaks between sessions do not count.
    """
    overheads_s: list[float] = []
    ended_s: float | None = None
    for _, run in rows[rows["outcome"] == MEASURED].groupby(["task", "method_id"], sort=False):
        began_s = run["started"].min().timestamp()
        method = strict_json.loads(run["method"].iloc[0])
        jobs = 1 if pd.isna(run["job_type_2"].iloc[0]) else 2
        if ended_s is not None:
            between_s = began_s - ended_s - jobs * method["warmup_s"]
            if 0.0 < between_s < LONGEST_OVERHEAD_S:
                overheads_s.append(between_s)
        ended_s = (run["started"] + pd.to_timedelta(run["window_s"], unit="s")).max().timestamp()
    return float(np.median(overheads_s)) if overheads_s else None
