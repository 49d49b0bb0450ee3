"""What `lucid plan` and the DAG `plan_capacity` do: a log and an operator's questions in, a report out."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError, NotFoundError, check_names
from foundation.outside_names import check_cluster_name
from foundation.progress import Progress, silent
from foundation.site import Site
from foundation.usable_cores import usable_cores
from pipeline import settings as places
from pipeline.kept_reports import PAGE_FILE, KeptReport, write_index
from pipeline.planning.capacity_plan import PlanSettings, make_plan
from pipeline.planning.log_request import Commands, LogRequest
from pipeline.planning.plan_rows import PlanTable, Prices
from pipeline.planning.planned_part import check_parts, planned_parts
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.replays import PlanReplays, ReplayPool, StoredReplays
from pipeline.planning.report import (
    REPORT_FILE,
    CapacityReport,
    index_page,
    line_of_plan,
    log_report,
    write_report,
)
from pipeline.release.release_settings import own_settings
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.site_grade import grade_cluster, grade_log
from pipeline.studies.store import digest
from pipeline.studies.study import answer_one
from pipeline.studies.wait_target import Resampling, WaitTarget
from pipeline.training.windows import read_time
from simulator.energy import EnergySettings
from simulator.replay import load_with_parts
from simulator.scenario.rules import load_rules
from simulator.wait_fidelity.grade import WaitGrade, not_graded

DEFAULT_POLICY = "fifo"
_REPLAYED = "replayed"  # in a plan's folder
_FEW_JOBS = 1_000  # are replayed some twenty times before other processes have started


def plan_capacity(
    request: LogRequest,
    settings: PlanSettings,
    out_dir: Path,
    *,
    name: str,
    replays_uri: str | None = None,
    workers: int | None = 1,
    progress: Progress = silent,
) -> CapacityReport:
    """Answer an operator's questions of a log by replays, and write the report to `out_dir`.

    What was replayed is kept below `replays_uri` (default: in `out_dir`), and not replayed again. `workers`
    processes replay (None: one a core, for a log of more than a few jobs). Raises BadInputError for a log, a
    size or a setting that cannot be used, UnknownNameError for a name.
    """
    run = settings.run
    for part in planned_parts():  # an error before long work
        run = part.check(settings.asked_of(part), run)
    load_with_parts(run.policy, run.all_settings, load_rules(request.rule_set))
    uri = replays_uri or str(out_dir.absolute() / _REPLAYED)
    log = request.read(run.policy, uri, progress)
    settings, remarks = settings.for_log(log)
    log = replace(log, remarks=(*log.remarks, *remarks))
    if workers is None:
        workers = usable_cores() if len(log.scenario.workload) > _FEW_JOBS else 1
    grade = grade_of_request(request, progress)
    store = StoredReplays.open(log, uri)
    commands = Commands(log, out_dir)
    table = PlanTable(log, settings.target, settings.resampling, settings.prices, commands.of)
    with ReplayPool(partial(answer_one, store), workers) as pool:
        replays = PlanReplays(store, pool, workers, progress)
        plan = make_plan(replays, table, settings, progress)
        report = CapacityReport(name, log, settings, plan, replays.executed, replays.reused, grade)
    write_report(report, out_dir)
    return report


def plan_cluster(
    site: Site, request: LogRequest, settings: PlanSettings, *, pages_dir: Path, workers: int = 1
) -> KeptReport[CapacityReport]:
    """Plan a cluster's capacity, write its page below `pages_dir` and keep a run of MLflow.

    The same questions of the same days have the same folder; replays are kept in the lake. Raises as
    `plan_capacity`, ServiceUnavailableError when MLflow does not answer.
    """
    name = check_cluster_name(site.cluster)
    asked_sha256 = digest({"request": repr(request), "settings": repr(settings)})[:8]
    target = settings.target
    stamp = f"{request.start or 'all'}-{target.metric}-{target.limit_s:g}s-{asked_sha256}"
    folder = pages_dir / name / "".join(c if c.isalnum() or c in "-." else "_" for c in stamp)
    lake_uri = request.lake_uri or places.lake_uri()
    report = plan_capacity(
        request,
        settings,
        folder,
        name=name,
        replays_uri=f"{lake_uri.rstrip('/')}/plans/cluster={name}",
        workers=workers,
        progress=site.progress,
    )
    write_index(pages_dir, REPORT_FILE, line_of_plan, index_page)
    path = log_report(report, folder, site.registry)
    return KeptReport(report, folder, f"{name}/{folder.name}/{PAGE_FILE}", path)


def default_folder(request: LogRequest) -> Path:
    """Return where a plan is kept that names no folder: below the state folder, one a log and window."""
    return places.state_dir() / "plans" / digest({"request": repr(request)})[:12]


def policy_of_release(site: Site) -> PlannedRun:
    """Return the policy of a cluster's champion with its settings; FIFO where there is no champion."""
    from lucid_models.releases.lifecycle import show_release  # loading MLflow takes seconds

    try:
        champion = show_release(tracking_uri=site.registry, cluster=site.cluster)
    except NotFoundError:
        return PlannedRun(DEFAULT_POLICY)
    return PlannedRun(champion.policy, own_settings(champion.policy, champion.settings))


