"""What is kept of a what-if, so that its address holds: figures, and the tables behind its pictures.

STATE/what_if/ID/what_if.json            what was asked, by whom, and the figures
STATE/what_if/ID/0-waits.parquet, ...    what `kept_jobs` keeps, of each variant by its number

ID is a digest of the run's name in Airflow, which may be any text. The newest MOST_KEPT are kept.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from foundation.errors import BadInputError, NotFoundError
from foundation.jsonable import to_jsonable
from foundation.process_lock import scratch_folder
from foundation.replaced_files import replace_file
from foundation.site import Site
from foundation.storage import read_bytes
from pipeline.replay.site_grade import grade_cluster
from pipeline.studies.study import OK, Record
from pipeline.studies.sweeps.added_nodes import added_nodes_text
from pipeline.studies.sweeps.kept_jobs import SUBMIT_TIME, USAGE, WAITS, kept_table
from pipeline.studies.sweeps.runs import SweepRun
from pipeline.studies.sweeps.sweep import SweepPlan, read_records
from pipeline.training.windows import read_time
from pipeline.what_if.figures import (
    change_figures,
    completed_gpu_jobs,
    variant_figures,
    virtual_cluster_figures,
)
from simulator.wait_fidelity.grade import WaitGrade, not_graded

REPORT_FILE = "what_if.json"
MOST_KEPT = 100
# Jobs beside those that figures are of: how many filled the cluster, and how many left the queue unrun.
TOLD_APART = ("warm_up_jobs", "left_waiting", "would_have_started")
_MODE = 0o644  # the API server may be another user


@dataclass(frozen=True)
class AskedWhatIf:
    """Who asked what: the run in Airflow, its person and the fields of the form that were given."""

    run_id: str
    cluster: str
    asked_by: str
    asked_at: str
    fields: Mapping[str, Any]


def what_if_folder(pages_dir: Path, run_id: str) -> Path:
    """Return where the what-if of a run lies, once it is there."""
    return pages_dir / hashlib.sha256(run_id.encode()).hexdigest()[:20]


def keep_what_if(
    plan: SweepPlan, asked: AskedWhatIf, pages_dir: Path, grade: WaitGrade | None = None
) -> dict[str, Any]:
    """Keep the jobs and figures of a simulated sweep, which keeps its jobs, as the what-if of a run; `grade`:
    how far a replay of the cluster as it is is like the log.

    A run that failed is kept with its error. What is older than the newest MOST_KEPT is deleted.
    """
    pages_dir.mkdir(parents=True, exist_ok=True)
    with scratch_folder("what-if") as scratch:
        document = _document(plan, asked, scratch)
        document["grade"] = None if grade is None else to_jsonable(grade.to_data())
        replace_file(scratch / REPORT_FILE, json.dumps(document, allow_nan=False) + "\n", mode=_MODE)
        folder = what_if_folder(pages_dir, asked.run_id)
        if folder.exists():  # of an earlier try of the run
            shutil.rmtree(folder)
        arriving = folder.with_name(f".{folder.name}")
        shutil.rmtree(arriving, ignore_errors=True)
        shutil.copytree(scratch, arriving)
        arriving.chmod(0o755)
        arriving.rename(folder)
    for _, old in _newest_first(pages_dir)[MOST_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return document


def read_kept(pages_dir: Path, run_id: str) -> dict[str, Any]:
    """Return the document of a run's what-if. Raises NotFoundError when none is kept."""
    file = what_if_folder(pages_dir, run_id) / REPORT_FILE
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NotFoundError(
            f"No result is kept of the what-if {run_id!r}.",
            remedy=f"It is not over, or is older than the newest {MOST_KEPT}: ask it again.",
        ) from None


def list_kept(pages_dir: Path) -> list[dict[str, Any]]:
    """Return the documents of all what-ifs, newest first."""
    return [document for document, _ in _newest_first(pages_dir)]


def read_table(pages_dir: Path, run_id: str, variant: int, name: str, **reading: Any) -> pd.DataFrame:
    """Return a table of one variant; `reading` goes to the reader: columns, filters."""
    file = what_if_folder(pages_dir, run_id) / f"{variant}-{name}.parquet"
    if not file.is_file():
        raise NotFoundError(f"The what-if {run_id!r} has no jobs of variant {variant}.")
    return pd.read_parquet(file, **reading)


