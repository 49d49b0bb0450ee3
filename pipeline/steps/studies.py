"""Steps of what is simulated: a sweep of policies, a plan of capacity, better settings."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foundation.human_times import human_duration
from foundation.jsonable import to_jsonable
from foundation.parts import at_place
from foundation.progress import Progress
from foundation.site import Site
from foundation.steps import Done, NothingToDo, StepRun
from foundation.usable_cores import usable_cores
from pipeline.planning.planner import log_of_form, plan_cluster, settings_of_form
from pipeline.steps.release import built
from pipeline.studies.study import OK, ROUND
from pipeline.studies.sweeps.report import collect_evaluation
from pipeline.studies.sweeps.sweep import SweepPlan, plan_evaluation
from pipeline.studies.tuning.challenger import build_challenger
from pipeline.studies.tuning.plan import TuningSpec, current_release, plan_around
from pipeline.studies.tuning.proposal import propose, read_proposal
from pipeline.studies.tuning.report import record_study, write_report
from pipeline.studies.tuning.study import TuningStudy
from pipeline.training.windows import only_cluster, read_as_of
from pipeline.validation.held_out_days import usual_held_out
from pipeline.what_if.kept import AskedWhatIf, grade_of_what_if, keep_what_if

_log = logging.getLogger(__name__)


def ask_stage(
    *, study: str, study_uri: str, stage: str, round_number: int, rounds: int, per_task: int = 4
) -> Done:
    """Ask a study (a `StoredStudy`, MODULE:NAME) for a stage's evaluations, by what those before found.

    Of numbered rounds those beyond `rounds` have nothing to do. Returns the arguments of each `evaluate`;
    what was asked for before is the same again, without what is done.
    """
    kind = at_place(study)
    if stage == ROUND and round_number >= int(rounds) + kind.opening_rounds:
        raise NothingToDo(f"The {kind.kind} has {rounds} rounds.")
    asked = kind.load(study_uri)
    tasks = asked.tasks(asked.ask(stage, round_number), int(per_task))
    count = sum(len(task["identities"]) for task in tasks)
    return Done(tasks, f"{count} {kind.unit}s in {len(tasks)} tasks.", on_the_way=True)


def evaluate(
    *, progress: Progress, study: str, study_uri: str, identities: Sequence[str], names: str = ""
) -> Done:
    """Evaluate some questions of a study. One that fails is a record of the study, not a failed step.

    `names`: what they are, for people who watch. Returns how many were evaluated and how many failed.
    """
    asked = at_place(study).load(study_uri)
    records = asked.evaluate(identities, progress)
    failed = sum(record.get("status", OK) != OK for record in records)
    sentence = f"{len(records)} {asked.unit}s done, {failed} of them failed."
    return Done({"evaluated": len(records), "failed": failed}, sentence, on_the_way=True)


def plan_sweep(*, run: StepRun, site: Site, asked: Mapping[str, Any], runs_per_task: int = 1) -> Done:
    """Freeze a log's jobs in the lake and divide the runs among tasks.

    `asked` has the keys of a sweep file. Returns the arguments of each `evaluate`: of runs that are not
    done yet. Beside them the cluster, the sweep's URI and the number of runs.
    """
    site = site.of(site.cluster or only_cluster(site.lake))
    run.check_right(site.cluster)
    plan = plan_evaluation(site, asked={**asked, "tracking": site.registry}, runs_per_task=int(runs_per_task))
    for remark in plan["remarks"]:
        _log.warning("%s", remark)
    return Done(
        plan["tasks"],
        f"{plan['runs']} replays of {site.cluster}, {plan['reused']} of them done before, in "
        f"{len(plan['tasks'])} tasks.",
        others={"cluster": site.cluster, **{key: plan[key] for key in ("sweep_uri", "runs", "reused")}},
        on_the_way=True,
    )


def collect_sweep(*, run: StepRun, site: Site, sweep_uri: str) -> Done:
    """Write the sweep's table and pictures to the lake and to MLflow; fails when a run has no result.

    Returns where the table is, and the best variants.
    """
    plan, page = SweepPlan.load(sweep_uri), None
    if plan.keeps_jobs:  # as the page What if has it done
        asked = AskedWhatIf(
            run_id=run.run_id,
            cluster=site.cluster,
            asked_by=run.person or "",
            asked_at=run.asked_at,
            fields=dict(run.form),
        )
        grade = grade_of_what_if(site, asked.fields)
        keep_what_if(plan, asked, run.state_dir() / "what_if", grade)
        page = f"plugin/lucid/what-if/{quote(run.run_id, safe='')}"
    result = collect_evaluation(site, sweep_uri=sweep_uri)
    for row in result["variants"]:
        _log.info("%s", row)
    mean_jct_h = {row["label"]: float(row["mean_jct_s"]) / 3_600.0 for row in result["variants"]}
    best = next(iter(mean_jct_h))
    return Done(
        result,
        f"{result['runs']} replays of {site.cluster}: the least mean JCT has {best} "
        f"({human_duration(3_600.0 * mean_jct_h[best])}).",
        page=page,
        bars=("Mean JCT (h)", mean_jct_h),
        mlflow_path=result["mlflow_path"],
    )


def plan_capacity(
    *,
    run: StepRun,
    site: Site,
    state_dir: Path,
    planned_log: Mapping[str, Any],
    asked: Mapping[str, Any],
    workers: int | None = None,
) -> Done:
    """Answer a form's questions of a cluster's log by replays.

    `planned_log` holds fields of `LogRequest`, `asked` those of the form; empty ones are left out. Returns
    the page, the questions' answers and how many rows the front has.
    """
    site = site.of(str(site.cluster or only_cluster(site.lake)))
    run.check_right(site.cluster)
    planned = plan_cluster(
        site,
        log_of_form(site, planned_log),
        settings_of_form(site, asked),
        pages_dir=state_dir / "plans",
        workers=int(workers or usable_cores()),
    )
    plan = planned.report.plan
    for each in plan.answers:
        _log.info("%s %s (%s)", each.question, each.answer, each.variant)
    for remark in plan.remarks:
        _log.warning("%s", remark)
    first = plan.answers[0]
    value = {
        "cluster": site.cluster,
        "page": planned.page,
        "answers": {f"{each.pool}, {each.variant}, {each.kind}": each.answer for each in plan.answers},
        "front": len(plan.front),
    }
    return Done(
        value,
        f"{site.cluster}: {first.question} {first.answer}",
        page=f"lucid/plans/{planned.page}",
        mlflow_path=planned.mlflow_path,
    )


def plan_tuning(*, run: StepRun, site: Site, asked: Mapping[str, Any]) -> Done:
    """Freeze the days before the held-out window in the lake, around the cluster's current release.

    `asked` holds fields of TuningSpec (`as_of` as text); empty ones are left out. Returns the study's URI,
    the lake's, and the release that is tuned.
    """
    site = site.of(site.cluster or only_cluster(site.lake))
    run.check_right(site.cluster)
    values = {name: value for name, value in asked.items() if value not in (None, "")}
    values["hold_out_days"] = values.get("hold_out_days") or usual_held_out(site)
    spec = TuningSpec(**{**values, "as_of": read_as_of(values.get("as_of"))})
    current = current_release(site)
    study = plan_around(site, current, spec=spec)
    for remark in study.remarks:
        _log.warning("%s", remark)
    _log.info("The study is %s", study.uri)
    value = {
        "study_uri": study.uri,
        "base_release": current.release,
        "remarks": list(study.remarks),
        "lake_uri": site.lake,
    }
    return Done(value, f"Release {current.release} of {site.cluster} is tuned.", on_the_way=True)


def propose_settings(*, site: Site, study_uri: str) -> Done:
    """Validate the best trial on days that chose nothing; the run ends unless it is better there.

    Writes the tables and pictures, and logs the study in MLflow. Returns the sentence, the changes, and where
    the tables are.
    """
    study = TuningStudy.load(study_uri)
    proposal = propose(study, progress=site.progress)
    files = write_report(study, proposal)
    path = record_study(study, proposal, tracking_uri=site.registry)
    figures = {"current settings": proposal.search["before"], "best trial": proposal.search["after"]}
    value = {
        "cluster": study.cluster,
        "proposed": proposal.proposed,
        "objective": study.objective,
        "figures": figures,
        "sentence": proposal.sentence,
        "changes": dict(to_jsonable(proposal.changes)),
        "trials": proposal.trials,
        "files": list(files),
        "mlflow_path": path,
    }
    return Done(
        value,
        f"Settings of {study.cluster}: {proposal.sentence}",
        bars=(f"{study.objective} on the search days", figures),
        mlflow_path=path,
        ends_run=not proposal.proposed,
    )


def build_tuned_release(*, run: StepRun, site: Site, study_uri: str) -> Done:
    """Pin the proposed settings, with the models of the release that was tuned, in a new challenger.

    Returns the release's name and version.
    """
    study = TuningStudy.load(study_uri)
    release = build_challenger(site, study, read_proposal(study))
    return built(
        run,
        site.registry,
        (study.cluster, int(release.version)),
        f"Release {release.version} of {study.cluster} was built with the proposed settings.",
        {"name": release.name, "version": release.version},
        lake_uri=site.lake,
        hold_out_days=study.hold_out_days,
        as_of=study.as_of,
    )
