"""Samples and allocations from files: what is read, what is refused, and that every row is accounted for."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_logs.host_lists import expand_hosts
from cluster_logs.lake import Lake
from cluster_logs.metrics.allocations import read_allocations, read_gpu_map
from cluster_logs.metrics.dcgm import SeriesRules, read_metric_names
from cluster_logs.metrics.gpu_samples import SampleBatch
from cluster_logs.metrics.job_metrics import fold_days, last_known
from cluster_logs.metrics.metric_files import read_samples_file
from cluster_logs.metrics.scontrol import read_scontrol
from foundation.errors import BadInputError, UnknownNameError

A, B = (f"GPU-{n:08d}-0000-0000-0000-000000000000" for n in (1, 2))
T0 = 1_709_283_600
# A scrape as the exporter writes it (its own help and type lines, a MIG instance, DCGM's blank value).
SCRAPE = f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{A}",modelName="NVIDIA A100",Hostname="n1",hpc_job="11"}} 97
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{A}",modelName="NVIDIA A100",Hostname="n1",hpc_job="12"}} 97
DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="{B}",Hostname="n1",hpc_job="0"}} 9223372036854775794
DCGM_FI_DEV_FB_USED{{gpu="0",UUID="{A}",Hostname="n1",hpc_job="11"}} 2048
DCGM_FI_DEV_FB_USED{{gpu="1",UUID="{B}",Hostname="n1",hpc_job="0"}} 4
DCGM_FI_DEV_FB_USED{{gpu="2",UUID="GPU-3",Hostname="n1",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"}} 100
DCGM_FI_DEV_FB_USED{{gpu="3",Hostname="n1"}} 100
DCGM_FI_DEV_FB_USED{{gpu="3",UUID="nvidia3",Hostname="n1"}} 100
DCGM_FI_PROF_DRAM_ACTIVE{{gpu="0",UUID="{A}",Hostname="n1",hpc_job="11"}} 1.02
DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="{A}",Hostname="n1",hpc_job="11"}} 1410
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{A}",Hostname="n1",hpc_job="11"}} NaN
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{A}" 12
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def counts(batch: SampleBatch) -> dict[str, int]:
    return dict(batch.accounting.quarantined + batch.accounting.skipped)


@pytest.mark.parametrize("name", ["scrape.prom", "scrape.prom.gz"])
def test_a_scrape(tmp_path: Path, name: str) -> None:
    batch = read_samples_file(write(tmp_path, name, SCRAPE), scraped_at_s=T0)
    assert (batch.accounting.rows_in, batch.accounting.kept) == (12, 5)
    assert counts(batch) == {
        "no_value": 2, "mig_instance": 1, "missing_gpu_uuid": 1, "unreadable_gpu_uuid": 1,
        "other_metric": 1, "unreadable_line": 1,
    }  # fmt: skip
    assert batch.refused.num_rows == 3
    rows = batch.samples.to_pylist()
    assert [(row["gpu_uuid"], row["job_ids"], row["host"]) for row in rows] == [
        (A, "11,12", "n1"),
        (B, None, "n1"),
    ]
    assert rows[0]["gpu_util_pct"] == 97
    assert rows[0]["gpu_mem_mib"] == 2_048
    assert rows[0]["dram_active"] == 1.0
    assert rows[1]["gpu_util_pct"] is None
    assert rows[0]["time"].timestamp() == T0
    with pytest.raises(BadInputError, match=r"line 3.*--at TIME"):
        read_samples_file(write(tmp_path, name, SCRAPE))


def test_times_in_text_are_milliseconds_and_in_openmetrics_seconds(tmp_path: Path) -> None:
    line = f'DCGM_FI_DEV_GPU_UTIL{{UUID="{A}"}} 5 '
    plain = read_samples_file(write(tmp_path, "a.prom", f"{line}{T0 * 1000}\n"))
    opened = read_samples_file(write(tmp_path, "a.om", f"{line}{T0}.000 # {{}} 1\n# EOF\n"))
    assert plain.samples.column("time").to_pylist() == opened.samples.column("time").to_pylist()
    assert plain.samples.column("time").to_pylist()[0].timestamp() == T0


def test_what_promtool_dumps_is_read(tmp_path: Path) -> None:
    """As promtool 2.42 writes it: labels in the order of their names, milliseconds."""
    dump = (
        f'{{Hostname="n1", UUID="{A}", __name__="DCGM_FI_DEV_GPU_UTIL", hpc_job="11"}} 30.5 {T0}000\n'
        f'{{Hostname="n1", UUID="{A}", __name__="DCGM_FI_DEV_GPU_UTIL", hpc_job="11"}} NaN {T0 + 15}000\n'
        f'{{Hostname="n1", UUID="{A}", __name__="up", job="a\\"b, c"}} 1 {T0 * 1000}\n'
    )
    batch = read_samples_file(write(tmp_path, "dump.txt", dump))
    assert (batch.accounting.rows_in, batch.accounting.kept) == (3, 1)
    assert counts(batch) == {"no_value": 1, "other_metric": 1}
    (row,) = batch.samples.to_pylist()
    assert (row["gpu_uuid"], row["job_ids"], row["gpu_util_pct"]) == (A, "11", 30.5)
    assert row["time"].timestamp() == T0


@pytest.mark.parametrize(
    ("labels", "rules", "job"),
    [
        ({"hpc_job": "7"}, {}, "7"),
        ({"hpc_job": "0", "pod": "train-0"}, {}, None),
        ({"pod": "train-0", "container": "main", "namespace": "ml"}, {}, "train-0"),
        # A scrape that does not honour labels: `pod` is the exporter's, and stays when the GPU is idle.
        ({"pod": "dcgm-exporter-x", "exported_pod": "train-0"}, {}, "train-0"),
        ({"pod": "dcgm-exporter-x", "container": "nvidia-dcgm-exporter"}, {}, None),
        ({"pod": "nvidia-dcgm-exporter-x", "container": "main"}, {}, None),
        ({"hpc_job": "7", "job_name": "bert"}, {"job_label": "job_name"}, "bert"),
        ({"hpc_job": "7"}, {"job_label": "job_name"}, None),
        ({}, {}, None),
    ],
)
def test_which_job_a_series_speaks_of(
    tmp_path: Path, labels: dict[str, str], rules: dict[str, str], job: str | None
) -> None:
    metric = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": A, **labels}
    vector = {"resultType": "vector", "result": [{"metric": metric, "value": [T0, "5"]}]}
    path = write(tmp_path, "a.json", json.dumps({"status": "success", "data": vector}))
    batch = read_samples_file(path, SeriesRules(**rules))
    assert batch.samples.column("job_ids").to_pylist() == [job]


def test_labels_hold_anything(tmp_path: Path) -> None:
    line = f'DCGM_FI_DEV_GPU_UTIL{{UUID="{A}",Hostname="a\\"b}}\\\\{{,\\n",hpc_job="x",}} 5 {T0}000\n'
    batch = read_samples_file(write(tmp_path, "a.prom", line))
    assert batch.samples.column("host").to_pylist() == ['a"b}\\{,\n']


def test_other_names_and_units(tmp_path: Path) -> None:
    names = read_metric_names(
        ["gpu_util_pct=NEW_UTIL:100", "gpu_mem_mib=cluster:fb_bytes:9.5367431640625e-07"]
    )
    assert read_metric_names(["power_w=a:b"])["power_w"].name == "a:b"
    text = f'NEW_UTIL{{UUID="{A}"}} 0.5 {T0}000\ncluster:fb_bytes{{UUID="{A}"}} 1073741824 {T0}000\n'
    batch = read_samples_file(write(tmp_path, "a.prom", text), SeriesRules(names))
    row = batch.samples.to_pylist()[0]
    assert (row["gpu_util_pct"], row["gpu_mem_mib"]) == (50.0, pytest.approx(1_024))
    for wrong in ("gpu_util_pct", "gpu_util_pct=", "gpu_util_pct=x:0", "gpu_util_pct=x:nan"):
        with pytest.raises(BadInputError):
            read_metric_names([wrong])
    with pytest.raises(UnknownNameError, match="gpu_util_pct"):
        read_metric_names(["colour=x"])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", '{"status": "error", "error": "boom"}', "boom"),
        ("a.json", '[{"status": "success", "data": {"resultType": "matrix", "result": [{}]}}]', "KeyError"),
        ("a.parquet", "PAR1", "cannot be read"),
        ("a.prom.gz", "", "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    if name.endswith(".gz"):
        path.write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(BadInputError, match=said) as caught:
        read_samples_file(str(path))
    assert name in str(caught.value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=40), max_size=12))
def test_any_text_is_accounted_for(tmp_path: Path, lines: list[str]) -> None:
    text = "x 1\n" + "\n".join(lines)
    path = write(tmp_path, "a.prom", text.encode("utf-8", "replace").decode())
    batch = read_samples_file(path, scraped_at_s=T0)
    account = batch.accounting
    assert account.rows_in == account.kept + account.quarantined.total() + account.skipped.total()
    assert batch.refused.num_rows == account.quarantined.total()


def test_samples_of_a_table(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "time": pd.to_datetime([T0, T0 + 5, T0 + 10, None, T0 + 20, T0], unit="s", utc=True),
            "gpu_uuid": [B, A, None, A, A, A],
            "gpu_util_pct": [1.0, -3.0, 1.0, 1.0, None, 2.0],
        }
    )
    frame.to_parquet(tmp_path / "s.parquet")
    batch = read_samples_file(str(tmp_path / "s.parquet"))
    assert counts(batch) == {
        "implausible_metric": 1,
        "missing_gpu_uuid": 1,
        "implausible_time": 1,
        "no_value": 1,
    }
    assert batch.samples.column("gpu_uuid").to_pylist() == [A, B]
    assert sorted(batch.refused.column("source_row").to_pylist()) == [2, 3, 4]
    frame.drop(columns="gpu_uuid").to_parquet(tmp_path / "t.parquet")
    with pytest.raises(BadInputError, match="gpu_uuid"):
        read_samples_file(str(tmp_path / "t.parquet"))


def test_allocations_of_a_file(tmp_path: Path) -> None:
    lines = [
        "job_id,gpu_uuid,start_time,end_time,comment",
        f"007,{A},2024-03-01T10:00:00,2024-03-01T11:00:00+00:00,kept as it is",
        f"8,{B},2024-03-01 12:00:00+02:00,,runs",
        f"8,{B},yesterday,,",
        f"9,{B},2024-03-01T10:00:00,later,",
        "9,cuda:0,2024-03-01T10:00:00,,",
        "9,MIG-1,2024-03-01T10:00:00,,",
    ]
    batch = read_allocations(write(tmp_path, "a.csv", "\n".join(lines)))
    batch.accounting.check("test")
    assert dict(batch.accounting.quarantined) == {"unreadable_time": 2, "unreadable_gpu_uuid": 1}
    assert +batch.accounting.skipped == {"mig_instance": 1}
    assert [row["job_id"] for row in batch.allocations.to_pylist()] == ["007", "8"]
    start = [row["start_time"] for row in batch.allocations.to_pylist()]
    assert start[0] == start[1]
    batch.allocations.to_pandas().to_parquet(tmp_path / "a.parquet")
    assert read_allocations(str(tmp_path / "a.parquet")).allocations.equals(batch.allocations)
    with pytest.raises(BadInputError, match="lack gpu_uuid"):
        read_allocations(write(tmp_path, "b.csv", "job_id,start_time\n1,2024-03-01\n"))
    with pytest.raises(BadInputError, match="cannot be read"):
        read_gpu_map(write(tmp_path, "m.csv", "host,gpu_uuid\nn1,x\n"))


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n1,m2", ["n1", "m2"]),
        ("gpu[01-03,7],login", ["gpu01", "gpu02", "gpu03", "gpu7", "login"]),
        ("r[1-2]n[1,3]x", ["r1n1x", "r1n3x", "r2n1x", "r2n3x"]),
        ("", []),
    ],
)
def test_host_lists(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


def test_what_slurm_calls_the_end_of_a_running_job_is_none() -> None:
    text = """JobId=5 JobName=a
   JobState={state} Reason=None
   StartTime=2024-03-01T10:00:00 EndTime=2024-03-02T10:00:00 Deadline=N/A
     Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:1(IDX:0),shard:a100:4(4/0/0/0)
