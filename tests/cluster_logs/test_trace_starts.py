"""Times that count from a trace's own start, and the clock that a log names."""

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.expectations.job_suites import JOBS
from cluster_logs.ingest import IngestSettings, ingest_log, read_jobs_file
from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from pipeline.replay.log_file import LogFile

PODS = """name,cpu_milli,num_gpu,gpu_milli,qos,pod_phase,creation_time,deletion_time,scheduled_time
alive,4000,1,1000,LS,Running,100,9000,160
deleted,4000,1,1000,LS,Running,200,5000,260
done,4000,1,1000,LS,Succeeded,300,9000,360
never,4000,1,1000,LS,Pending,400,9000,
"""
SUMMER_AND_WINTER = """; UnixStartTime: 749458803
; TimeZone: -28800
; TimeZoneString: US/Pacific
1 0 10 60 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1
2 5184000 10 60 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1
"""


def log(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def utc(text: str) -> pd.Timestamp:
    return pd.Timestamp(text, tz="UTC")


def test_pods_deleted_before_the_traces_last_second_have_ended_and_those_alive_in_it_run(
    tmp_path: Path,
) -> None:
    pods, _ = read_jobs_file(log(tmp_path, "pods.csv", PODS), "alibaba-v2023")
    told = pods.set_index("job_id")
    assert told["state"].to_dict() == {
        "alive": "RUNNING",
        "deleted": "CANCELLED",
        "done": "COMPLETED",
        "never": "CANCELLED",
    }
    assert told.loc["deleted", "end_time"] == utc("2023-01-01 01:23:20")
    assert pd.isna(told.loc["alive", "end_time"])
    assert told["duration_s"].dropna().to_dict() == {"deleted": 4740, "done": 8640}


def test_times_of_alibabas_trace_pass_our_own_expectations(tmp_path: Path) -> None:
    pods, _ = read_jobs_file(log(tmp_path, "pods.csv", PODS), "alibaba-v2023")
    (bounds,) = (
        check.arguments
        for check in JOBS.checks
        if check.arguments.get("column") == "submit_time" and "min_value" in check.arguments
    )
    assert pods["submit_time"].between(bounds["min_value"], bounds["max_value"]).all()


def test_the_start_of_a_trace_is_an_option(tmp_path: Path) -> None:
    start = datetime(2024, 7, 1, tzinfo=UTC)
    settings = IngestSettings(trace_start=start)
    for name, text, source_format in (
        ("pods.csv", PODS, "alibaba-v2023"),
        ("log.swf", SUMMER_AND_WINTER, "swf"),
        ("apps.csv", "app_id,submit_time,service,num_jobs,model_name\n0,100,50,2,vgg16\n", "pcs-csv"),
    ):
        ingest_log(
            source_format=source_format,
            input_uri=log(tmp_path, name, text),
            cluster=source_format,
            lake_uri=str(tmp_path / "lake"),
            settings=settings,
        )
        first = Lake(str(tmp_path / "lake")).read_jobs(source_format)["submit_time"].min()
        assert first in (start, start + pd.Timedelta(seconds=100)), source_format


def test_a_naive_start_is_on_the_readers_clock(tmp_path: Path) -> None:
    pods, _ = read_jobs_file(log(tmp_path, "pods.csv", PODS), "alibaba-v2023", time_zone="Asia/Shanghai")
    assert pods["submit_time"].min() == utc("2022-12-31 16:01:40")


def test_a_format_of_absolute_times_has_no_start(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="times of format 'sacct' do not count from it"):
        ingest_log(
            source_format="sacct",
            input_uri=log(tmp_path, "sacct.txt", "JobID|State|Submit|Start|End|AllocTRES\n"),
            cluster="c",
            lake_uri=str(tmp_path / "lake"),
            settings=IngestSettings(trace_start=datetime(2024, 7, 1, tzinfo=UTC)),
        )


def test_an_swf_logs_clock_is_its_time_zone_string(tmp_path: Path) -> None:
    uri = log(tmp_path, "log.swf", SUMMER_AND_WINTER)
    file = LogFile(uri, "swf", start=datetime(1993, 10, 1, 0, 0, 3), end=datetime(1993, 10, 1, 0, 0, 4))  # noqa: DTZ001
    jobs, _ = file.read()
    assert file.zone.key == "US/Pacific"
    assert list(file.part(jobs).jobs["job_id"]) == ["1"]
    asked = LogFile(uri, "swf", time_zone="UTC")
    assert asked.zone.key == "UTC"
    report = ingest_log(
        source_format="swf",
        input_uri=uri,
        cluster="nasa",
        lake_uri=str(tmp_path / "lake"),
        settings=IngestSettings(start=datetime(1993, 10, 1), end=datetime(1993, 10, 1, 0, 0, 4)),  # noqa: DTZ001
    )
    assert (report.rows_kept, report.reasons) == (1, {"outside_window": 1})


def test_an_unknown_time_zone_string_is_utc(tmp_path: Path) -> None:
    uri = log(tmp_path, "log.swf", SUMMER_AND_WINTER.replace("US/Pacific", "Mars/Base"))
    assert LogFile(uri, "swf").zone.key == "UTC"
