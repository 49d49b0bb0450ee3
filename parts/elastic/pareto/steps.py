"""The search as steps that may run on several machines: what the DAG `search_pareto_front` calls.

Only URIs, identities and small numbers pass between them. In this order, each step's list being mapped over
`evaluate_batch`:

    plan_search -> ask_simulations of rounds 0, 1, ... rounds - 1, "confirm", "hold_out" -> finish_search
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster_logs.cluster_names import check_cluster_name
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from parts.elastic.configurations import configuration_to_json
from parts.elastic.pareto import rounds
from parts.elastic.pareto.inputs import collect_from_lake, collect_from_log
from parts.elastic.pareto.presented import FrontPoint, present, read_front
from parts.elastic.pareto.report import newest_front, record_search, write_report
from parts.elastic.pareto.samples import PREDICTED_BY
from parts.elastic.pareto.study import SearchSpec, load_study, plan_study
from pipeline.replay.log_file import LogFile
from pipeline.training.windows import read_as_of, training_window_end

HOLD_OUT_DAYS = 14


def plan_search(
    *,
    gpus: int | None = None,
    lake_uri: str | None = None,
    cluster: str | None = None,
    log: LogFile | None = None,
    out_uri: str | None = None,
    folder_uri: str | None = None,
    asked: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Freeze the workload of a cluster in the lake, or of a log file, and store the plan.

    `asked` holds fields of `SearchSpec` (the preference also as text, `JCT:avg Pred_err:p99`); for the lake
    `hold_out_days` (its last days are left to the gate), `as_of` and `virtual_cluster`; for a log
    `speed_ups_path` and `time_zone`. None is left out. The study lies at `out_uri`, by default below
    `folder_uri` (for the lake: pareto/cluster=C in it) by its digest.
    Returns `study_uri`, `rounds` (how many there are) and `remarks`.
    """
    values = {name: value for name, value in (asked or {}).items() if value not in (None, "")}
    lake_only = {name: values.pop(name, None) for name in ("hold_out_days", "as_of", "virtual_cluster")}
    log_only = {name: values.pop(name) for name in ("speed_ups_path", "time_zone") if name in values}
    if isinstance(values.get("preference"), str):
        values["preference"] = tuple(values["preference"].replace(",", " ").split())
    spec = SearchSpec(**values)
    progress(0, None, "reading the log")
    common: dict[str, Any] = {"gpus": gpus, "scaling": spec.scaling, "whole": spec.whole_gpus}
    if log is not None and cluster is None:
        if not log.source_format or gpus is None or (out_uri or folder_uri) is None:
            raise BadInputError("A log file needs its --format, --gpus N and a folder for the search.")
        jobs_path = Path(log.path)
        collected = collect_from_log(jobs_path, log.source_format, progress=progress, **common, **log_only)
        name, about = jobs_path.name.split(".")[0], {"log": jobs_path.name}
    elif cluster is None or lake_uri is None or log is not None:
        raise BadInputError(
            "It is not clear whose jobs are to be sampled.",
            remedy="Give either a log file (--jobs FILE --format F) or the lake's --cluster NAME.",
        )
    else:
        check_cluster_name(cluster)
        days, part = lake_only["hold_out_days"], lake_only["virtual_cluster"]
        until = training_window_end(
            lake_uri, cluster, HOLD_OUT_DAYS if days is None else int(days), read_as_of(lake_only["as_of"])
        )
        collected = collect_from_lake(lake_uri, cluster, until=until, virtual_cluster=part, **common)
        name, folder_uri = cluster, f"{lake_uri.rstrip('/')}/pareto/cluster={cluster}"
        about = {"until": until.isoformat(), "virtual_cluster": part or "all, as one pool"}
    study = plan_study(collected, spec, out_uri=out_uri, folder_uri=folder_uri or "", name=name, about=about)
    return {"study_uri": study.uri, "rounds": study.rounds, "remarks": list(study.remarks)}


def ask_simulations(
    *, study_uri: str, stage: str, round_number: int = 0, evaluations_per_task: int = 4
) -> list[dict[str, Any]]:
    """Divide the simulations that a stage asks for, and that have no result, among tasks.

    `stage` is "round" (the candidates of round `round_number`, chosen once), "confirm" (candidates near the
    front on all samples) or "hold_out" (the front on fresh samples, which chose nothing). Each item is the
    keyword arguments of `evaluate_batch`; with nothing to do there is one task without simulations, since
    what is mapped over nothing would skip the rest. A round that the plan does not have asks for nothing.
    """
    study = load_study(study_uri)
    evaluations: Sequence[rounds.Evaluation] = ()
    if stage != "round":
        evaluations = {"confirm": rounds.ask_confirmations, "hold_out": rounds.ask_held_out}[stage](study)
    elif round_number < study.rounds:
        evaluations = rounds.ask_round(study, round_number)
    return study.tasks(map(list, evaluations), evaluations_per_task)


def evaluate_batch(
    *, study_uri: str, evaluations: list[list[str]], progress: Progress = silent
) -> dict[str, int]:
    """Run simulations, each a pair of (candidate's identity, sample's name), and store what they find.

    What is known is not run again. Returns how many were run.
    """
    return {"simulations": rounds.evaluate_batch(study_uri, evaluations, progress)}


def finish_search(*, study_uri: str, tracking_uri: str | None = None) -> dict[str, Any]:
    """Write the front, its tables and its interactive page, and log the search in MLflow.

    Returns `front` (rows as `pick_configuration` returns them), `preference`, `evaluations`, `simulations`,
    `files`, and `run_id` and `mlflow_path` (None without `tracking_uri`).
    """
    study = load_study(study_uri)
    front = present(study)
    files = write_report(study, front)
    run_id, path = (None, None)
    if tracking_uri is not None:
        run_id, path = record_search(study, front, tracking_uri=tracking_uri)
    return {
        "preference": list(front.preference),
        "predict_by": PREDICTED_BY,
        "evaluations": front.evaluations,
        "simulations": front.simulations,
        "front": [point_row(point) for point in front.points],
        "files": list(files),
        "run_id": run_id,
        "mlflow_path": path,
    }


def point_row(point: FrontPoint) -> dict[str, Any]:
    """Return a point for people and programs: id, figures by name, and settings of policy `pcs`."""
    configuration = configuration_to_json(point.config)
    return {
        "front_id": point.front_id,
        "figures": dict(point.figures),
        "spread": dict(point.spread),
        "configuration": configuration,
        "settings": {name: value for name, value in configuration.items() if name != "format_version"},
    }


def pick_configuration(
    *,
    front_id: str,
    study_uri: str | None = None,
    tracking_uri: str | None = None,
    cluster: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Return one row of a front, with `study`, `preference`, `name` and `run_id` besides.

    A row has `front_id`, `figures` (on fresh samples, by name), `spread`, `configuration` (a JSON document)
    and `settings` (of policy `pcs`). The front is that of a stored study, or of MLflow: that run's, or else
    the newest search of the cluster. Raises UnknownNameError for an id that the front does not have,
    NotFoundError when there is no front.
    """
    if study_uri is not None:
        front, run_id = read_front(study_uri), None
    elif tracking_uri is not None:
        front, run_id = newest_front(tracking_uri, cluster=cluster, run_id=run_id)
    else:
        raise BadInputError("No front is named.", remedy="Give a study, or MLflow's address.")
    return {
        **point_row(front.point(front_id)),
        "study": front.study,
        "name": front.name,
        "preference": list(front.preference),
        "predict_by": PREDICTED_BY,
        "run_id": run_id,
    }
