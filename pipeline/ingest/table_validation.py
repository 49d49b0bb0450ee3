"""Validate one table of a cluster, wherever it lives: what the DAG `ingest_logs` maps its validations to."""

from functools import partial
from pathlib import Path

import pandas as pd

from cluster_logs.day_tables import day_tables
from cluster_logs.lake import Lake
from cluster_logs.validation import ORIGIN, ValidationReport, validate_lake, validate_table
from foundation.site import Site
from pipeline.profiling.profile_store import PROFILES, read_profile_set, write_profile_set
from profiler_jobs.profile_table import ProfileSet

METRICS = "metrics"
NODE_STATES = "node_states"


def check_table(*, table: str, lake_uri: str, cluster: str, docs_dir: Path) -> ValidationReport:
    """Check `jobs`, `throughput`, `profiles`, `metrics`, `node_states` or a table of a part.

    Failing rows go to quarantine, unless the table fails as a whole. Metrics, counts of nodes and tables of
    parts, which not every cluster has, are only looked at: rows are checked where they are made.

    Raises UnknownNameError for another table, NotFoundError when the lake lacks it; nothing on failure (see
    `ValidationReport.raise_for_failure`).
    """
    if table in (METRICS, NODE_STATES) or table in day_tables():
        lake = Lake(lake_uri)
        if table == METRICS:
            suite, rows = "job_metrics", lake.read_job_metrics(cluster)
        else:
            read = lake.read_node_states if table == NODE_STATES else partial(lake.read_series, table)
            suite, rows = table, read(cluster) if lake.dates(cluster, table) else pd.DataFrame()
        if rows.empty:
            return ValidationReport(success=True, expectations=(), docs=None, rows=0)
        return validate_table(rows, suite, docs_dir)
    if table != PROFILES:
        return validate_lake(lake_uri=lake_uri, cluster=cluster, tables=(table,), docs_dir=docs_dir)
    lake = Lake(lake_uri)
    # No other writer may change the profiles between the check and the move.
    with lake.writing(cluster, f"validation of {PROFILES}", (PROFILES, "quarantine")):
        return _check_profiles(lake, cluster, docs_dir)


def _check_profiles(lake: Lake, cluster: str, docs_dir: Path) -> ValidationReport:
    profiles = read_profile_set(Site(lake=lake.uri, cluster=cluster))
    solo = validate_table(profiles.solo, "solo_profiles", docs_dir / "solo")
    pairs = validate_table(profiles.pairs, "pair_profiles", docs_dir / "pairs")
    success = solo.success and pairs.success
    quarantined: dict[str, int] = {}
    if success and (len(solo.failing) or len(pairs.failing)):
        kept = {}
        for name, frame, report in (("solo", profiles.solo, solo), ("pairs", profiles.pairs, pairs)):
            kept[name] = _set_aside(lake, cluster, name, frame, report.failing)
            for expectation in report.failing["expectation"]:
                quarantined[str(expectation)] = quarantined.get(str(expectation), 0) + 1
        passed = ProfileSet(kept["solo"], kept["pairs"], out_of_memory=profiles.out_of_memory)
        write_profile_set(Site(lake=lake.uri, cluster=cluster), passed)
    return ValidationReport(
        success=success,
        expectations=solo.expectations + pairs.expectations,
        docs=pairs.docs if solo.success else solo.docs,
        rows=solo.rows + pairs.rows,
        quarantined=quarantined,
    )


def _set_aside(
    lake: Lake, cluster: str, name: str, frame: pd.DataFrame, failing: pd.DataFrame
) -> pd.DataFrame:
    """Put failing rows into quarantine and return the rest."""
    if failing.empty:
        return frame
    positions = failing["position"].to_numpy()
    rows = frame.iloc[positions]
    lake.add_quarantine(
        cluster,
        f"{ORIGIN}-{name}-profiles",
        pd.DataFrame(
            {
                "reason": failing["expectation"].to_numpy(),
                "column": failing["column"].to_numpy(),
                "value": [
                    str(frame.iloc[at][column])
                    for at, column in zip(positions, failing["column"], strict=True)
                ],
                "source_format": ORIGIN,
                "source_file": f"{name}.parquet",
                "source_row": positions + 1,
                "raw_row": rows.to_json(orient="records", lines=True).splitlines(),
            }
        ),
    )
    return frame.drop(frame.index[positions]).reset_index(drop=True)
