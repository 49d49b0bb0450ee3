"""Check tables against their expectations: failing rows to quarantine, a failing table stops the run.

Which of the two a failed expectation means is its severity: `warning` for rows, `critical` for tables. A
table that fails keeps all its rows, so that nothing is moved on the word of a table that is wrong as a whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from cluster_logs.day_tables import day_tables
from cluster_logs.expectations.job_suites import CAPACITY_COLUMN, JOBS, NODE_STATES, THROUGHPUT
from cluster_logs.expectations.model_suites import (
    DURATION_PREDICTIONS,
    JOB_METRICS,
    PAIR_PROFILES,
    SHARING_SCORES,
    SOLO_PROFILES,
    THROUGHPUT_PREDICTIONS,
)
from cluster_logs.expectations.running import CheckResult, run_suite
from cluster_logs.expectations.suite import Severity, Suite
from cluster_logs.lake import Lake
from cluster_logs.node_table import nodes_of_each
from foundation.errors import NotFoundError, UnknownNameError, ValidationFailedError
from foundation.storage import locate, make_folder

SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        JOBS,
        THROUGHPUT,
        NODE_STATES,
        SOLO_PROFILES,
        PAIR_PROFILES,
        JOB_METRICS,
        DURATION_PREDICTIONS,
        THROUGHPUT_PREDICTIONS,
        SHARING_SCORES,
    )
}

# What the lake's tables are known by, the columns that identify a row, and the column of its time.
_KEYS = {"jobs": ["job_id", "submit_time"], "throughput": ["bin_start"]}
_TIMES = {"jobs": "submit_time", "throughput": "bin_start"}
# Rows of the lake that were refused here carry this as their source format.
ORIGIN = "validation"


def all_suites() -> dict[str, Suite]:
    """Return every suite by its name, those of parts' tables with them."""
    return {**SUITES, **{name: table.suite for name, table in day_tables().items()}}


def find_suite(name: str) -> Suite:
    """Return the suite called `name`; raise UnknownNameError when there is none."""
    suites = all_suites()
    if name not in suites:
        raise UnknownNameError("suite of expectations", name, suites)
    return suites[name]


@dataclass(frozen=True)
class ValidationReport:
    """How tables came out.

    `expectations` has one entry an expectation: suite, name, expectation, columns, severity, success,
    observed. `docs` is the path of the Data Docs' index page. `rows` = rows kept + the sum of `quarantined`.
    `failing` lists the failing rows of `validate_table`: position in the frame and the first expectation that
    it failed.
    """

    success: bool
    expectations: tuple[dict[str, Any], ...]
    docs: str | None
    rows: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    failing: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame({"position": [], "expectation": []}), repr=False, compare=False
    )

    @property
    def failed(self) -> tuple[str, ...]:
        """Return the names `suite.expectation` of what stops the run."""
        return tuple(
            f"{entry['suite']}.{entry['name']}"
            for entry in self.expectations
            if not entry["success"] and entry["severity"] == Severity.CRITICAL
        )

    def raise_for_failure(self) -> None:
        """Raise ValidationFailedError with the names of the failed expectations, if any stops the run."""
        if self.success:
            return
        sentences = [
            f"{entry['suite']}.{entry['name']} ({entry['observed']})"
            for entry in self.expectations
            if not entry["success"] and entry["severity"] == Severity.CRITICAL
        ]
        raise ValidationFailedError(
            f"{len(sentences)} expectations failed: {'; '.join(sentences)}.",
            remedy=f"See {self.docs}." if self.docs else "Look at the table.",
        )


def validate_lake(
    *,
    lake_uri: str,
    cluster: str,
    tables: Sequence[str] = ("jobs", "throughput"),
    docs_dir: Path | None = None,
    wait_s: float | None = None,
) -> ValidationReport:
    """Check a cluster's tables in the lake and move failing rows to quarantine, the expectation as the
    reason.

    Data Docs are built under `docs_dir` (default: `validation/cluster=C` in a local lake, else in the working
    directory's `.lucid`). Raises NotFoundError when the lake has nothing of the cluster, and nothing on
    failure: see `raise_for_failure`. The same lake twice gives the same lake. HalfWrittenError: an ingest did
    not end; ClusterBusyError: another writer is at it for longer than `wait_s` (default: ten minutes).
    """
    unknown = [table for table in tables if table not in _KEYS]
    if unknown:
        raise UnknownNameError("table to validate", unknown[0], _KEYS)
    lake = Lake(lake_uri, wait_s=wait_s)
    folder = docs_dir or _default_docs(lake_uri, cluster)
    results: list[CheckResult] = []
    index: Path | None = None
    rows = 0
    quarantined: dict[str, int] = {}
    for table in dict.fromkeys(tables):
        suite = find_suite(table)
        if not lake.dates(cluster, table):
            _read(lake, cluster, table, suite)  # raises, and leaves no folder of a cluster that is not there
        # No other writer may change the rows between the check and the move.
        with lake.writing(cluster, f"validation of {table}", (table, "quarantine")):
            frame = _read(lake, cluster, table, suite)
            if docs_dir is None:
                make_folder(folder)
            checked, index = run_suite(frame, suite, subject=f"{cluster}-{table}", docs_dir=folder)
            results += checked
            rows += len(frame)
            if _stops(checked):
                continue
            failing = _failing_rows(checked)
            _quarantine(lake, cluster, table, frame, failing)
            for name, count in failing["expectation"].value_counts(sort=False).items():
                quarantined[str(name)] = quarantined.get(str(name), 0) + int(count)
    return ValidationReport(
        success=not _stops(results),
        expectations=tuple(_entry(result) for result in results),
        docs=str(index) if index else None,
        rows=rows,
        quarantined=quarantined,
    )


