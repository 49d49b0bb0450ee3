"""What `lucid plan` and the DAG `plan_capacity` do: a log and an operator's questions in, a report out."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from cluster_logs.cluster_names import check_cluster_name
from foundation.errors import NotFoundError
from foundation.progress import Progress, silent
from foundation.usable_cores import usable_cores
from pipeline import settings as places
from pipeline.kept_reports import PAGE_FILE, KeptReport, write_index
from pipeline.planning.capacity_plan import PlanSettings, make_plan
from pipeline.planning.log_request import Commands, LogRequest
from pipeline.planning.page import REPORT_FILE, index_page
from pipeline.planning.plan_grade import grade_of_request
from pipeline.planning.plan_report import CapacityReport
from pipeline.planning.plan_rows import PlanTable
from pipeline.planning.planned_part import planned_parts
from pipeline.planning.planned_run import PlannedRun, inputs_digest
from pipeline.planning.records import line_of_plan, log_report, write_report
from pipeline.planning.replays import PlanReplays, ReplayPool, StoredReplays, replay_planned
from pipeline.release.release_settings import own_settings
from pipeline.search.experiment_store.documents import digest
from simulator.policies.loading import load_with_parts
from simulator.rule_sets import load_rules

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
    store = StoredReplays.open(inputs_digest(log), uri)
    commands = Commands(log, out_dir)
    table = PlanTable(log, settings.target, settings.resampling, settings.prices, commands.of)
    with ReplayPool(partial(replay_planned, log), workers) as pool:
        replays = PlanReplays(log, store, pool, workers, progress)
        plan = make_plan(replays, table, settings, progress)
        report = CapacityReport(name, log, settings, plan, replays.executed, replays.reused, grade)
    write_report(report, out_dir)
    return report


def plan_cluster(
    request: LogRequest,
    settings: PlanSettings,
    *,
    cluster: str,
    pages_dir: Path,
    tracking_uri: str,
    workers: int = 1,
    progress: Progress = silent,
) -> KeptReport[CapacityReport]:
    """Plan a cluster's capacity, write its page below `pages_dir` and keep a run of MLflow.

    The same questions of the same days have the same folder; replays are kept in the lake. Raises as
    `plan_capacity`, ServiceUnavailableError when MLflow does not answer.
    """
    name = check_cluster_name(cluster)
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
        progress=progress,
    )
    write_index(pages_dir, REPORT_FILE, line_of_plan, index_page)
    path = log_report(report, folder, tracking_uri)
    return KeptReport(report, folder, f"{name}/{folder.name}/{PAGE_FILE}", path)


def default_folder(request: LogRequest) -> Path:
    """Return where a plan is kept that names no folder: below the state folder, one a log and window."""
    return places.state_dir() / "plans" / digest({"request": repr(request)})[:12]


def policy_of_release(tracking_uri: str, cluster: str) -> PlannedRun:
    """Return the policy of a cluster's champion with its settings; FIFO where there is no champion."""
    from lucid_models.releases.lifecycle import show_release  # loading MLflow takes seconds

    try:
        champion = show_release(tracking_uri=tracking_uri, cluster=cluster)
    except NotFoundError:
        return PlannedRun(DEFAULT_POLICY)
    return PlannedRun(champion.policy, own_settings(champion.policy, champion.settings))
