"""`lucid metrics`: from a real Prometheus, and from files, into the lake."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from tests.prometheus_server import PrometheusServer, SeriesPoints, prometheus_with

START = pd.Timestamp("2024-03-01 21:00", tz="UTC")
T0 = START.timestamp()
DAY_END = pd.Timestamp("2024-03-02", tz="UTC")
UUIDS = [f"GPU-{number:08d}-aaaa-bbbb-cccc-000000000000" for number in range(4)]
METRICS = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_POWER_USAGE",
)
# job -> (GPUs, begins, ends (s after START), figures); j1 runs past midnight, j3 and j4 share a GPU.
JOBS: dict[str, tuple[tuple[int, ...], int, int, tuple[float, ...]]] = {
    "j1": ((0, 1), 0, 5 * 3_600, (83.0, 40.0, 20_000.0, 280.0)),
    "j2": ((2,), 600, 3_600, (35.0, 12.0, 7_000.0, 140.0)),
    "j3": ((3,), 0, 3_000, (55.0, 20.0, 5_000.0, 180.0)),
    "j4": ((3,), 2_400, 6_000, (10.0, 2.0, 3_000.0, 100.0)),
}


def series() -> Iterator[SeriesPoints]:
    for job, (gpus, begin, end, figures) in JOBS.items():
        for gpu in gpus:
            labels = {"gpu": str(gpu), "UUID": UUIDS[gpu], "Hostname": "n1", "hpc_job": job}
            for metric, value in zip(METRICS, figures, strict=True):
                yield metric, labels, [(T0 + t + 3, value) for t in range(begin, end, 30)]


def job_table() -> pd.DataFrame:
    rows = []
    for job, (gpus, begin, end, _) in JOBS.items():
        start = START + pd.Timedelta(seconds=begin)
        rows.append(
            {
                "job_id": job,
                "user": f"user-{job}",
                "name": f"train-{job}",
                "gpus": len(gpus),
                "submit_time": start - pd.Timedelta(minutes=5),
                "start_time": start,
                "end_time": START + pd.Timedelta(seconds=end),
                "duration_s": float(end - begin),
            }
        )
    frame = pd.DataFrame(rows)
    idle = {"job_id": "j5", "user": "u", "name": "other", "gpus": 1, "submit_time": START, "duration_s": 60.0}
    frame = pd.concat([frame, pd.DataFrame([idle])], ignore_index=True)
    return frame.assign(
        virtual_cluster="vc", gpu_share=1.0, state="COMPLETED", source_file="log", source_row=np.arange(1, 6)
    )


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with prometheus_with(tmp_path_factory.mktemp("prometheus"), series()) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    lake.write_jobs("c", job_table())
    return lake


def ingest(lucid: Any, lake: Lake, *more: Any) -> Any:
    said = lucid("metrics", "ingest", "--cluster", "c", "--lake", lake.uri, "--json", *more)
    assert said.code == 0, said.err
    return said.json


RANGE = ("--start", "2024-03-01T21:00", "--end", "2024-03-02T03:00")


@pytest.mark.slow
def test_from_a_prometheus_by_its_job_labels(lucid: Any, lake: Lake, prometheus: PrometheusServer) -> None:
    report = ingest(lucid, lake, "--prometheus", prometheus.url, *RANGE)
    assert report["rows_in"] == report["rows_kept"] + report["rows_quarantined"] + report["rows_skipped"]
    samples = report["samples"]
    assert samples["samples"] == sum(count for fate, count in samples.items() if fate != "samples")
    assert samples["shared"] == 20
    assert (report["jobs"], report["jobs_unknown"], report["scrape_interval_s"]) == (4, 0, 30.0)
    metrics = lake.read_job_metrics("c")
    assert metrics.groupby("job_id").size().to_dict() == {"j1": 2, "j2": 1, "j3": 1, "j4": 1}
    for job, row in metrics.groupby("job_id").first().iterrows():
        figures = JOBS[str(job)][3]
        found = [row[name] for name in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "power_w")]
        assert found == pytest.approx(figures)
        assert row["gpus_seen"] == len(JOBS[str(job)][0])
        assert row["user"] == f"user-{job}"
        assert row["coverage"] > 0.75
    # What was known of j1 at midnight is that of the first day.
    assert (metrics.loc[metrics["job_id"] == "j1", "known_time"] <= DAY_END).tolist() == [True, False]
    again = ingest(lucid, lake, "--prometheus", prometheus.url, *RANGE)
    assert again["files_changed"] == 0
    # A part of a day does not displace the whole.
    part = ingest(
        lucid,
        lake,
        "--prometheus",
        prometheus.url,
        "--start",
        "2024-03-01T21:20",
        "--end",
        "2024-03-01T21:40",
    )
    assert part["samples"]["joined"] > 0
    assert part["files_changed"] == 0
    shown = lucid("metrics", "show", "--cluster", "c", "--lake", lake.uri, "--json")
    assert shown.code == 0, shown.err
    assert shown.json["gpu_jobs"] == 5
    (running,) = shown.json["origins"]
    assert (running["origin"], running["jobs"]) == ("running", 4)
    assert running["gpu_jobs_share"] == pytest.approx(0.8)
    people = lucid("metrics", "show", "--cluster", "c", "--lake", lake.uri)
    assert "running" in people.out


def test_by_a_file_of_allocations(
    lucid: Any, lake: Lake, prometheus: PrometheusServer, tmp_path: Path
) -> None:
    rows = ["job_id,gpu_uuid,start_time,end_time"]
    for job, (gpus, begin, end, _) in JOBS.items():
        times = [(START + pd.Timedelta(seconds=t)).strftime("%Y-%m-%dT%H:%M:%S") for t in (begin, end)]
        rows += [f"{job},{UUIDS[gpu]},{times[0]},{times[1]}" for gpu in gpus]
    rows += [rows[1], f"j2,{UUIDS[2]},2024-03-02T00:00:00,2024-03-01T00:00:00", ",GPU-1,2024-03-01,"]
    rows += [f"gone,{UUIDS[2]},2024-03-01T22:10:00,"]
    held = tmp_path / "held.csv"
    held.write_text("\n".join(rows) + "\n")
    report = ingest(lucid, lake, "--prometheus", prometheus.url, *RANGE, "--allocations", held)
    assert (report["allocations_in"], report["allocations_kept"]) == (9, 6)
    assert {key: count for key, count in report["reasons"].items() if key.startswith("alloc")} == {
        "allocation: end_before_start": 1,
        "allocation: exact_duplicate": 1,
        "allocation: missing_job_id": 1,
    }
    refused = lake.read_quarantine("c")
    assert sorted(refused["reason"]) == ["end_before_start", "missing_job_id"]
    metrics = lake.read_job_metrics("c").set_index("job_id")
    assert metrics.loc["j3", "gpu_util_pct"] == pytest.approx(55.0)
    assert metrics.loc["j3", "coverage"] == pytest.approx((2_400 - 60) / (3_000 - 60), abs=0.02), (
        "shared at its end"
    )
    assert metrics.loc["j4", "gpu_util_pct"] == pytest.approx(10.0)


def test_by_what_slurm_says(lucid: Any, lake: Lake, prometheus: PrometheusServer, tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text(
        "host,index,gpu_uuid\n" + "\n".join(f"n1,{i},{u}" for i, u in enumerate(UUIDS))
    )
    text = f"""JobId=j1 JobName=train-j1
   UserId=u(1) GroupId=g(1) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   StartTime={START:%Y-%m-%dT%H:%M:%S} EndTime=2024-03-01T21:30:00 Deadline=N/A
   JOB_GRES=gpu:a100:2
     Nodes=n1 CPU_IDs=0-7 Mem=1000 GRES=gpu:a100:2(IDX:0-1)
   Command=/home/u/run.sh JobState=PENDING

