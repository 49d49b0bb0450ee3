"""The dcgm-exporter's metrics from a real Prometheus, and from servers that misbehave."""

import base64
import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from cluster_logs.metrics.allocations import allocations_from_labels
from cluster_logs.metrics.dcgm import SeriesRules, read_metric_names
from cluster_logs.metrics.join import JoinSettings, join_samples
from cluster_logs.metrics.metric_files import read_samples_file
from cluster_logs.metrics.prometheus import PrometheusQuery, read_prometheus
from cluster_logs.metrics.prometheus_api import MOST_POINTS
from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from tests.prometheus_server import PrometheusServer, SeriesPoints, prometheus_with, write_openmetrics

START = datetime(2024, 3, 1, 10, tzinfo=UTC)
T0 = START.timestamp()
STEP_S = 15.0
UUIDS = [f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in range(3)]
# What each job does to its GPU: utilisation, memory utilisation, memory (MiB), power (W).
JOBS = {"101": (72.0, 31.0, 9_000.0, 250.0), "102": (18.0, 4.0, 2_000.0, 110.0)}
IDLE = (0.0, 0.0, 4.0, 60.0)
UNWELL = "GPU-00000009-0000-0000-0000-000000000000"
BLANK = float(0x7FFFFFF0)
METRICS = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_POWER_USAGE",
)


