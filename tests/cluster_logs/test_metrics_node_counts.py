"""Counts of nodes from a real Prometheus that has scraped an exporter of Slurm's nodes."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cluster_logs.metrics.node_counts import NodeCountQuery, parse_node_queries, read_node_counts
from cluster_logs.metrics.prometheus import PrometheusQuery
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from tests.prometheus_server import PrometheusServer, SeriesPoints, prometheus_with

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
T0 = START.timestamp()
MINUTES = 60
# The exporter is silent for ten minutes, and counts no node as allocated for one.
SILENT = range(20, 30)


def history() -> Iterator[SeriesPoints]:
    """A scrape a minute, 7 s off the steps: 20 nodes, of which more and more are busy; two are down."""
    scraped = [minute for minute in range(MINUTES) if minute not in SILENT]
    busy = {minute: 3 + minute // 10 for minute in scraped}
    counts = {
        "alloc": {minute: busy[minute] - 2 for minute in scraped},
        "mix": dict.fromkeys(scraped, 1),
        "comp": dict.fromkeys(scraped, 1),
        "idle": {minute: 18 - busy[minute] for minute in scraped},
        "resv": dict.fromkeys(scraped, 0),
        "down": dict.fromkeys(scraped, 1),
        "drain": dict.fromkeys(scraped, 1),
        **{state: dict.fromkeys(scraped, 0) for state in ("err", "fail", "maint")},
    }
    for state, values in counts.items():
        points = [(T0 + 60 * minute + 7, float(value)) for minute, value in values.items()]
        yield f"slurm_nodes_{state}", {"instance": "slurm"}, points
    for partition, nodes in (("a", 12), ("b", 8)):
        labels = {"instance": "slurm", "partition": partition}
        yield "partition_nodes", labels, [(T0 + 60 * minute + 7, float(nodes)) for minute in scraped]
        yield "partition_busy", labels, [(T0 + 60 * minute + 7, nodes / 4) for minute in scraped]
    for pod, node, running in (("p1", "n1", 1.0), ("p2", "n1", 1.0), ("p3", "n2", 1.0), ("p4", "n3", 0.0)):
        labels = {"namespace": "ml", "pod": pod}
        points = [(T0 + 60 * minute + 7, running) for minute in scraped]
        gpus = [(at, 1.0) for at, _ in points]
        yield (
            "kube_pod_container_resource_requests",
            {**labels, "node": node, "resource": "nvidia_com_gpu"},
            gpus,
        )
        yield "kube_pod_status_phase", {**labels, "phase": "Running"}, points
        yield "kube_node_info", {"node": pod}, gpus
    yield "half_nodes", {"instance": "slurm"}, [(T0 + 60 * minute + 7, 0.5) for minute in scraped]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with prometheus_with(tmp_path_factory.mktemp("prometheus"), history()) as running:
        yield running


def asked(prometheus: PrometheusServer, *queries: str, label: str | None = None) -> NodeCountQuery:
    range_of = PrometheusQuery(prometheus.url, START, START + timedelta(minutes=MINUTES), 60.0, piece_s=1_200)
    return NodeCountQuery(range_of, parse_node_queries(queries), label)


def test_the_default_queries_count_every_state_that_the_exporter_has(prometheus: PrometheusServer) -> None:
    read = read_node_counts(asked(prometheus))
    counts, account = read.rows.to_pylist(), read.accounting

    # The first scrape lies in the first minute, which is counted at its end.
    assert [row["busy"] for row in counts] == [3 + m // 10 for m in range(MINUTES) if m not in SILENT]
    assert {(row["total"], row["down"], row["busy"] + row["idle"]) for row in counts} == {(20, 2, 18)}
    assert {(row["asleep"], row["booting"], row["virtual_cluster"]) for row in counts} == {(None,) * 3}
    # Where the exporter was silent there is no count, although a bare metric would repeat its last.
    assert (account.rows_in, account.kept) == (MINUTES - len(SILENT), MINUTES - len(SILENT))


def test_an_operators_queries_count_by_virtual_cluster(prometheus: PrometheusServer) -> None:
    queries = ("busy=last_over_time(partition_busy[$step])", "total = last_over_time(partition_nodes[$step])")
    rows = read_node_counts(asked(prometheus, *queries, label="partition")).rows

    counts = {(row["virtual_cluster"], row["busy"], row["total"]) for row in rows.to_pylist()}
    assert counts == {("a", 3, 12), ("b", 2, 8)}
    with pytest.raises(BadInputError, match="The query of busy nodes gives 2 series"):
        read_node_counts(asked(prometheus, *queries))


def test_nodes_of_kubernetes_are_counted_by_the_query_of_the_docs(prometheus: PrometheusServer) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    queries = re.findall(r"    --query '([^']*kube[^']*)'", page)
    rows = read_node_counts(asked(prometheus, *queries)).rows

    # Two pods share a node, and the fourth has ended or waits.
    assert {(row["busy"], row["total"]) for row in rows.to_pylist()} == {(2, 4)}


def test_a_moment_of_which_one_count_is_missing_is_skipped(prometheus: PrometheusServer) -> None:
    queries = ("busy=last_over_time(slurm_nodes_mix[$step])", "total=slurm_nodes_alloc + 20")
    account = read_node_counts(asked(prometheus, *queries)).accounting

    # The bare metric repeats its last value for five minutes: four of the silent ones.
    assert (account.rows_in, account.kept, account.skipped["no_value"]) == (54, 50, 4)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (("busy=half_nodes", "total=slurm_nodes_idle"), "gives 0.5, which is no count"),
        (("busy=slurm_nodes_idle - 100", "total=slurm_nodes_idle"), "gives -85, which is no count"),
        (("busy=sum(", "total=slurm_nodes_idle"), "HTTP 400"),
        (("busy=slurm_nodes_idle",), "count busy nodes alone"),
        (("total=slurm_nodes_idle",), "No query counts the busy nodes"),
        (("busy",), "'busy' is no query of a state"),
        (("busy=a", "busy=b"), "has two queries"),
    ],
)
def test_queries_that_count_no_nodes_are_named(
    prometheus: PrometheusServer, queries: tuple[str, ...], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        read_node_counts(asked(prometheus, *queries))


def test_what_the_server_does_not_have_is_not_found(prometheus: PrometheusServer) -> None:
    with pytest.raises(NotFoundError, match="counts no nodes from 2026-03-01"):
        read_node_counts(asked(prometheus, "busy=absent_metric", "total=other_metric"))
    with pytest.raises(UnknownNameError, match="state of nodes"):
        asked(prometheus, "busy=a", "sleepy=b")


def test_more_busy_nodes_than_nodes_are_refused(prometheus: PrometheusServer) -> None:
    read = read_node_counts(asked(prometheus, "busy=slurm_nodes_idle", "total=slurm_nodes_mix"))

    assert read.rows.num_rows == read.accounting.kept == 0
    assert read.accounting.quarantined["more_nodes_than_total"] == read.accounting.rows_in
    assert read.refused.num_rows == read.accounting.rows_in
    assert "1772359260" in read.refused.column("raw_row")[0].as_py()
