"""What an operator sees when the input is bad: one clear line, or a quarantined row; never a traceback."""

import gzip
from pathlib import Path

import pytest

HEADER = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
)
GOOD = "1,u1,vc1,train_a,1,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 00:01:10,60,10\n"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def ingest(lucid, path: Path, source_format: str = "helios"):
    return lucid(
        "ingest", "--format", source_format, "--input", path, "--cluster", "c", "--lake", "lake", "--json"
    )


def assert_clear_error(said, *words: str) -> None:
    assert said.code == 1
    assert said.out == ""
    lines = said.err.strip().splitlines()
    assert lines[-1].startswith("Error: ")
    assert "Traceback" not in said.err
    assert "unexpected" not in lines[-1]
    for word in words:
        assert word in lines[-1]


def test_a_missing_file_is_named(lucid):
    assert_clear_error(ingest(lucid, Path("nowhere.csv")), "nowhere.csv")


def test_an_unknown_format_lists_the_known_ones(lucid, tmp_path):
    said = ingest(lucid, write(tmp_path / "log.csv", HEADER + GOOD), "heliso")
    assert_clear_error(said, "heliso", "helios", "philly-csv", "sacct")


def test_an_empty_file_is_an_error(lucid, tmp_path):
    assert_clear_error(ingest(lucid, write(tmp_path / "empty.csv", "")), "empty.csv")


def test_a_truncated_gzip_is_an_error_and_leaves_no_rows(lucid, tmp_path):
    whole = gzip.compress((HEADER + GOOD * 5000).encode())
    path = write(tmp_path / "cut.csv.gz", whole[: len(whole) // 2])
    assert_clear_error(ingest(lucid, path), "cut.csv.gz")
    assert not list((tmp_path / "lake").rglob("*.parquet"))


def test_a_wrong_delimiter_is_an_error(lucid, tmp_path):
    path = write(tmp_path / "semicolons.csv", (HEADER + GOOD).replace(",", ";"))
    assert_clear_error(ingest(lucid, path), "semicolons.csv")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (GOOD.replace("2020-04-01 00:01:10,60", "2020-03-31 23:59:10,-60"), None),
        (GOOD.replace("2020-04-01 00:00:00", ""), "missing_submit_time"),
        (GOOD.replace("COMPLETED", "EXPLODED"), "unknown_state"),
        (GOOD.replace(",1,4,1,", ",-1,4,1,"), None),
        (GOOD.replace(",1,4,1,", ",1e12,4,1,"), None),
        (GOOD.replace(",1,4,1,", ",nan,4,1,"), None),
    ],
    ids=[
        "negative time",
        "missing time",
        "unknown state",
        "negative GPUs",
        "absurd GPUs",
        "GPUs not a number",
    ],
)
def test_a_bad_row_is_quarantined_with_a_reason(lucid, tmp_path, row, reason):
    path = write(tmp_path / "log.csv", HEADER + GOOD + row.replace("1,u1", "2,u1", 1))
    said = ingest(lucid, path)
    assert said.code == 0, said.err
    report = said.json
    assert (report["rows_in"], report["rows_kept"], report["rows_quarantined"]) == (2, 1, 1)
    assert sum(report["reasons"].values()) == 1
    if reason is not None:
        assert report["reasons"] == {reason: 1}


def test_a_name_that_is_not_utf8_loses_no_row(lucid, tmp_path):
    path = write(
        tmp_path / "log.csv",
        (HEADER + GOOD).encode() + GOOD.replace("1,u1", "2,u1", 1).encode().replace(b"train_a", b"tr\xe4in"),
    )
    report = ingest(lucid, path).json
    assert report["rows_in"] == 2
    assert report["rows_kept"] + report["rows_quarantined"] == 2


def test_duplicate_ids_are_accounted_for(lucid, tmp_path):
    conflicting = GOOD.replace("COMPLETED", "FAILED")
    report = ingest(lucid, write(tmp_path / "log.csv", HEADER + GOOD + GOOD + conflicting)).json
    assert report["rows_in"] == 3
    assert report["rows_in"] == report["rows_kept"] + report["rows_quarantined"] + report["rows_skipped"]
    assert report["rows_kept"] < 3


def test_a_job_bigger_than_its_virtual_cluster_is_said(lucid, tmp_path):
    big = GOOD.replace(",1,4,1,", ",64,4,8,").replace("1,u1", "2,u1", 1)
    jobs = write(tmp_path / "log.csv", HEADER + GOOD + big)
    nodes = write(tmp_path / "nodes.csv", "virtual_cluster,nodes\nvc1,2\n")
    said = lucid(
        "simulate",
        "--jobs",
        jobs,
        "--format",
        "helios",
        "--nodes",
        nodes,
        "--policy",
        "fifo",
        "--out",
        "out",
        "--json",
    )
    assert said.code == 0, said.err
    assert said.json[0]["jobs"] == 1
    assert "bigger" in said.err or "larger" in said.err


def test_an_unknown_policy_lists_the_known_ones(lucid, tmp_path):
    jobs = write(tmp_path / "log.csv", HEADER + GOOD)
    said = lucid(
        "simulate", "--jobs", jobs, "--format", "helios", "--gpus", 8, "--policy", "fiffo", "--out", "out"
    )
    assert_clear_error(said, "fiffo", "fifo", "tiresias")


def test_a_queue_with_nan_names_row_and_column(lucid, tmp_path):
    queue = write(
        tmp_path / "queue.csv", "job_id,user,virtual_cluster,name,gpus\n1,u,vc,train,1\n2,u,vc,train,NaN\n"
    )
    said = lucid("live", "rank", "--queue", queue, "--tracking-uri", "http://127.0.0.1:9")
    assert_clear_error(said, "queue.csv", "gpus")


def test_a_date_that_is_none_is_named(lucid, tmp_path):
    jobs = write(tmp_path / "log.csv", HEADER + GOOD)
    said = lucid(
        "simulate",
        "--jobs",
        jobs,
        "--format",
        "helios",
        "--gpus",
        8,
        "--policy",
        "fifo",
        "--out",
        "out",
        "--start",
        "yesterday",
    )
    assert_clear_error(said, "--start", "yesterday")


def test_debug_shows_the_traceback(lucid):
    with pytest.raises(Exception, match=r"nowhere\.csv"):
        lucid(
            "--debug",
            "ingest",
            "--format",
            "helios",
            "--input",
            "nowhere.csv",
            "--cluster",
            "c",
            "--lake",
            "lake",
        )