def history() -> Iterator[SeriesPoints]:
    """GPU 0 runs job 101 for an hour and then 102; GPU 1 is silent after 20 minutes; GPU 2 is cut into parts.

    Samples lie 7 s off the steps, as scrapes do.
    """
    for gpu, uuid in enumerate(UUIDS[:2]):
        spans: list[tuple[str, float, float]] = [("101", 0, 3_600), ("102", 3_600, 7_200)]
        if gpu == 1:
            spans = [("102", 300, 1_200)]
        labels = {"gpu": str(gpu), "UUID": uuid, "Hostname": "node1", "modelName": "NVIDIA A100"}
        for job, begin, end in spans:
            times = [T0 + 7 + t for t in range(int(begin), int(end), 15)]
            for metric, value in zip(METRICS, JOBS[job], strict=True):
                # A scrape in twenty sees the GPU between two kernels; the mean is the job's.
                wave = [0.9 if i % 2 else 1.1 for i in range(len(times))]
                points = [
                    (t, value * (w if metric == METRICS[0] else 1.0))
                    for t, w in zip(times, wave, strict=True)
                ]
                yield metric, {**labels, "hpc_job": job}, points
    part = {"gpu": "2", "UUID": UUIDS[2], "Hostname": "node1", "GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}
    yield METRICS[2], part, [(T0 + 7 + t, 100.0) for t in range(0, 600, 15)]
    # Where a scrape said nothing: NaN and blanks, one of two in a step, and both of 60 s to 89 s.
    labels = {"gpu": "4", "UUID": UNWELL, "Hostname": "node1", "hpc_job": "103"}
    for metric, silence in zip(METRICS, (math.nan, BLANK, BLANK, math.nan), strict=True):
        yield (
            metric,
            labels,
            [(T0 + 7 + t, silence if t in (15, 60, 75, 105) else 40.0 + t / 15) for t in range(0, 240, 15)],
        )
    broken = {"gpu": "3", "UUID": "GPU-9", "Hostname": "node1"}
    yield METRICS[0], broken, [(T0 + 7 + t, 250.0) for t in range(0, 150, 15)]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with prometheus_with(tmp_path_factory.mktemp("prometheus"), history()) as running:
        yield running


def test_the_jobs_utilisations_come_back(prometheus: PrometheusServer) -> None:
    query = PrometheusQuery(
        prometheus.url, START, START + timedelta(hours=2, minutes=10), STEP_S, piece_s=1_800
    )
    batch = read_prometheus(query, environment={})
    batch.accounting.check("Prometheus")
    assert batch.accounting.skipped == {"mig_instance": 40, "no_value": 16}
    assert batch.accounting.quarantined == {"implausible_metric": 10}
    assert batch.refused.num_rows == 10
    assert batch.refused.column("value").to_pylist()[0] == "250.0"
    assert set(batch.samples.column("job_ids").to_pylist()) == {"101", "102", "103"}
    allocations = pd.DataFrame(
        {
            "job_id": ["101", "102", "102"],
            "gpu_uuid": [UUIDS[0], UUIDS[0], UUIDS[1]],
            "start_time": [START, START + timedelta(hours=1), START + timedelta(seconds=300)],
            "end_time": [START + timedelta(hours=1), START + timedelta(hours=2), None],
        }
    )
    from cluster_logs.metrics.allocations import check_allocations
    from cluster_logs.metrics.source_account import SourceAccount

    held = check_allocations(allocations, SourceAccount(source_format="test", source_file="test")).allocations
    jobs = pd.DataFrame({"job_id": ["101", "102"], "submit_time": [pd.Timestamp(START)] * 2})
    found, report = join_samples(batch.samples, held, jobs, JoinSettings(warm_up_s=60))
    assert report.interval_s == STEP_S
    assert found["job_id"].tolist() == ["101", "102"]
    for job, row in zip(JOBS, found.to_dict("records"), strict=True):
        util, mem_util, mem, power = JOBS[job]
        assert row["gpu_util_pct"] == pytest.approx(util, rel=0.001)
        assert row["gpu_mem_util_pct"] == pytest.approx(mem_util)
        assert row["gpu_mem_mib"] == mem
        assert row["power_w"] == pytest.approx(power)
    assert found["observed_gpu_s"].tolist()[0] == pytest.approx(3_600 - 60)
    # GPU 1 went silent after 20 minutes: nothing is taken from the five minutes for which a bare metric
    # would have repeated its last value.
    assert found["observed_gpu_s"].tolist()[1] == pytest.approx((3_600 - 60) + (900 - 60), abs=STEP_S)


def test_pieces_and_steps_do_not_change_what_is_read(prometheus: PrometheusServer) -> None:
    whole = read_prometheus(
        PrometheusQuery(prometheus.url, START, START + timedelta(hours=1), STEP_S), environment={}
    )
    cut = read_prometheus(
        PrometheusQuery(prometheus.url, START, START + timedelta(hours=1), STEP_S, piece_s=STEP_S * 7),
        environment={},
    )
    sort = [("gpu_uuid", "ascending"), ("time", "ascending")]

    def rows(batch: Any) -> list[Any]:
        names = ["time", "gpu_util_pct", "gpu_mem_mib"]
        plain = batch.samples.append_column("uuid", batch.samples.column("gpu_uuid").cast("string"))
        return plain.sort_by([("uuid", "ascending"), sort[1]]).select([*names, "uuid"]).to_pylist()

    assert rows(whole) == rows(cut)
    assert whole.accounting.rows_in == cut.accounting.rows_in
    coarse = read_prometheus(
        PrometheusQuery(
            prometheus.url, START, START + timedelta(hours=1), 60.0, matchers='UUID="' + UUIDS[0] + '"'
        ),
        environment={},
    )
    util = coarse.samples.column("gpu_util_pct").to_pylist()
    assert len(util) == 60
    assert util[10] == pytest.approx(72.0), (
        "a step longer than the scrape interval averages, it does not drop"
    )


def test_a_step_has_the_figure_of_its_good_scrapes(prometheus: PrometheusServer, tmp_path: Path) -> None:
    only = f'UUID="{UNWELL}"'
    query = PrometheusQuery(
        prometheus.url, START, START + timedelta(minutes=4), 30.0, matchers=only, piece_s=90.0
    )
    rows = read_prometheus(query, environment={}).samples.to_pylist()
    told = {(row["time"] - START).total_seconds(): row for row in rows}
    # Step by step two scrapes, of 40 and 41, 42 and 43, ...; one of each of three pairs is silent.
    util = {0: 40.0, 30: 42.5, 90: 46.0, 120: 48.5, 150: 50.5, 180: 52.5, 210: 54.5}
    memory = {0: 40.0, 30: 43.0, 90: 46.0, 120: 49.0, 150: 51.0, 180: 53.0, 210: 55.0}
    for name in ("gpu_util_pct", "gpu_mem_util_pct", "power_w"):
        assert {at: row[name] for at, row in told.items()} == util, name
    assert {at: row["gpu_mem_mib"] for at, row in told.items()} == memory
    # The same scrapes as files: all figures of a job are of the same time, and are those of the server's.
    path = tmp_path / "scrapes.om"
    write_openmetrics(path, (one for one in history() if one[1]["UUID"] == UNWELL))
    files = read_samples_file(str(path)).samples
    scraped = read_prometheus(replace(query, step_s=STEP_S), environment={}).samples
    jobs = pd.DataFrame({"job_id": ["103"], "submit_time": [pd.Timestamp(START)]})
    settings = JoinSettings(warm_up_s=0)
    seen = [
        join_samples(one, allocations_from_labels(one, STEP_S, 2.0), jobs, settings)[0].iloc[0]
        for one in (files, scraped)
    ]
    for name in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "power_w"):
        assert seen[0][name] == seen[1][name], name
    assert seen[0]["gpu_util_pct"] == seen[0]["gpu_mem_util_pct"] == seen[0]["power_w"]


def test_a_range_beyond_the_servers_limit_is_asked_for_in_pieces(prometheus: PrometheusServer) -> None:
    query = PrometheusQuery(
        prometheus.url, START, START + timedelta(seconds=2.5 * MOST_POINTS), 1.0, piece_s=1e9
    )
    assert len(list(query.pieces())) == 3
    batch = read_prometheus(query, environment={})
    assert batch.samples.num_rows > 0