JobId=j9 JobName=waits
   JobState=PENDING Reason=Resources StartTime=Unknown EndTime=Unknown
"""
    (tmp_path / "jobs.txt").write_text(text)
    report = ingest(
        lucid, lake, "--prometheus", prometheus.url, *RANGE, "--scontrol", "jobs.txt", "--gpu-map", "map.csv"
    )
    assert (report["allocations_in"], report["allocations_kept"]) == (3, 2)
    assert report["reasons"]["allocation: not_started"] == 1
    metrics = lake.read_job_metrics("c")
    assert set(metrics["job_id"]) == {"j1"}
    assert metrics["gpus_seen"].tolist() == [2, 2]
    document = {
        "jobs": [
            {
                "job_id": 7, "job_state": ["RUNNING"], "gres_detail": ["gpu:a100:1(IDX:3)", "gpu:1(IDX:9)"],
                "start_time": {"set": True, "infinite": False, "number": int(T0)},
                "end_time": {"set": True, "infinite": False, "number": int(T0 + 60)},
                "job_resources": {"nodes": {"list": "n[1-2]"}},
            }
        ]
    }  # fmt: skip
    (tmp_path / "jobs.json").write_text(json.dumps(document))
    report = ingest(
        lucid, lake, "--prometheus", prometheus.url, *RANGE, "--scontrol", "jobs.json", "--gpu-map", "map.csv"
    )
    assert report["reasons"]["allocation: unknown_gpu_index"] == 1
    assert (report["allocations_kept"], report["jobs_unknown"]) == (1, 1)


def test_from_files(lucid: Any, lake: Lake, tmp_path: Path) -> None:
    labels = f'{{UUID="{UUIDS[2]}",pod="j2",container="train"}}'
    points = [f"DCGM_FI_DEV_GPU_UTIL{labels} 35 {T0 + 700 + 30 * i:.3f}" for i in range(40)]
    (tmp_path / "saved.om").write_text("\n".join([*points, "what is this", "# EOF"]) + "\n")
    report = ingest(lucid, lake, "--file", "saved.om", "--warm-up-s", "0")
    assert report["rows_in"] == 41
    assert report["reasons"] == {"unreadable_line": 1}
    assert lake.read_job_metrics("c")["gpu_util_pct"].tolist() == [35.0]
    samples = pd.DataFrame(
        {
            "time": pd.date_range(START + pd.Timedelta(minutes=20), periods=60, freq="5s"),
            "host": "n1",
            "gpu_uuid": UUIDS[3],
            "gpu_util_pct": 55.0,
            "gpu_mem_mib": 5_000.0,
            "job_ids": "j3",
        }
    )
    samples.loc[3, "gpu_util_pct"] = 140.0
    samples.loc[4, "gpu_uuid"] = "MIG-1"
    samples.to_parquet(tmp_path / "node.parquet")
    folder = tmp_path / "sampled" / "date=2024-03-01"
    folder.mkdir(parents=True)
    (tmp_path / "node.parquet").rename(folder / "node1-212000-4711.parquet")
    report = ingest(lucid, lake, "--file", "sampled", "--warm-up-s", "0")
    assert (report["rows_in"], report["rows_kept"]) == (60, 58)
    assert report["reasons"] == {"implausible_metric": 1, "mig_instance": 1}
    assert report["scrape_interval_s"] == 5.0
    metrics = lake.read_job_metrics("c").set_index("job_id")
    assert metrics.loc["j3", ["gpu_util_pct", "gpu_mem_mib"]].tolist() == [55.0, 5_000.0]


def test_what_is_missing_is_said(lucid: Any, lake: Lake) -> None:
    def refused(*arguments: Any) -> str:
        said = lucid("metrics", "ingest", "--cluster", "c", "--lake", lake.uri, *arguments)
        assert said.code == 1
        assert said.err.count("\n") == 1
        return str(said.err)

    assert "--prometheus URL" in refused()
    assert "--start and --end" in refused("--prometheus", "http://127.0.0.1:9")
    assert "--gpu-map" in refused("--file", "x", "--scontrol", "y")
    assert "There is no file nowhere.om" in refused("--file", "nowhere.om")
    said = lucid("metrics", "show", "--cluster", "c", "--lake", lake.uri, "--json")
    assert said.json["jobs_measured_while_running"] == 0
    assert said.json["origins"] == []