"""
    gpus = {("n1", 0): A, ("n2", 0): B}
    running = read_scontrol(text.format(state="RUNNING"), gpus, source_file="x").allocations.to_pylist()
    ended = read_scontrol(text.format(state="COMPLETED"), gpus, source_file="x").allocations.to_pylist()
    assert [(row["gpu_uuid"], row["end_time"]) for row in running] == [(A, None), (B, None)]
    assert all(row["end_time"] is not None for row in ended)
    assert read_scontrol("No jobs in the system\n", gpus, source_file="x").accounting.rows_in == 0
    with pytest.raises(BadInputError, match="scontrol show job -d"):
        read_scontrol("slurm_load_jobs error", gpus, source_file="x")


# The lake's table ---------------------------------------------------------------------------------------


def pieces(days: list[tuple[float, float, float]], job: str = "j") -> pd.DataFrame:
    """A row a day of (utilisation, memory, observed seconds)."""
    submit = pd.Timestamp(T0, unit="s", tz="UTC")
    return pd.DataFrame(
        [
            {
                "job_id": job, "submit_time": submit, "gpu_util_pct": util, "gpu_mem_util_pct": util / 2,
                "gpu_mem_mib": mem, "power_w": util, "samples": 10, "gpus_seen": 1, "observed_gpu_s": seen,
                "coverage": 0.5,
                "origin": "running", "known_time": submit + pd.Timedelta(days=day + 1), "source": "test",
            }
            for day, (util, mem, seen) in enumerate(days)
        ]
    )  # fmt: skip


day_rows = st.tuples(st.floats(0, 100), st.floats(0, 1e5), st.floats(1, 86_400))


@settings(max_examples=30, deadline=None)
@given(st.lists(day_rows, min_size=1, max_size=5))
def test_days_fold_into_what_was_known(days: list[tuple[float, float, float]]) -> None:
    folded = fold_days(pieces(days).sample(frac=1.0, random_state=0))
    for upto in range(1, len(days) + 1):
        row, so_far = folded.iloc[upto - 1], days[:upto]
        seen = sum(day[2] for day in so_far)
        assert row["gpu_util_pct"] == pytest.approx(sum(day[0] * day[2] for day in so_far) / seen)
        assert row["gpu_mem_mib"] == max(day[1] for day in so_far)
        assert row["observed_gpu_s"] == pytest.approx(seen)
        assert row["coverage"] == pytest.approx(0.5)
        assert row["samples"] == 10 * upto


def test_the_same_twice_changes_nothing_and_more_stands_above_less(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    whole = pieces([(40.0, 10.0, 80_000.0), (60.0, 20.0, 40_000.0)])
    assert lake.write_job_metrics("c", whole) == 2
    assert lake.write_job_metrics("c", whole) == 0
    assert lake.write_job_metrics("c", whole.assign(gpu_util_pct=1.0, observed_gpu_s=50.0)) == 0
    assert lake.write_job_metrics("c", whole.assign(gpu_util_pct=50.0)) == 2, "as much, and newer"
    known = last_known(lake.read_job_metrics("c"))
    assert known["gpu_util_pct"].tolist() == [50.0]
    assert known["gpu_mem_mib"].tolist() == [20.0]
    until = whole["known_time"].iloc[0].to_pydatetime()
    assert len(lake.read_job_metrics("c", until)) == 1
    predicted = whole.head(1).assign(origin="predicted", observed_gpu_s=None, known_time=whole["submit_time"])
    lake.write_job_metrics("c", predicted)
    lake.write_job_metrics("c", predicted.assign(gpu_util_pct=7.0))
    by_origin = last_known(lake.read_job_metrics("c")).set_index("origin")["gpu_util_pct"]
    assert by_origin.to_dict() == {"running": 50.0, "predicted": 7.0}
    with pytest.raises(BadInputError, match="'guessed'"):
        lake.write_job_metrics("c", whole.assign(origin="guessed"))
    assert lake.read_job_metrics("other").empty