def test_an_unknown_metric_says_what_was_asked(prometheus: PrometheusServer) -> None:
    rules = SeriesRules(
        metrics={"gpu_util_pct": read_metric_names(["gpu_util_pct=NOBODY_HAS:100"])["gpu_util_pct"]}
    )
    query = PrometheusQuery(prometheus.url, START, START + timedelta(minutes=5), rules=rules)
    with pytest.raises(NotFoundError, match=r"avg_over_time\(NOBODY_HAS\[29999ms\]\).*--metric"):
        read_prometheus(query, environment={})


def test_a_query_that_the_server_refuses_is_named(prometheus: PrometheusServer) -> None:
    query = PrometheusQuery(prometheus.url, START, START + timedelta(minutes=5), matchers="UUID=oops")
    with pytest.raises(BadInputError, match=r"GPU_UTIL\{UUID=oops\}.*HTTP 400: .*parse error"):
        read_prometheus(query, environment={})


@contextmanager
def answering(answers: list[tuple[int, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """A server that gives these answers in turn, the last one for ever; yields its address, what it saw."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((parse_qs(urlsplit(self.path).query), self.headers.get("Authorization")))
            status, body = answers[min(len(seen), len(answers)) - 1]
            text = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def matrix(value: str) -> dict[str, Any]:
    series = {"metric": {"UUID": UUIDS[0], "Hostname": "n"}, "values": [[T0 + 30, value]]}
    return {"status": "success", "data": {"resultType": "matrix", "result": [series]}}


def query_of(url: str) -> PrometheusQuery:
    rules = SeriesRules(metrics={"gpu_util_pct": read_metric_names([])["gpu_util_pct"]})
    return PrometheusQuery(url, START, START + timedelta(minutes=1), rules=rules)


def test_a_server_that_stumbles_is_asked_again() -> None:
    waits: list[float] = []
    with answering([(503, "busy"), (429, "slow"), (200, matrix("40"))]) as (url, seen):
        batch = read_prometheus(query_of(url), environment={}, sleep=waits.append)
    assert batch.samples.column("gpu_util_pct").to_pylist() == [40.0]
    assert len(seen) == 3
    assert waits == sorted(waits)
    assert len(waits) == 2


def test_a_server_that_stays_away_is_named_with_the_query() -> None:
    with answering([(503, "busy")]) as (url, _), pytest.raises(ServiceUnavailableError) as caught:
        read_prometheus(query_of(url), environment={}, sleep=lambda seconds: None)
    assert "avg_over_time(DCGM_FI_DEV_GPU_UTIL[29999ms])" in str(caught.value)
    assert "HTTP 503" in str(caught.value)
    with pytest.raises(ServiceUnavailableError, match="ConnectError"):
        read_prometheus(query_of("http://127.0.0.1:9"), environment={}, sleep=lambda seconds: None)


def test_secrets_come_from_the_environment() -> None:
    with answering([(200, matrix("40"))]) as (url, seen):
        read_prometheus(query_of(url), environment={"LUCID_PROMETHEUS_TOKEN": "t0k"})
        read_prometheus(
            query_of(url), environment={"LUCID_PROMETHEUS_USER": "u", "LUCID_PROMETHEUS_PASSWORD": "p"}
        )
        read_prometheus(query_of(url), environment={})
    basic = "Basic " + base64.b64encode(b"u:p").decode()
    assert [authorization for _, authorization in seen] == ["Bearer t0k", basic, None]
    with pytest.raises(BadInputError) as caught:
        query_of("http://user:secret@prometheus:9090")
    assert "secret" not in str(caught.value)
    with (
        answering([(401, "who are you")]) as (url, _),
        pytest.raises(BadInputError, match="PROMETHEUS_TOKEN"),
    ):
        read_prometheus(query_of(url), environment={})


@pytest.mark.parametrize(
    "body",
    [
        "<html>login</html>",
        {"status": "error", "error": "boom"},
        {"status": "success", "data": {"resultType": "scalar"}},
        {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}}]}},
    ],
)
def test_an_answer_that_is_none_is_refused(body: Any) -> None:
    with answering([(200, body)]) as (url, _), pytest.raises(BadInputError, match="DCGM_FI_DEV_GPU_UTIL"):
        read_prometheus(query_of(url), environment={})


@pytest.mark.parametrize("value", ["NaN", "9223372036854775794"])
def test_what_the_exporter_does_not_know_is_skipped(value: str) -> None:
    with answering([(200, matrix(value))]) as (url, _), pytest.raises(NotFoundError, match="no sample"):
        read_prometheus(query_of(url), environment={})
