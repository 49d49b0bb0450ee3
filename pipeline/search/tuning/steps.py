"""Tuning as steps that may run on several machines: what the DAG `tune_system` calls, one function a task.

Only URIs, identities and small numbers pass between them.
"""

from collections.abc import Mapping
from typing import Any

from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from pipeline.search.tuning.challenger import build_challenger, current_release, plan_around
from pipeline.search.tuning.proposal import propose, read_proposal
from pipeline.search.tuning.report import record_study, write_report
from pipeline.search.tuning.rounds import ask_round
from pipeline.search.tuning.study import TuningSpec, load_study
from pipeline.training.windows import read_as_of


def plan_tuning(
    *,
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    asked: Mapping[str, Any],
    progress: Progress = silent,
) -> dict[str, Any]:
    """Freeze what trials replay, around the cluster's current release; returns study_uri and remarks.

    `asked` holds fields of TuningSpec (`as_of` as text); None is left out. Raises NotFoundError when there is
    no release to tune.
    """
    values = {name: value for name, value in asked.items() if value not in (None, "")}
    spec = TuningSpec(**{**values, "as_of": read_as_of(values.get("as_of"))})
    current = current_release(tracking_uri, cluster)
    study = plan_around(current, lake_uri=lake_uri, cluster=cluster, spec=spec, progress=progress)
    return {"study_uri": study.uri, "base_release": current.release, "remarks": list(study.remarks)}


def ask_trials(
    *, study_uri: str, round_number: int, rounds: int, trials_per_task: int = 1
) -> list[dict[str, Any]]:
    """Ask for a round, and divide its trials among tasks; a round beyond `rounds` asks for nothing."""
    study = load_study(study_uri)
    return study.tasks(ask_round(study, round_number) if round_number <= rounds else [], trials_per_task)


def propose_settings(*, study_uri: str, tracking_uri: str, progress: Progress = silent) -> dict[str, Any]:
    """Validate the best trial, write the tables and pictures, and log the study in MLflow."""
    study = load_study(study_uri)
    proposal = propose(study, progress=progress)
    files = write_report(study, proposal)
    path = record_study(study, proposal, tracking_uri=tracking_uri)
    return {
        "cluster": study.cluster,
        "proposed": proposal.proposed,
        "objective": study.objective,
        "figures": {"current settings": proposal.search["before"], "best trial": proposal.search["after"]},
        "sentence": proposal.sentence,
        "changes": dict(to_jsonable(proposal.changes)),
        "trials": proposal.trials,
        "files": list(files),
        "mlflow_path": path,
    }


def build_tuned_release(*, study_uri: str, tracking_uri: str, lake_uri: str) -> dict[str, Any]:
    """Build the proposal's release, the challenger; returns its name and version, and what validates it."""
    study = load_study(study_uri)
    release = build_challenger(study, read_proposal(study), tracking_uri=tracking_uri, lake_uri=lake_uri)
    return {
        "name": release.name,
        "version": release.version,
        "cluster": study.cluster,
        "hold_out_days": study.hold_out_days,
        "as_of": study.as_of,
    }
