"""Expectations: failing rows go to quarantine and are counted, a failing table stops the run by name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.expectations.running import make_offline
from cluster_logs.expectations.suite import CheckedUnit
from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import SyntheticCluster, synthesize, write_to_lake
from cluster_logs.validation import all_suites, validate_lake, validate_table
from foundation.errors import NotFoundError, UnknownNameError, ValidationFailedError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made() -> SyntheticCluster:
    return synthesize("helios-venus", 2, 0)


@pytest.fixture
def lake(made: SyntheticCluster, tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    write_to_lake(made, lake, "venus")
    return lake


DAY = pd.Timedelta(days=1)
BAD_JOBS = {
    "negative run time": ({"duration_s": -5.0}, "duration_s_in_range"),
    "infinite run time": ({"duration_s": np.inf}, "duration_s_in_range"),
    "end before start": ({"end_time": pd.Timestamp("2020-03-01", tz="UTC")}, "end_is_not_before_start"),
    "start before submission": (
        {"start_time": pd.Timestamp("2020-03-01", tz="UTC")},
        "start_is_not_before_submission",
    ),
    "never started, ended early": (
        {"start_time": pd.NaT, "end_time": pd.Timestamp("2020-03-01", tz="UTC")},
        "end_is_not_before_submission",
    ),
    "unknown state": ({"state": "LOST"}, "state_is_known"),
    "negative GPUs": ({"gpus": -1}, "gpus_in_range"),
    "no share of a GPU": ({"gpu_share": 0.0}, "gpu_share_in_range"),
    "bigger than its virtual cluster": ({"gpus": 9_999}, "job_fits_its_virtual_cluster"),
    "utilisation over 100 %": ({"gpu_util_pct": 101.0}, "gpu_util_pct_in_range"),
    "negative wait": ({"queuing_delay_s": -1.0}, "queuing_delay_s_in_range"),
}


def with_bad_jobs(made: SyntheticCluster) -> pd.DataFrame:
    bad = made.jobs.head(len(BAD_JOBS)).copy()
    bad["job_id"] = [f"bad-{name}" for name in BAD_JOBS]
    for row, (changes, _) in enumerate(BAD_JOBS.values()):
        for column, value in changes.items():
            bad.loc[bad.index[row], column] = value
    return bad


def test_good_tables_pass_and_stay(made: SyntheticCluster, lake: Lake) -> None:
    report = validate_lake(lake_uri=lake.uri, cluster="venus")
    report.raise_for_failure()
    assert report.success
    assert report.rows == len(made.jobs) + len(made.throughput)
    assert report.quarantined == {}
    assert len(lake.read_jobs("venus")) == len(made.jobs)
    assert report.docs is not None
    assert Path(report.docs).is_file()
    assert {entry["suite"] for entry in report.expectations} == {"jobs", "throughput"}


def test_failing_rows_move_to_quarantine_and_counts_add_up(made: SyntheticCluster, lake: Lake) -> None:
    lake.write_jobs("venus", with_bad_jobs(made))
    before = len(lake.read_jobs("venus"))
    report = validate_lake(lake_uri=lake.uri, cluster="venus", tables=["jobs"])
    report.raise_for_failure()
    refused = lake.read_quarantine("venus")
    assert len(lake.read_jobs("venus")) + len(refused) == before == report.rows
    assert sum(report.quarantined.values()) == len(refused) == len(BAD_JOBS)
    found = {re.search(r'"job_id":"bad-([^"]+)"', row.raw_row)[1]: row.reason for row in refused.itertuples()}
    assert found == {name: reason for name, (_, reason) in BAD_JOBS.items()}
    assert set(refused["source_format"]) == {"validation"}
    assert refused.set_index("reason").loc["job_fits_its_virtual_cluster", ["column", "value"]].tolist() == [
        "gpus",
        "9999",
    ]
    again = validate_lake(lake_uri=lake.uri, cluster="venus", tables=["jobs"])
    assert again.quarantined == {}
    pd.testing.assert_frame_equal(lake.read_quarantine("venus"), refused)


def test_a_table_with_too_many_failing_rows_stops_and_keeps_them(made: SyntheticCluster, lake: Lake) -> None:
    wrong = made.jobs.copy()
    wrong.loc[wrong.index % 5 == 0, "duration_s"] = -1.0
    lake.write_jobs("venus", wrong)
    report = validate_lake(lake_uri=lake.uri, cluster="venus")
    assert not report.success
    assert report.failed == ("jobs.failing_rows_are_few",)
    with pytest.raises(
        ValidationFailedError, match=r"jobs\.failing_rows_are_few \(20 % of rows fail, \d+ % allowed"
    ):
        report.raise_for_failure()
    assert len(lake.read_jobs("venus")) == len(wrong)
    assert lake.read_quarantine("venus").empty


def test_run_times_that_nobody_knows_stop_the_run(made: SyntheticCluster, lake: Lake) -> None:
    lake.write_jobs("venus", made.jobs.assign(duration_s=np.nan))
    report = validate_lake(lake_uri=lake.uri, cluster="venus", tables=["jobs"])
    assert report.failed == ("jobs.duration_s_is_mostly_known",)


def test_nodes_decide_whether_a_job_fits(made: SyntheticCluster, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    big = made.jobs.copy()
    big.loc[big.index[0], "gpus"] = 9_999
    lake.write_jobs("x", big)
    assert validate_lake(lake_uri=lake.uri, cluster="x", tables=["jobs"]).quarantined == {}
    # It was large enough once: a job of that day is no mistake.
    owner = big.loc[big.index[0], "virtual_cluster"]
    nodes = made.nodes.assign(date=pd.Timestamp("2020-04-01").date())
    nodes.loc[nodes["virtual_cluster"] == owner, "nodes"] = 2_000
    lake.write_nodes("x", nodes)
    lake.write_nodes("x", made.nodes.assign(date=pd.Timestamp("2020-04-02").date()))
    assert validate_lake(lake_uri=lake.uri, cluster="x", tables=["jobs"]).quarantined == {}
    lake.write_nodes("x", made.nodes.assign(date=pd.Timestamp("2020-04-01").date()))
    report = validate_lake(lake_uri=lake.uri, cluster="x", tables=["jobs"])
    assert report.quarantined == {"job_fits_its_virtual_cluster": 1}


def test_failing_bins_move_to_quarantine(made: SyntheticCluster, lake: Lake) -> None:
    bins = made.throughput.copy()
    bins.loc[:1, "started_gpu_jobs"] = bins["started_jobs"] + 1
    lake.write_throughput("venus", bins)
    report = validate_lake(lake_uri=lake.uri, cluster="venus", tables=["throughput"])
    report.raise_for_failure()
    assert report.quarantined == {"started_gpu_jobs_are_jobs": 2}
    assert len(lake.read_throughput("venus")) == len(made.throughput) - 2


def test_unknown_names_and_missing_tables(lake: Lake) -> None:
    with pytest.raises(NotFoundError):
        validate_lake(lake_uri=lake.uri, cluster="nobody")
    with pytest.raises(UnknownNameError, match="jobs, throughput"):
        validate_lake(lake_uri=lake.uri, cluster="venus", tables=["profiles"])
    with pytest.raises(UnknownNameError, match="duration_predictions"):
        validate_table(pd.DataFrame({"x": [1]}), "predictions")


PREDICTIONS = [
    ("duration_predictions", "estimated_duration_s", [1.0, 86_400.0], None),
    ("duration_predictions", "estimated_duration_s", [1.0, 0.0], "estimate_is_finite_and_positive"),
    ("duration_predictions", "estimated_duration_s", [-3.0], "estimate_is_finite_and_positive"),
    ("duration_predictions", "estimated_duration_s", [np.inf], "estimate_is_finite_and_positive"),
    ("duration_predictions", "estimated_duration_s", [1.0, np.nan], "estimated_duration_s_is_present"),
    ("duration_predictions", "estimated_duration_s", [], "table_has_rows"),
    ("duration_predictions", "seconds", [1.0], "columns_are_there"),
    ("throughput_predictions", "predicted", [0.0, 12.5], None),
    ("throughput_predictions", "predicted", [-0.1], "forecast_is_finite_and_not_negative"),
    ("throughput_predictions", "predicted", [-np.inf], "forecast_is_finite_and_not_negative"),
    ("throughput_predictions", "predicted", [np.nan], "predicted_is_present"),
    ("sharing_scores", "sharing_score", [0, 1, 2], None),
    ("sharing_scores", "sharing_score", [0, 3], "sharing_score_is_known"),
    ("sharing_scores", "sharing_score", [np.nan], "sharing_score_is_present"),
    ("duration_predictions", "estimated_duration_s", ["soon"], "estimate_is_finite_and_positive"),
]


@pytest.mark.parametrize(("suite", "column", "values", "failed"), PREDICTIONS)
def test_predictions(suite: str, column: str, values: list[object], failed: str | None) -> None:
    report = validate_table(pd.DataFrame({column: values}), suite)
    assert report.success is (failed is None)
    if failed:
        assert f"{suite}.{failed}" in report.failed
        with pytest.raises(ValidationFailedError, match=failed):
            report.raise_for_failure()


def profiles(rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job_type": [f"Model{i}/Data/64/1" for i in range(rows)],
            "amp": 1,
            "batch_size": 64,
            "speed": 100.0,
            "gpu_util_pct": 50.0,
            "gpu_mem_util_pct": 20.0,
            "gpu_mem_mib": 4_000.0,
        }
    )


def test_profiles_list_their_failing_rows() -> None:
    table = profiles()
    table.loc[7, "speed"] = 0.0
    report = validate_table(table, "solo_profiles")
    assert report.success
    assert report.failing[["position", "expectation"]].to_numpy().tolist() == [[7, "speed_in_range"]]
    table["gpu_util_pct"] = 120.0
    assert validate_table(table, "solo_profiles").failed == ("solo_profiles.failing_rows_are_few",)
    twice = pd.concat([profiles(3), profiles(3)])
    assert validate_table(twice, "solo_profiles").failed == ("solo_profiles.configuration_is_measured_once",)


def test_pairs() -> None:
    solo = profiles().drop(columns=["job_type", "speed"])
    pairs = solo.assign(job_type_1="A/B/32/0", speed_1=0.9, job_type_2="C/D/64/1", speed_2=1.2)
    assert validate_table(pairs, "pair_profiles").success
    pairs.loc[3, "speed_2"] = np.nan
    report = validate_table(pairs, "pair_profiles")
    assert report.failing["expectation"].tolist() == ["speed_2_is_present"]


def test_every_suite_judges_rows_and_the_table() -> None:
    for suite in all_suites().values():
        assert {check.level for check in suite.checks} == set(CheckedUnit)


def test_pages_ask_no_other_host_for_anything(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    report = validate_table(profiles(), "solo_profiles", folder)
    validate_table(profiles(), "solo_profiles", folder)
    validate_table(pd.DataFrame({"predicted": [1.0]}), "throughput_predictions", folder)
    assert report.docs is not None
    assert Path(report.docs).is_relative_to(folder)
    pages = sorted(folder.rglob("*.html"))
    # Our index and theirs, rows and table of two suites, and every run: earlier ones stay.
    assert len(pages) == 2 + 4 + 6
    remote = re.compile(r"""<(?:script|link|img)\b[^>]*(?:src|href)=["']?(?:https?:)?//""", re.IGNORECASE)
    assert not [page for page in pages if remote.search(page.read_text())]
    sheets = [*pages, *folder.rglob("*.css")]
    assert not [sheet for sheet in sheets if re.search(r"url\(\s*[\"']?https?:", sheet.read_text())]
    assert "speed" in "".join(page.read_text() for page in pages)