def _newest_first(pages_dir: Path) -> list[tuple[dict[str, Any], Path]]:
    documents = []
    for file in pages_dir.glob(f"[!.]*/{REPORT_FILE}"):
        try:
            documents.append((dict(json.loads(file.read_text(encoding="utf-8"))), file.parent))
        except FileNotFoundError:  # another run is deleting it
            continue
    return sorted(documents, key=lambda each: (each[0]["asked"]["asked_at"], each[1].name), reverse=True)


def _document(plan: SweepPlan, asked: AskedWhatIf, folder: Path) -> dict[str, Any]:
    records = read_records(plan)
    names = variant_names(list(plan.runs.values()))
    tables: dict[int, pd.DataFrame] = {}
    variants: list[dict[str, Any]] = []
    for number, (identity, run) in enumerate(plan.runs.items()):
        variants.append(_variant(names[number], run, records.get(identity)))
        if variants[-1]["error"] is None:
            tables[number] = _copied(plan, identity, folder, number)
            variants[-1] |= variant_figures(tables[number])
    reference = next(iter(tables), None)
    for number, table in tables.items():
        if number != reference and reference is not None:
            variants[number]["change"] = change_figures(table, tables[reference])
    span = [
        moment for table in tables.values() for moment in (table[SUBMIT_TIME].min(), table[SUBMIT_TIME].max())
    ]
    ends_s = [float(table["end_time_s"].max()) for table in tables.values() if len(table)]
    # The clock's second 0 is the first replayed job's; the warm-up, if any, is not shown.
    begins_s = [
        float((record.get("figures") or {}).get("counted_from_s", 0.0)) for record in records.values()
    ]
    by_name = {names[number]: table for number, table in tables.items()}
    return dict(
        to_jsonable(
            {
                "asked": asdict(asked),
                "kept_at": datetime.now(UTC),
                "sweep_uri": plan.uri,
                "first_submission": min(span, default=None),
                "last_submission": max(span, default=None),
                "from_s": max(begins_s, default=0.0),
                "until_s": max(ends_s, default=0.0),
                "reference": None if reference is None else names[reference],
                "variants": variants,
                "virtual_clusters": virtual_cluster_figures(by_name) if by_name else [],
                "remarks": list(plan.remarks),
            }
        )
    )


def _variant(name: str, run: SweepRun, record: Record | None) -> dict[str, Any]:
    figures = (record or {}).get("figures") or {}
    failed = record is None or record["status"] != OK
    skipped = {rule: count for rule, count in (figures.get("skipped") or {}).items() if count}
    return {
        "name": name,
        "policy": run.policy,
        "settings": dict(run.settings),
        "nodes": added_nodes_text(run.added_nodes) or "as they are",
        "error": ("It has no result." if record is None else record["error"]) if failed else None,
        "gpus": figures.get("total_gpus"),
        "utilisation_pct": figures.get("utilisation_pct"),
        "skipped": skipped,
        **{name: figures[name] for name in TOLD_APART if name in figures},
    }


def _copied(plan: SweepPlan, identity: str, folder: Path, number: int) -> pd.DataFrame:
    for name in (WAITS, USAGE):
        uri = kept_table(f"{plan.kept_uri}/{identity}", name)
        data = read_bytes(uri)
        if data is None:
            raise NotFoundError(f"There is no {uri}.", remedy="Simulate the sweep again.")
        replace_file(folder / f"{number}-{name}.parquet", data, mode=_MODE)
    return completed_gpu_jobs(pd.read_parquet(folder / f"{number}-{WAITS}.parquet"))


def variant_names(runs: Sequence[SweepRun]) -> list[str]:
    """Return a name for each run, no two alike: its policy and nodes; all of it where those are alike."""
    short = [
        f"{run.policy}, nodes {added_nodes_text(run.added_nodes)}" if run.added_nodes else run.policy
        for run in runs
    ]
    return [run.label if short.count(name) > 1 else name for name, run in zip(short, runs, strict=True)]


def grade_of_what_if(site: Site, fields: Mapping[str, Any]) -> WaitGrade:
    """Grade the days of a form's `start` and `end`; where that cannot be done, the grade says why."""
    try:
        start, end = (read_time(fields.get(name) or None) for name in ("start", "end"))
        return grade_cluster(site, start, end)
    except (BadInputError, NotFoundError) as error:
        return not_graded(str(error))