_ENERGY = tuple(field.name for field in fields(EnergySettings))
_FIELDS = (
    *("policy", "settings", "metric", "limit_s", "points", "by_virtual_cluster"),
    *("block_days", "node_day_price", "seed"),
    *_ENERGY,
)


def log_of_form(site: Site, values: Mapping[str, Any]) -> LogRequest:
    """Return which log is planned for: the file that the form names, else the cluster's in the lake."""
    stated = {name: value for name, value in values.items() if value not in (None, "")}
    own = [field.name for field in fields(LogRequest) if field.name != "of_parts"]
    of_parts = [name for part in planned_parts() for name in part.log_fields]
    check_names("field of a log to plan for", stated, [*own, *of_parts])
    beside = {name: stated.pop(name) for name in of_parts if name in stated}
    if "jobs" not in stated:
        stated = {name: stated[name] for name in ("start", "end", "rules") if name in stated}
        return LogRequest(cluster=site.cluster, lake_uri=site.lake, **stated, of_parts=beside)
    return LogRequest(**stated, of_parts=beside)


def settings_of_form(site: Site, values: Mapping[str, Any]) -> PlanSettings:
    """Return what a form asks; without a policy that of the cluster's champion, else FIFO.

    Raises UnknownNameError for a field or a name that does not exist, BadInputError for a bad value,
    NotFoundError for a field of a part that is not installed.
    """
    stated = {name: value for name, value in values.items() if value not in (None, "", {}, [])}
    parts = planned_parts()
    check_parts(stated, [*_FIELDS, *(name for part in parts for name in part.fields)])
    seed = int(stated.get("seed", 0))
    run = PlannedRun(str(stated["policy"])) if "policy" in stated else policy_of_release(site)
    of_parts = {name: value for part in parts for name, value in part.run_settings(stated).items()}
    run = replace(run, settings={**run.settings, **of_parts, **stated.get("settings", {})}, seed=seed)
    energy = EnergySettings(**{name: float(stated[name]) for name in _ENERGY if name in stated})
    return PlanSettings(
        run,
        WaitTarget(str(stated.get("metric", "p95")), float(stated.get("limit_s", 600.0))),
        Resampling(float(stated.get("block_days", 1.0)), seed=seed),
        Prices(energy, float(stated.get("node_day_price", 0.0))),
        points=int(stated.get("points", 12)),
        by_virtual_cluster=bool(stated.get("by_virtual_cluster", True)),
        asked={part.key: part.of_form(stated) for part in parts},
    )


def grade_of_request(request: LogRequest, progress: Progress = silent) -> WaitGrade:
    """Grade the days that are planned for; where that cannot be done, the grade says why."""
    if request.rule_set != "default":
        return not_graded(f"the rules {request.rule_set} are those of another simulator.")
    start, end = read_time(request.start), read_time(request.end)
    progress(0, None, "laying a replay beside the log")
    try:
        if request.jobs is None:
            assert request.cluster is not None  # noqa: S101 - the request has looked
            lake_uri = request.lake_uri or places.lake_uri()
            return grade_cluster(Site(lake=lake_uri, cluster=request.cluster, progress=progress), start, end)
        path = request.jobs if "://" in request.jobs else str(Path(request.jobs).absolute())
        log = LogFile(path, str(request.source_format), start, end, request.time_zone)
        size = ClusterSize(request.nodes, request.gpus, request.gpus_per_node, request.training_servers)
        return grade_log(log, size, progress=progress)
    except (BadInputError, NotFoundError) as error:
        return not_graded(str(error))