def test_the_index_links_every_run_and_names_what_failed(tmp_path: Path) -> None:
    table = profiles()
    table.loc[7, "speed"] = 0.0
    validate_table(table, "solo_profiles", tmp_path)
    report = validate_table(pd.DataFrame({"predicted": [-1.0]}), "throughput_predictions", tmp_path)
    assert report.docs is not None
    index = Path(report.docs).read_text()
    links = re.findall(r'href="([^"]+)"', index)
    assert len(links) == 4
    assert all((tmp_path / link).is_file() for link in links)
    outcomes = re.findall(r">([^<]+)</a></td><td class=\"[^\"]+\">([^<]+)</td><td>([^<]*)</td></tr>", index)
    assert outcomes == [
        ("throughput_predictions-table", "table failed", "failing_rows_are_few"),
        ("throughput_predictions-rows", "table failed", "forecast_is_finite_and_not_negative"),
        ("solo_profiles-table", "passed", ""),
        ("solo_profiles-rows", "rows set aside", "speed_in_range"),
    ]


def test_offline_pages_keep_what_is_local(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    page.write_text(
        "<html><head><script src='https://h/x.js'></script><script>own()</script >"
        '<link rel="stylesheet" href="//h/y.css"><link href="static/z.css"></head>'
        "<body><img src=https://h/l.png?d=1><a href='https://h'>go</a>"
        "<button class='b' onclick=\"go('here')\">go</button> one = 'x'</body></html>"
    )
    make_offline(tmp_path)
    text = page.read_text()
    assert "x.js" not in text
    assert "y.css" not in text
    assert "l.png" not in text
    assert "<script" not in text
    assert "<button class='b'>go</button> one = 'x'" in text
    assert "static/z.css" in text
    assert "<a href='https://h'>" in text
    make_offline(tmp_path)
    assert page.read_text() == text


NETWORK_PROBE = """
import socket, sys
asked = []
def loopback(host):
    return host in (None, "", "localhost", "127.0.0.1", "::1", b"localhost")
def watch(function, host_of):
    def watched(*args, **kwargs):
        host = host_of(*args)
        if not loopback(host):
            asked.append(str(host))
            raise OSError("no network in this test")
        return function(*args, **kwargs)
    return watched
def of_address(sock, address, *rest):
    return address[0] if isinstance(address, tuple) else None
socket.socket.connect = watch(socket.socket.connect, of_address)
socket.socket.connect_ex = watch(socket.socket.connect_ex, of_address)
socket.socket.sendto = watch(socket.socket.sendto, lambda sock, data, *rest: of_address(sock, rest[-1]))
socket.getaddrinfo = watch(socket.getaddrinfo, lambda host, *rest: host)
if sys.argv[1] == "control":
    try:
        socket.create_connection(("192.0.2.1", 9), timeout=0.1)
    except OSError:
        pass
else:
    import pathlib
    import pandas as pd
    from cluster_logs.validation import validate_table
    frame = pd.DataFrame({"estimated_duration_s": [1.0, 2.0]})
    assert validate_table(frame, "duration_predictions", pathlib.Path(sys.argv[1])).success
import threading, time
time.sleep(0.5)
print("ASKED", *asked)
"""


@pytest.mark.thorough("looks at every connection of a process")
@pytest.mark.parametrize(("what", "asked"), [("control", "192.0.2.1"), ("docs", "")])
def test_no_connection_leaves_the_machine(tmp_path: Path, what: str, asked: str) -> None:
    """The control shows that the probe would notice."""
    target = what if what == "control" else str(tmp_path / what)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GX_")}
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", NETWORK_PROBE, target],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**environment, "PYTHONPATH": root, "GX_ANALYTICS_ENABLED": "true"},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line for line in done.stdout.splitlines() if line.startswith("ASKED")]
    assert said == [f"ASKED {asked}".strip()]


def test_importing_validation_does_not_import_great_expectations() -> None:
    code = "import sys, cluster_logs.validation; print('great_expectations' in sys.modules)"
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, cwd=root
    )
    assert done.stdout.strip() == "False"


@pytest.mark.thorough("full size")
def test_a_million_rows_take_seconds(made: SyntheticCluster) -> None:
    import time

    copies = -(-1_000_000 // len(made.jobs))
    jobs = pd.concat([made.jobs] * copies, ignore_index=True).head(1_000_000)
    jobs["job_id"] = jobs.index.astype(str)
    jobs.loc[:999, "duration_s"] = -1.0
    validate_table(jobs.head(10), "jobs")  # the import counts elsewhere
    begin = time.process_time()
    report = validate_table(jobs, "jobs")
    assert time.process_time() - begin < 20
    assert report.success
    assert len(report.failing) == 1000
