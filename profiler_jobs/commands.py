"""What a command line asks and what is done: for `lucid profile` and `python -m profiler_jobs`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation.csv_files import write_csv
from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from foundation.progress import Progress, clock_time, silent
from profiler_jobs.comparison import MeasurementComparison, check_self_pairs, compare_profiles
from profiler_jobs.devices.device import DeviceKind, ProfilingDevice
from profiler_jobs.devices.opening import SIMULATED, open_device
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import read_measurements
from profiler_jobs.method import Method
from profiler_jobs.plan import (
    BATCH_PAIRS,
    NOT_YET_ALONE,
    PairChoice,
    PairRanking,
    Plan,
    expected_pair_s,
    pairs_to_come,
)
from profiler_jobs.plan_file import plan_document, read_plan, write_plan
from profiler_jobs.profile_table import ProfileSet, write_profiles
from profiler_jobs.session import (
    Session,
    measure,
    measure_plan,
    observed_overhead_s,
    plan_campaign,
    read_state,
)
from profiler_jobs.session_report import SessionReport
from profiler_jobs.summary import summarise
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import JobType, all_job_types

FOLDER = "profiles"
AUTO, FIRST_GPU = "auto", "0"
# What a run takes besides windows and warm-up, where neither a device nor a table tells.
USUAL_OVERHEAD_S = 20.0
# When a plan speaks of other windows: a budget holds few pairs, and windows would stay long enough.
MANY_PAIRS, SHORT_WINDOW_S = 4, 10


@dataclass(frozen=True)
class ProfileOptions:
    """The options that the commands share; None: the default."""

    workloads: str | None = None
    device: str = "auto"
    out: str | None = None
    window_s: float | None = None
    repeats: int | None = None
    warmup_s: float | None = None
    budget_s: float | None = None
    most_pairs: int | None = None
    batch: int = BATCH_PAIRS
    at_once: int | None = None
    again_rejected: bool = False

    def __post_init__(self) -> None:
        for name, value in (
            ("budget_s", self.budget_s),
            ("most_pairs", self.most_pairs),
            ("batch", self.batch),
            ("at_once", self.at_once),
        ):
            if value is not None and not value > 0:
                raise BadInputError(f"{name} is {value!r}.", remedy="Give a number above 0.")

    @property
    def job_types(self) -> tuple[JobType, ...]:
        """Return the configurations. Raises UnknownNameError."""
        return choose_job_types(self.workloads, all_job_types())

    @property
    def method(self) -> Method:
        """Return the method. Raises BadInputError for settings out of range."""
        stated = {"window_s": self.window_s, "repeats": self.repeats, "warmup_s": self.warmup_s}
        return Method(**{name: value for name, value in stated.items() if value is not None})  # type: ignore[arg-type]

    def pairs(self, ranking: PairRanking | None) -> PairChoice:
        """Return which pairs are measured."""
        return PairChoice(ranking, self.batch, self.most_pairs)


@dataclass(frozen=True)
class PlanReport:
    """A plan, the device that it is for, and what a budget covers of it."""

    plan: Plan
    method: Method
    device: str
    device_kind: str
    table: str
    overhead_s: float
    budget_s: float | None
    sessions: tuple[int, ...] | None
    coming: Plan  # stand-ins for pairs that wait for solo profiles

    def document(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            **plan_document(self.plan, self.method, self.device),
            "device_kind": self.device_kind,
            "simulated": self.device_kind == "simulated",
            "table": self.table,
            "overhead_s": self.overhead_s,
            "budget_s": self.budget_s,
            "sessions": None if self.sessions is None else list(self.sessions),
            "undecided_pairs": self.plan.undecided_pairs,
            "expected_with_undecided_s": self.plan.expected_s + self.coming.expected_s,
        }


def measure_workloads(
    options: ProfileOptions,
    *,
    with_pairs: bool,
    ranking: PairRanking | None = None,
    progress: Progress = silent,
    say: Callable[[str], None],
) -> SessionReport:
    """Measure configurations alone, and pairs of them if asked for."""
    job_types, method = options.job_types, options.method
    device = _open(options.device, say)
    session = Session(
        device,
        options.out or default_table(device),
        method,
        options.budget_s,
        at_once=options.at_once or 1,
        progress=progress,
    )
    pairs = options.pairs(ranking) if with_pairs else None
    return measure(session, job_types, pairs=pairs, again_rejected=options.again_rejected)


def follow_plan(
    options: ProfileOptions, plan_uri: str, *, progress: Progress = silent, say: Callable[[str], None]
) -> SessionReport:
    """Measure what a plan file names, in its order and by its method.

    Raises BadInputError when other settings of the method are asked for beside it.
    """
    planned = read_plan(plan_uri)
    if options.method not in (Method(), planned.method):
        raise BadInputError(
            f"{plan_uri} says how to measure, and the command line says otherwise.",
            remedy="Leave --window-s, --repeats and --warmup-s out, or write a plan with them.",
        )
    device = _open(options.device, say)
    if device.description.name != planned.device:
        say(f"The plan was made for {planned.device}, and this is {device.description.name}.")
    session = Session(
        device, options.out or default_table(device), planned.method, options.budget_s, progress=progress
    )
    return measure_plan(session, planned.plan)


def make_plan(
    options: ProfileOptions,
    *,
    with_pairs: bool = True,
    write: str | None = None,
    ranking: PairRanking | None = None,
    say: Callable[[str], None],
) -> PlanReport:
    """Plan what is left by the table; a device is opened only where there is no table yet."""
    job_types, method = options.job_types, options.method
    rows = read_measurements(options.out) if options.out else None
    if rows is not None and len(rows):
        first = rows.iloc[0]
        device, kind = str(first["device"]), str(first["device_kind"])
        memory_mib, table = float(first["device_memory_mib"]), str(options.out)
        usual_s = SimulatedGpu(0).run_overhead_s() if kind == DeviceKind.SIMULATED else USUAL_OVERHEAD_S
        overhead_s = observed_overhead_s(rows) or usual_s
    else:
        opened = _open(options.device, say)
        device, kind = opened.description.name, str(opened.description.kind)
        memory_mib, overhead_s = opened.description.memory_mib, opened.run_overhead_s()
        table = options.out or default_table(opened)
    plan = plan_campaign(
        read_state(table, device, method),
        job_types,
        memory_mib=memory_mib,
        method=method,
        overhead_s=overhead_s,
        pairs=options.pairs(ranking) if with_pairs else None,
    )
    if write is not None:
        write_plan(write, plan, method, device)
    coming = pairs_to_come(plan, method=method, overhead_s=overhead_s, most=options.most_pairs)
    whole = Plan(plan.planned + coming.planned)
    sessions = None if options.budget_s is None else whole.sessions(options.budget_s)
    return PlanReport(plan, method, device, kind, table, overhead_s, options.budget_s, sessions, coming)


def plan_lines(report: PlanReport, first: int = 10) -> list[str]:
    """Return a plan for people: how many runs, how long, what a budget covers, and the first of the order."""
    plan = report.plan
    simulated = " (SIMULATED: no hardware)" if report.device_kind == "simulated" else ""
    lines = [f"{report.device}{simulated}, table {report.table}; {len(plan.done):,} tasks are done."]
    for kind, chosen in (
        ("configurations alone", [each for each in plan.planned if not each.task.is_pair]),
        ("pairs", [each for each in plan.planned if each.task.is_pair]),
    ):
        if chosen:
            total_s = sum(each.expected_s for each in chosen)
            lines.append(
                f"{len(chosen):,} {kind}, {clock_time(chosen[0].expected_s)} each "
                f"({report.overhead_s:.0f} s of it starting and stopping): {clock_time(total_s)}"
            )
    if report.coming.planned:
        coming = f"{len(report.coming.planned):,} of them take at most {clock_time(report.coming.expected_s)}"
        lines.append(f"{plan.undecided_pairs:,} pairs wait for solo profiles; {coming}")
    for rule, names in plan.left_out.items():
        if rule != NOT_YET_ALONE:
            lines.append(f"{len(names):,} pairs are left out: {rule}")
    whole = Plan(plan.planned + report.coming.planned)
    lines.append(f"In all: {len(whole.planned):,} runs, {clock_time(whole.expected_s)}")
    if report.budget_s is not None and report.sessions is not None:
        lines.append(_covered(report.budget_s, report.sessions, len(whole.planned)))
        lines += _better_window(report, report.budget_s)
    lines += [
        f"{position:>6}. {each.task.name} ({clock_time(each.expected_s)}; {each.why})"
        for position, each in enumerate(plan.planned[:first], start=1)
    ]
    if len(plan.planned) > first:
        lines.append(f"        and {len(plan.planned) - first:,} more")
    return lines


def profiles_of(table: str) -> ProfileSet:
    """Return the profiles of a measurement table. Raises NotFoundError when there is none."""
    rows = read_measurements(table)
    if rows.empty:
        raise NotFoundError(
            f"There are no measurements in {table}.", remedy="Measure first: `lucid profile solo`."
        )
    return summarise(rows)


def write_summary(table: str, directory: str | None) -> tuple[ProfileSet, tuple[Path, ...]]:
    """Return a table's profiles; with a directory, write them there too, rejected rows included."""
    profiles = profiles_of(table)
    if directory is None:
        return profiles, ()
    files = write_profiles(profiles, directory)
    rejected = Path(directory) / "rejected.csv"
    write_csv(profiles.rejected, rejected)
    too_big = Path(directory) / "out_of_memory.csv"
    write_csv(profiles.out_of_memory, too_big)
    return profiles, (*files, rejected, too_big)


