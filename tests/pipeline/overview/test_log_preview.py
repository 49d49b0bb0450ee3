"""A log as it would be read, before anything is written: every format, and what is no log."""

import gzip
import os
from pathlib import Path

import pytest

from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.base import load_reader
from cluster_logs.readers.registry import CLUSTER_LOGS, OTHER_LOGS
from foundation.errors import BadInputError, NotFoundError
from pipeline.overview import log_preview
from pipeline.overview.log_preview import preview_log
from tests.cluster_logs.sample_logs import SAMPLES

JOB_SAMPLES = [name for name in (*CLUSTER_LOGS, *OTHER_LOGS) if name in SAMPLES]
OTHER_SAMPLES = [name for name in SAMPLES if load_reader(name).table != "jobs"]
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", JOB_SAMPLES)
def test_the_account_is_that_of_the_ingest(name: str) -> None:
    sample = str(SAMPLES[name])
    seen = preview_log(sample, source_format=name, cluster="venus")
    _, account = read_jobs_file(sample, name, cluster="venus", max_bad_share=1)
    assert seen.read is not None
    assert seen.read.whole
    assert (seen.read.rows_in, seen.read.kept) == (account.rows_in, account.rows_kept)
    assert {each.reason: each.rows for each in seen.read.reasons} == account.reasons
    assert (seen.read.first_submit, seen.read.last_submit) == (account.first_submit, account.last_submit)
    assert sum(size.jobs for size in seen.read.sizes) == account.rows_kept
    by_themselves = [each for each in seen.read.reasons if each.reason != "duplicate_conflict"]
    assert all(each.samples for each in by_themselves if each.quarantined)
    assert all(len(row) == len(seen.read.columns) for row in seen.read.rows)


@pytest.mark.parametrize("name", OTHER_SAMPLES)
def test_a_table_without_jobs_says_where_it_belongs(name: str) -> None:
    seen = preview_log(str(SAMPLES[name]), source_format=name)
    assert seen.problem is not None
    assert "holds no jobs" in seen.problem


def test_it_says_which_values_would_be_unknown(tmp_path: Path) -> None:
    text = "job_id,submit_time,gpus,time_limit_s\n1,2026-07-01,4,soon\n2,2026-07-01,4,60\n"
    seen = preview_log(written(tmp_path / "jobs.csv", text), source_format="jobs-csv")
    assert seen.read is not None
    assert (seen.read.kept, seen.read.reasons) == (2, [])
    (remark,) = seen.read.remarks
    assert remark.endswith("1 of time limit.")


def test_the_likeliest_format_is_chosen_and_how_sure_that_is_said(tmp_path: Path) -> None:
    place = written(tmp_path / "log.csv", PHILLY + "2017-09-04 00:00:00,60,8,480,vc1\n" * 1)
    seen = preview_log(place)
    assert (seen.format, seen.problem) == ("philly-csv", None)
    assert seen.certainty == "All of the first rows can be read as philly-csv; no other format fits."
    assert seen.columns == ["timestamp", "duration", "num_gpus", "gpu_time", "cluster"]
    assert seen.read is not None
    assert [(size.virtual_cluster, size.largest_job_gpus) for size in seen.read.sizes] == [("vc1", 8)]
    chosen = preview_log(place, source_format="helios")
    assert chosen.problem is not None
    assert "has no column 'job_id'" in chosen.problem
    assert chosen.certainty.endswith("You chose helios.")


def test_a_file_of_no_known_format_is_shown_by_its_columns(tmp_path: Path) -> None:
    seen = preview_log(written(tmp_path / "log.csv", "when;who;<b>cards</b>\n1;2;3\n"))
    assert (seen.format, seen.read, seen.certainty) == (None, None, "No format fits.")
    assert seen.columns == ["when", "who", "<b>cards</b>"]
    garbage = tmp_path / "garbage"
    garbage.write_bytes(os.urandom(4_000).replace(b"\n", b"\xff"))
    assert "no text" in str(preview_log(str(garbage)).problem)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04zip", "a ZIP archive"),
        (gzip.compress(b"", mtime=0)[:12], "truncated"),
    ],
    ids=["empty", "zip", "truncated gzip"],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=words):
        preview_log(str(path))


def test_a_folder_and_a_file_that_is_not_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="a folder"):
        preview_log(str(tmp_path))
    with pytest.raises(NotFoundError):
        preview_log(str(tmp_path / "nowhere.csv"))


def test_of_a_large_file_the_first_part_is_read_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_preview, "MOST_BYTES", 300 * 1024)
    rows = "".join(f"2017-09-04 00:00:{i % 60:02},60,1,60,vc{i % 3}\n" for i in range(40_000))
    bomb = tmp_path / "log.csv.gz"
    bomb.write_bytes(gzip.compress((PHILLY + rows).encode()))
    read = preview_log(str(bomb)).read
    assert read is not None
    assert not read.whole
    assert 5_000 < read.rows_in < 20_000
    small = written(tmp_path / "small.csv", PHILLY + rows[:2_000])
    read = preview_log(small).read
    assert read is not None
    assert read.whole


def test_too_many_bad_rows_are_said_before_the_ingest_refuses_them(tmp_path: Path) -> None:
    rows = "2017-09-04 00:00:00,60,8,480,vc1\n" * 60 + "2017-09-04 00:00:00,soon,8,480,=cmd()\n" * 140
    read = preview_log(written(tmp_path / "log.csv", PHILLY + rows), source_format="philly-csv").read
    assert read is not None
    assert read.too_many_bad is not None
    assert "140 of 200 rows" in read.too_many_bad
    assert read.reasons[0].samples[0].text.endswith("=cmd()")


def test_a_log_that_names_its_size_says_it(tmp_path: Path) -> None:
    header = "; MaxNodes: 4\n"
    read = preview_log(written(tmp_path / "log.swf", header + SAMPLES["swf"].read_text())).read
    assert read is not None
    assert read.stated is not None
    assert read.stated.nodes == 4


def test_machines_of_partitions_that_share_them_are_counted_once(tmp_path: Path) -> None:
    times = "2020-04-01 00:00:00|" * 2 + "2020-04-01 01:00:00"
    rows = [f"{part}|{part}|COMPLETED|{times}|gres/gpu=8|gpu[1-2]\n" for part in ("day", "night")]
    log = "JobID|Partition|State|Submit|Start|End|AllocTRES|NodeList\n" + "".join(rows)
    read = preview_log(written(tmp_path / "sacct.txt", log)).read
    assert read is not None
    assert [(size.machines, size.least.machines, size.least.gpus_per_node) for size in read.sizes] == [
        (2, 1, 4),
        (2, 1, 4),
    ]
    assert read.shared_machines.startswith("2 of 2 machines are named by jobs of several virtual clusters")


def test_an_accounting_of_several_clusters_asks_for_the_name_of_one() -> None:
    assert preview_log(str(SAMPLES["sacct"])).problem is None
    seen = preview_log(str(SAMPLES["sacct"]), cluster="pluto")
    assert "Choose one of: mars, venus" in str(seen.problem)


def test_two_formats_with_the_same_columns_are_left_to_the_person(tmp_path: Path) -> None:
    helios = SAMPLES["acme-seren"].read_text()
    seen = preview_log(written(tmp_path / "log.csv", helios))
    assert {"acme-seren", "acme-kalos"} <= {guess.name for guess in seen.guesses}
    assert "choose between them" in seen.certainty