def validate_table(frame: pd.DataFrame, suite_name: str, docs_dir: Path | None = None) -> ValidationReport:
    """Check one table that is not in the lake: profiles before training, predictions before publication.

    Suites: `SUITES` in `expectations.catalogue`. Without `docs_dir` no pages are built. Nothing is moved:
    failing rows are listed in the report, for the caller to leave out.
    """
    suite = find_suite(suite_name)
    results, index = run_suite(frame, suite, subject=suite_name, docs_dir=docs_dir)
    return ValidationReport(
        success=not _stops(results),
        expectations=tuple(_entry(result) for result in results),
        docs=str(index) if index else None,
        rows=len(frame),
        failing=_failing_rows(results),
    )


def _stops(results: Sequence[CheckResult]) -> bool:
    return any(not result.success and result.severity is Severity.CRITICAL for result in results)


def _entry(result: CheckResult) -> dict[str, Any]:
    return {
        "suite": result.suite,
        "name": result.name,
        "expectation": result.expectation,
        "columns": ", ".join(result.columns),
        "severity": result.severity.value,
        "success": result.success,
        "observed": result.observed,
    }


def _failing_rows(results: Sequence[CheckResult]) -> pd.DataFrame:
    """Return position, expectation and column of each failing row, once: under the first that it failed."""
    first: dict[int, tuple[str, str]] = {}
    for result in results:
        column = next((name for name in result.columns if name != CAPACITY_COLUMN), "")
        for position in result.failing:
            first.setdefault(position, (result.name, column))
    positions = sorted(first)
    return pd.DataFrame(
        {
            "position": pd.Series(positions, dtype="int64"),
            "expectation": pd.Series([first[position][0] for position in positions], dtype="str"),
            "column": pd.Series([first[position][1] for position in positions], dtype="str"),
        }
    )


def _default_docs(lake_uri: str, cluster: str) -> Path:
    fs, root = locate(lake_uri)
    base = Path(root) if fs.type_name == "local" else Path(".lucid")
    return base / "validation" / f"cluster={cluster}"


def _read(lake: Lake, cluster: str, table: str, suite: Suite) -> pd.DataFrame:
    """Return the columns that the suite reads; for jobs also the GPUs that their virtual cluster has."""
    if table == "throughput":
        return lake.read_throughput(cluster)
    wanted = dict.fromkeys([*suite.required, *(column for check in suite.checks for column in check.columns)])
    wanted.pop(CAPACITY_COLUMN)
    jobs = lake.read_jobs(cluster, columns=list(wanted))
    capacity = _largest_capacity(lake, cluster)
    if capacity is not None:
        jobs[CAPACITY_COLUMN] = jobs["virtual_cluster"].map(capacity).astype("float64")
    return jobs


def _largest_capacity(lake: Lake, cluster: str) -> pd.Series | None:
    """Return the most GPUs that each virtual cluster had on any day of the log; None when nodes are
    unknown.
    """
    try:
        capacities = [lake.read_nodes(cluster)]
    except NotFoundError:
        return None
    capacities += [lake.read_nodes(cluster, day) for day in lake.dates(cluster)]
    every = pd.concat([nodes_of_each(nodes)["gpus"] for nodes in capacities])
    gpus: pd.Series = every.groupby(level=0).max()
    return gpus


def _quarantine(lake: Lake, cluster: str, table: str, frame: pd.DataFrame, failing: pd.DataFrame) -> None:
    """Move failing rows; they are in quarantine before they leave the table, so none is lost on the way."""
    if failing.empty:
        return
    keys, time = _KEYS[table], _TIMES[table]
    failing_rows = frame.iloc[failing["position"]][keys].reset_index(drop=True).join(failing)
    days = failing_rows[time].dt.floor("D")
    parts = []
    for day in days.drop_duplicates():
        read = lake.read_jobs if table == "jobs" else lake.read_throughput
        whole = read(cluster, day, day + pd.Timedelta(days=1))
        parts.append(failing_rows[days == day].merge(whole, on=keys, how="inner", validate="one_to_one"))
    full = pd.concat(parts, ignore_index=True)
    columns = [column for column in full.columns if column not in ("position", "expectation", "column")]
    shown = full[columns].astype(object)
    texts = (
        full[columns].to_json(orient="records", lines=True, date_format="iso", date_unit="us").splitlines()
    )
    no_file = pd.Series(f"{cluster}-{table}", index=full.index)
    no_row = pd.Series(range(1, len(full) + 1), index=full.index)
    lake.add_quarantine(
        cluster,
        f"{ORIGIN}-{table}",
        pd.DataFrame(
            {
                "reason": full["expectation"],
                "column": full["column"],
                "value": [
                    str(shown.at[row, column]) if column in shown else None
                    for row, column in full["column"].items()
                ],
                "source_format": ORIGIN,
                "source_file": full.get("source_file", no_file),
                "source_row": full.get("source_row", no_row).astype("int64"),
                "raw_row": texts,
            }
        ),
    )
    if table == "jobs":
        lake.delete_jobs(cluster, full[keys])
    else:
        lake.delete_throughput(cluster, full[keys])