def summary_document(profiles: ProfileSet, files: Sequence[Path]) -> dict[str, Any]:
    """Return what a summary says as plain data for JSON."""
    return {
        "solo_profiles": len(profiles.solo),
        "pair_profiles": len(profiles.pairs),
        "out_of_memory": len(profiles.out_of_memory),
        "rejected": profiles.rejected.to_dict("records"),
        "simulated": profiles.any_simulated,
        "files": [str(file) for file in files],
    }


def summary_lines(profiles: ProfileSet) -> list[str]:
    """Return the profile tables for people."""
    lines = [f"{len(profiles.solo):,} configurations alone"]
    if len(profiles.solo):
        lines += (
            profiles.solo[
                ["job_type", "speed", "speed_cv", "gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib"]
            ]
            .to_string(index=False, float_format=lambda value: f"{value:,.4g}")
            .splitlines()
        )
    lines += ["", f"{len(profiles.pairs):,} pairs"]
    if len(profiles.pairs):
        lines += (
            profiles.pairs[
                [
                    "job_type_1",
                    "speed_1",
                    "job_type_2",
                    "speed_2",
                    "gpu_util_pct",
                    "gpu_mem_mib",
                    "suspicious",
                ]
            ]
            .to_string(index=False, float_format=lambda value: f"{value:,.4g}")
            .splitlines()
        )
    lines += ["", f"{len(profiles.out_of_memory):,} out of memory, {len(profiles.rejected):,} rejected"]
    lines += [f"  {row['task']}: {row['reason']}" for row in profiles.rejected.to_dict("records")]
    return lines


