"""Ingest as a whole: accounts, windows, memory, and the real logs."""

import gzip
import random
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs import ingest_account
from cluster_logs.ingest import IngestReport, IngestSettings, ingest_log, read_jobs_file, read_throughput_file
from cluster_logs.lake import Lake
from cluster_logs.quarantine import REASONS, SKIP_RULES, Accounting
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.readers.source import TextSource
from foundation.errors import BadInputError, BadRow, LucidError, TooManyBadRowsError
from tests.evidence import Evidence
from tests.reference import ROOT

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"


def helios_row(number: int, *, state: str = "COMPLETED", gpus: int = 1) -> str:
    submit = pd.Timestamp("2020-04-01") + pd.Timedelta(minutes=37 * number)
    start, end = submit + pd.Timedelta(seconds=30), submit + pd.Timedelta(minutes=61)
    if state == "RUNNING":
        return f"{number},u{number % 7},vc{number % 3},{gpus},4,1,{state},{submit},{start},,,30"
    return f"{number},u{number % 7},vc{number % 3},{gpus},4,1,{state},{submit},{start},{end},3630,30"


def write_log(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def ingest(path: Path, lake: Path | str, source_format: str = "helios") -> IngestReport:
    return ingest_log(source_format=source_format, input_uri=str(path), cluster="venus", lake_uri=str(lake))


def test_report_says_what_was_written(tmp_path: Path) -> None:
    report = ingest(
        write_log(tmp_path / "log.csv", [helios_row(1), helios_row(99, gpus=-1)]), tmp_path / "lake"
    )
    root = f"{tmp_path}/lake"
    assert report == IngestReport(
        cluster="venus",
        source_format="helios",
        rows_in=2,
        rows_kept=1,
        rows_quarantined=1,
        rows_skipped=0,
        reasons={"negative_gpus": 1},
        tables=(
            f"{root}/jobs/cluster=venus",
            f"{root}/throughput/cluster=venus",
            f"{root}/quarantine/cluster=venus",
        ),
        first_submit=pd.Timestamp("2020-03-31 16:37", tz="UTC").to_pydatetime(),
        last_submit=pd.Timestamp("2020-03-31 16:37", tz="UTC").to_pydatetime(),
    )


def test_quarantine_can_be_opened_and_shows_the_row(tmp_path: Path) -> None:
    bad = helios_row(99, gpus=-1)
    ingest(write_log(tmp_path / "log.csv", [helios_row(1), bad]), tmp_path / "lake")
    (row,) = Lake(str(tmp_path / "lake")).read_quarantine("venus").to_dict("records")
    assert (row["reason"], row["column"], row["value"]) == ("negative_gpus", "gpu_num", "-1")
    assert (row["source_format"], row["source_file"], row["source_row"]) == ("helios", "log.csv", 2)
    assert row["raw_row"] == bad


def test_a_log_of_bad_rows_writes_nothing_and_says_what_is_wrong_with_them(tmp_path: Path) -> None:
    rows = [helios_row(number, gpus=-1) for number in range(60)]
    rows += [helios_row(number, state="Lost") for number in range(60, 90)]
    path = write_log(tmp_path / "log.csv", [*(helios_row(number) for number in range(100, 180)), *rows])
    with pytest.raises(
        TooManyBadRowsError, match=r"log\.csv, read as helios: 90 of 170 rows cannot"
    ) as caught:
        ingest(path, tmp_path / "lake")
    said = caught.value
    assert (said.judged, said.quarantined) == (170, 90)
    assert list(said.reasons.items()) == [("negative_gpus", 60), ("unknown_state", 30)]
    assert said.example == BadRow(81, "negative_gpus", "gpu_num", "-1", rows[0])
    assert "52.9 %, 50 % allowed" in str(said)
    assert rows[0] in str(said)
    assert "--max-bad-share" in str(said.remedy)
    assert not (tmp_path / "lake").exists()
    asked = {"source_format": "helios", "input_uri": str(path), "cluster": "venus"}
    with pytest.raises(TooManyBadRowsError):
        read_jobs_file(str(path), "helios")
    report = ingest_log(**asked, lake_uri=str(tmp_path / "lake"), settings=IngestSettings(max_bad_share=0.6))
    assert (report.rows_in, report.rows_kept, report.rows_quarantined) == (170, 80, 90)
    with pytest.raises(BadInputError, match="A share of 60"):
        ingest_log(**asked, lake_uri=str(tmp_path / "lake"), settings=IngestSettings(max_bad_share=60))


def test_a_few_rows_are_refused_as_a_whole_only_when_all_are_bad(tmp_path: Path) -> None:
    bad = [helios_row(number, gpus=-1) for number in range(9)]
    assert ingest(write_log(tmp_path / "some.csv", [*bad, helios_row(10)]), tmp_path / "some").rows_kept == 1
    with pytest.raises(TooManyBadRowsError, match="9 of 9 rows cannot be used"):
        ingest(write_log(tmp_path / "none.csv", bad), tmp_path / "none")


def test_rows_outside_the_window_speak_for_the_format(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", [helios_row(1), helios_row(2), helios_row(3, gpus=-1)])
    report = ingest_log(
        source_format="helios",
        input_uri=str(path),
        cluster="venus",
        lake_uri=str(tmp_path / "lake"),
        settings=IngestSettings(start=pd.Timestamp("2021-01-01").to_pydatetime()),
    )
    assert report.reasons == {"negative_gpus": 1, "outside_window": 2}


def test_reading_ends_as_soon_as_it_is_clear_that_the_rows_are_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_account, "ENOUGH_TO_STOP", 200)
    monkeypatch.setattr(TextSource.blocks, "__defaults__", (2_000,))
    path = write_log(tmp_path / "log.csv", [helios_row(number, gpus=-1) for number in range(3_000)])
    with pytest.raises(TooManyBadRowsError, match="rows so far cannot be used") as caught:
        ingest(path, tmp_path / "lake")
    assert 200 <= caught.value.judged < 300
    assert not (tmp_path / "lake").exists()


def test_conflicting_duplicates_show_their_own_text(tmp_path: Path) -> None:
    first, other = helios_row(1, gpus=1), helios_row(1, gpus=2)
    report = ingest(write_log(tmp_path / "log.csv", [first, other, first]), tmp_path / "lake")
    assert report.reasons == {"duplicate_conflict": 1, "exact_duplicate": 1}
    lake = Lake(str(tmp_path / "lake"))
    assert lake.read_jobs("venus")["gpus"].tolist() == [1]
    assert lake.read_quarantine("venus")["raw_row"].tolist() == [other]


def test_windows_in_any_order_give_the_table_of_the_whole(tmp_path: Path) -> None:
    log = [helios_row(number) for number in range(120)]
    ingest(write_log(tmp_path / "log.csv", log), tmp_path / "whole")
    for name, part in (("b", log[40:100]), ("a", log[:60]), ("c", log[90:])):
        ingest(write_log(tmp_path / f"{name}.csv", part), tmp_path / "parts")
    where = ["source_file", "source_row"]
    whole, parts = (Lake(str(tmp_path / name)) for name in ("whole", "parts"))
    pd.testing.assert_frame_equal(
        whole.read_jobs("venus").drop(columns=where), parts.read_jobs("venus").drop(columns=where)
    )
    pd.testing.assert_frame_equal(whole.read_throughput("venus"), parts.read_throughput("venus"))


def test_a_running_job_is_completed_by_a_later_window_and_never_undone(tmp_path: Path) -> None:
    early = write_log(tmp_path / "early.csv", [helios_row(1), helios_row(2, state="RUNNING")])
    late = write_log(tmp_path / "late.csv", [helios_row(2), helios_row(3)])
    for path in (early, late, early):
        ingest(path, tmp_path / "lake")
        jobs = Lake(str(tmp_path / "lake")).read_jobs("venus").set_index("job_id")
    assert jobs["state"].to_dict() == {"1": "COMPLETED", "2": "COMPLETED", "3": "COMPLETED"}
    assert jobs["duration_s"].notna().all()
    throughput = Lake(str(tmp_path / "lake")).read_throughput("venus")
    assert throughput[["submitted_jobs", "started_jobs", "ended_jobs"]].sum().tolist() == [3, 3, 3]


def test_a_log_in_no_order_larger_than_the_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a buffer of a few rows every day is put together from many spool files."""
    rows = [helios_row(number) for number in range(500)]
    random.Random(1).shuffle(rows)
    path = write_log(tmp_path / "log.csv", rows)
    ingest(path, tmp_path / "one")
    monkeypatch.setattr(ingest_account, "FLUSH_BYTES", 4_000)
    monkeypatch.setattr(TextSource.blocks, "__defaults__", (2_000,))
    report = ingest(path, tmp_path / "many")
    assert (report.rows_in, report.rows_kept) == (500, 500)
    one, many = (Lake(str(tmp_path / name)).read_jobs("venus") for name in ("one", "many"))
    pd.testing.assert_frame_equal(one, many)


def test_from_and_to_uris(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", [helios_row(1)])
    lake = f"memory://ingest-{tmp_path.name}"
    report = ingest_log(source_format="helios", input_uri=path.as_uri(), cluster="venus", lake_uri=lake)
    assert report.tables[0] == f"{lake}/jobs/cluster=venus"
    assert Lake(lake).read_jobs("venus")["source_file"].tolist() == ["log.csv"]


def test_a_lake_is_a_source_for_another_lake(tmp_path: Path) -> None:
    ingest(write_log(tmp_path / "log.csv", [helios_row(number) for number in range(80)]), tmp_path / "a")
    report = ingest(tmp_path / "a", tmp_path / "b", "lake")
    assert report.rows_kept == 80
    one, other = (Lake(str(tmp_path / name)).read_jobs("venus") for name in ("a", "b"))
    pd.testing.assert_frame_equal(one, other)


def test_a_header_alone_is_an_empty_window(tmp_path: Path) -> None:
    report = ingest(write_log(tmp_path / "log.csv", []), tmp_path / "lake")
    assert (report.rows_in, report.tables, report.first_submit) == (0, (), None)


def test_a_truncated_gzip_leaves_a_filled_lake_as_it_was(tmp_path: Path) -> None:
    ingest(write_log(tmp_path / "log.csv", [helios_row(1)]), tmp_path / "lake")
    before = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    text = "\n".join([HEADER, *(helios_row(number) for number in range(5_000))])
    (tmp_path / "next.csv.gz").write_bytes(gzip.compress(text.encode())[:-2_000])
    with pytest.raises(BadInputError, match=r"next\.csv\.gz.*truncated or damaged"):
        ingest(tmp_path / "next.csv.gz", tmp_path / "lake")
    assert {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()} == before


def test_a_reader_that_loses_a_row_is_caught_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "log.csv", [helios_row(number) for number in range(3)])
    monkeypatch.setattr(
        ingest_account.DaySpool, "append", _append_all_but_one(ingest_account.DaySpool.append)
    )
    with pytest.raises(LucidError, match=r"3 rows went in, but 2 kept \+ 0 quarantined \+ 0 skipped = 2"):
        ingest(path, tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def _append_all_but_one(append):  # type: ignore[no-untyped-def]
    return lambda self, rows: append(self, rows.slice(1))


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None, str]] = []
    path = write_log(tmp_path / "log.csv", [helios_row(1)])
    ingest_log(
        source_format="helios",
        input_uri=str(path),
        cluster="venus",
        lake_uri=str(tmp_path / "lake"),
        progress=lambda done, total, what: seen.append((done, total, what)),
    )
    assert seen[0] == (path.stat().st_size, path.stat().st_size, "reading log.csv")
    assert "writing jobs of 2020-03-31" in {what for _, _, what in seen}


def test_published_throughput_is_not_overwritten_by_jobs(tmp_path: Path) -> None:
    published = tmp_path / "cluster_throughput.csv"
    names = [f"{e}_{w}" for w in ("job_all", "gpu_job", "gpu_num") for e in ("submit", "start", "end")]
    published.write_text(f"time,{','.join(names)}\n2020-04-01 00:30:00{',7' * 9}\n")
    ingest(published, tmp_path / "lake", "helios-throughput")
    ingest(write_log(tmp_path / "log.csv", [helios_row(0), helios_row(100)]), tmp_path / "lake")
    throughput = Lake(str(tmp_path / "lake")).read_throughput("venus")
    first_day = throughput[throughput["bin_start"] < pd.Timestamp("2020-04-01", tz="UTC")]
    assert first_day["submitted_jobs"].tolist() == [7]
    assert set(throughput["origin"]) == {"published", "derived"}


def test_bins_have_the_length_that_was_asked_for(tmp_path: Path) -> None:
    asked = {
        "source_format": "helios",
        "input_uri": str(write_log(tmp_path / "log.csv", [helios_row(number) for number in range(9)])),
        "cluster": "venus",
        "lake_uri": str(tmp_path / "lake"),
    }
    for bin_s in (600, 3_600):
        ingest_log(**asked, settings=IngestSettings(bin_s=bin_s))
        bins = Lake(str(tmp_path / "lake")).read_throughput("venus")
        assert set(bins["bin_s"]) == {bin_s}
        assert set(bins["bin_start"].diff().dropna().dt.total_seconds()) == {bin_s}
        assert bins["submitted_jobs"].sum() == 9
    with pytest.raises(BadInputError, match="A bin of 7000 s does not divide a day"):
        ingest_log(**asked, settings=IngestSettings(bin_s=7_000))


def test_doubled_bins_are_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = [f"{e}_{w}" for w in ("job_all", "gpu_job", "gpu_num") for e in ("submit", "start", "end")]
    path.write_text(f"time,{','.join(names)}\n" + f"2020-04-01 00:30:00{',7' * 9}\n" * 2)
    with pytest.raises(BadInputError, match="two rows for 2020-03-31 16:30"):
        ingest(path, tmp_path / "lake", "helios-throughput")


def test_reading_a_file_without_a_lake_gives_the_same_jobs(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", [helios_row(number) for number in (3, 1, 2, 2)])
    ingest(path, tmp_path / "lake")
    jobs, report = read_jobs_file(str(path), "helios", cluster="venus")
    pd.testing.assert_frame_equal(jobs, Lake(str(tmp_path / "lake")).read_jobs("venus"))
    assert report.reasons == {"exact_duplicate": 1}


def test_the_account_must_balance() -> None:
    account = Accounting(rows_in=3, kept=2)
    account.skipped["step_row"] += 1
    account.check("log")
    account.quarantined["negative_gpus"] += 1
    with pytest.raises(LucidError, match="log: 3 rows went in"):
        account.check("log")


def test_every_reason_is_a_sentence_of_its_own() -> None:
    assert not set(REASONS) & set(SKIP_RULES)
    for sentence in (*REASONS.values(), *SKIP_RULES.values()):
        assert sentence.endswith(".")
        assert sentence[0].isupper()


# Real logs ---------------------------------------------------------------------------------------------


@pytest.mark.reference
def test_no_row_of_the_philly_log_is_lost(tmp_path: Path) -> None:
    path = ROOT / "data/philly/philly_jobs.csv.gz"
    report = ingest(path, tmp_path / "lake", "philly-csv")
    assert (report.rows_in, report.rows_kept) == (82_247, 82_247)
    lake = Lake(str(tmp_path / "lake"))
    jobs = lake.read_jobs("venus")
    assert jobs["virtual_cluster"].nunique() == 15
    assert {"6214e9", "103959"} < set(jobs["virtual_cluster"])
    assert lake.read_throughput("venus")["submitted_jobs"].sum() == 82_247
    raw = pd.read_csv(path, dtype={"cluster": str})
    assert jobs["duration_s"].sum() == raw["duration"].sum()
    nodes = read_nodes_file(str(ROOT / "data/philly/philly_vc_nodes.csv"))
    # Four virtual clusters with 18 jobs have no published nodes.
    assert set(nodes["virtual_cluster"]) < set(jobs["virtual_cluster"])
    assert (~jobs["virtual_cluster"].isin(nodes["virtual_cluster"])).sum() == 18


@pytest.mark.reference
def test_philly_order_is_that_of_the_reference_slice() -> None:
    """The reference numbered the jobs of virtual clusters with nodes; we number all rows, in one order."""
    whole, _ = read_jobs_file(str(ROOT / "data/philly/philly_jobs.csv.gz"), "philly-csv")
    assert whole["job_id"].tolist() == [str(rank) for rank in range(1, 82_248)]
    nodes = read_nodes_file(str(ROOT / "data/philly/philly_vc_nodes.csv"))
    numbered = whole[whole["virtual_cluster"].isin(nodes["virtual_cluster"])].reset_index(drop=True)
    numbered["job_id"] = (numbered.index + 1).astype(str)
    week, report = read_jobs_file(str(ROOT / "reference/lucid/week_jobs.csv.gz"), "reference-csv")
    assert report.rows_kept == len(week) == 10_650
    both = week.merge(numbered, on="job_id", suffixes=("_week", "_whole"))
    assert len(both) == len(week)
    assert (both["virtual_cluster_week"] == both["virtual_cluster_whole"]).all()
    assert (both["gpus_week"] == both["gpus_whole"]).all()
    assert (both["duration_s_week"] == both["duration_s_whole"]).all()
    # The slice's clock is Pacific and read as UTC: in that week a constant seven hours.
    assert set(both["submit_time_whole"] - both["submit_time_week"]) == {pd.Timedelta(hours=7)}


@pytest.mark.reference
def test_no_row_of_the_nasa_log_is_lost(tmp_path: Path) -> None:
    report = ingest(ROOT / "data/swf/NASA-iPSC-1993-3.1-cln.swf.gz", tmp_path / "lake", "swf")
    assert (report.rows_in, report.rows_kept) == (18_239, 18_239)
    assert report.first_submit == pd.Timestamp(749_458_803, unit="s", tz="UTC")


@pytest.mark.reference
def test_the_venus_throughput_is_complete(tmp_path: Path) -> None:
    path = ROOT / "data/venus/cluster_throughput.csv.gz"
    report = ingest(path, tmp_path / "lake", "helios-throughput")
    throughput = Lake(str(tmp_path / "lake")).read_throughput("venus")
    assert report.rows_in == report.rows_kept == len(throughput)
    assert throughput["bin_start"].iloc[0] == pd.Timestamp("2020-03-31 16:00", tz="UTC")
    raw = pd.read_csv(path)
    assert throughput["submitted_gpus"].tolist() == raw["submit_gpu_num"].tolist()
    pd.testing.assert_frame_equal(throughput, read_throughput_file(str(path), cluster="venus"))


@pytest.mark.evidence(table="security", rows=("a small gzip log unpacks without end",))
@pytest.mark.parametrize("form", ["a log", "rows that are all bad"])
def test_a_log_that_unpacks_to_more_than_may_be_is_refused_and_the_lake_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, evidence: Evidence
) -> None:
    monkeypatch.setenv("LUCID_MOST_LOG_BYTES", "20000000")
    row = "1,u,vc,1,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 01:00:00,3600,0\n"
    rows = "\n" if form != "a log" else row
    bomb = tmp_path / "bomb.csv.gz"
    with gzip.open(bomb, "wt", compresslevel=9) as file:
        file.write(
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        )
        for _ in range(30):
            file.write(rows * (1_000_000 // len(rows)))
    assert bomb.stat().st_size < 1_000_000
    lake = str(tmp_path / "lake")
    with pytest.raises(
        BadInputError, match=r"bomb\.csv\.gz holds more than 20,000,000 bytes .*LUCID_MOST_LOG_"
    ):
        ingest_log(source_format="helios", input_uri=str(bomb), cluster="venus", lake_uri=lake)
    assert Lake(lake).clusters() == []
    evidence(
        "security",
        "a small gzip log unpacks without end",
        "It is refused at LUCID_MOST_LOG_BYTES (64 GiB), by the file's name; nothing is written.",
    )
    monkeypatch.setenv("LUCID_MOST_LOG_BYTES", "20 GB")
    with pytest.raises(BadInputError, match="LUCID_MOST_LOG_BYTES='20 GB' is no whole number above 0"):
        ingest_log(source_format="helios", input_uri=str(bomb), cluster="venus", lake_uri=lake)
