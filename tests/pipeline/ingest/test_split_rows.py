"""Names and comments of accounting that hold sacct's separator: the ingest says how such rows are saved."""

from pathlib import Path
from typing import Any

from cluster_logs.slurm_words import EXPORT_COMMAND
from pipeline.ingest.ingestion import ClusterLog, ingest_cluster

FIELDS = ("JobIDRaw", "JobName", "State", "Submit", "Start", "End", "ReqTRES", "AllocTRES", "Comment")
TIMES = ("2026-04-01T00:00:00", "2026-04-01T00:10:00", "2026-04-01T01:00:00")
TRES = ("gres/gpu=1", "gres/gpu=1")
ROWS = (
    FIELDS,
    ("1", "train, resnet", "COMPLETED", *TIMES, *TRES, ""),
    ("2", "fit|eval", "COMPLETED", *TIMES, *TRES, ""),
    ("3", "=1+1", "COMPLETED", *TIMES, *TRES, "see a|b"),
)


def ingest(folder: Path, separator: str) -> dict[str, Any]:
    log = folder / "sacct.txt"
    log.write_text("".join(f"{separator.join(row)}\n" for row in ROWS))
    nodes = folder / "nodes.csv"
    nodes.write_text("virtual_cluster,nodes\ndefault,1\n")
    return ingest_cluster(
        ClusterLog("sacct", str(log), str(nodes)), cluster="mine", lake_uri=str(folder / "lake")
    )


def test_rows_that_hold_the_separator_are_named_with_what_saves_them(tmp_path: Path) -> None:
    report = ingest(tmp_path, "|")
    assert (report["rows_kept"], report["reasons"]) == (1, {"wrong_column_count": 2})
    (remark,) = report["remarks"]
    assert remark.startswith("2 rows have more or fewer columns than the header")
    assert EXPORT_COMMAND in remark


def test_so_exported_all_rows_are_kept(tmp_path: Path) -> None:
    report = ingest(tmp_path, "\x1f")
    assert (report["rows_kept"], report["reasons"], report["remarks"]) == (3, {}, [])