def compare_tables(first: str, second: str | None) -> MeasurementComparison:
    """Compare two measurement tables, or check the pairs of equals of one."""
    if second is None:
        return check_self_pairs(profiles_of(first))
    return compare_profiles(profiles_of(first), profiles_of(second))


def default_table(device: ProfilingDevice) -> str:
    """Return where a device's measurements go by default."""
    letters = (letter if letter.isalnum() else "-" for letter in device.description.name.lower())
    slug = "-".join(part for part in "".join(letters).split("-") if part)
    return f"{FOLDER}/{slug}.parquet"


def _open(name: str, say: Callable[[str], None]) -> ProfilingDevice:
    """Open a device; `auto` is the first GPU, or else the simulated one, which is said."""
    if name != AUTO:
        return open_device(name)
    try:
        return open_device(FIRST_GPU)
    except (ServiceUnavailableError, NotFoundError) as error:
        why = str(error).removesuffix(error.remedy or "").strip()
        say(f"{why} The simulated device stands in: its numbers are of no hardware.")
        return open_device(SIMULATED)


def _better_window(report: PlanReport, budget_s: float) -> list[str]:
    """Say by which window a budget would hold one more pair, where that buys much for little."""
    method, pair_s = report.method, expected_pair_s(report.method, overhead_s=report.overhead_s)
    held = int(budget_s // pair_s)
    if held > MANY_PAIRS or not (
        report.plan.undecided_pairs or any(task.is_pair for task in report.plan.tasks)
    ):
        return []
    spare_s = budget_s / (held + 1) - (pair_s - 3 * method.repeats * method.window_s)
    window_s = int(spare_s / (3 * method.repeats))
    if window_s < SHORT_WINDOW_S:
        return []
    return [f"It holds {held} of the pairs; with --window-s {window_s} it would hold {held + 1}"]


def _covered(budget_s: float, sessions: tuple[int, ...], planned: int) -> str:
    if not sessions:
        return f"A budget of {budget_s:g} s is too short for any of them." if planned else "Nothing is left."
    remaining = planned - sum(sessions)
    beyond = f"; {remaining:,} take longer than that" if remaining else ""
    return (
        f"A budget of {budget_s:g} s covers the first {sessions[0]:,}; all of them take "
        f"{len(sessions):,} such runs{beyond}"
    )
