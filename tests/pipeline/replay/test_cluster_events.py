"""Sizes over time from the lake, and failures from a file."""

import gzip
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from pipeline.replay.cluster_events import lake_sizes, read_failures
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.workload.cluster_sizes import changing_cluster

ORIGIN = pd.Timestamp("2020-05-02 06:00", tz="UTC")
SHANGHAI = ZoneInfo("Asia/Shanghai")


def test_the_lakes_daily_counts_become_changes_at_midnight(tmp_path):
    lake = Lake(str(tmp_path))
    days = {"2020-05-01": {"a": 2, "b": 3}, "2020-05-03": {"a": 4}, "2020-05-04": {"a": 4, "b": 1, "c": 6}}
    lake.write_nodes(
        "venus",
        pd.DataFrame(
            [
                {"virtual_cluster": name, "date": date.fromisoformat(day), "nodes": nodes, "gpus_per_node": 8}
                for day, counts in days.items()
                for name, nodes in counts.items()
            ]
        ),
    )
    sizes = lake_sizes(Site(lake=str(tmp_path), cluster="venus"), ORIGIN.to_pydatetime(), SHANGHAI)
    spec, changes = changing_cluster(sizes, ORIGIN)
    assert spec.virtual_clusters == {"a": 2, "b": 3, "c": 0}
    # Midnight in Shanghai is 16:00 UTC of the day before: 10 hours after the origin.
    assert changes == (
        SizeChange(10 * 3600.0, "a", 4),
        SizeChange(10 * 3600.0, "b", 0),
        SizeChange(34 * 3600.0, "b", 1),
        SizeChange(34 * 3600.0, "c", 6),
    )
    early = lake_sizes(Site(lake=str(tmp_path), cluster="venus"), datetime(2020, 4, 1, tzinfo=UTC), SHANGHAI)
    assert changing_cluster(early, ORIGIN)[0].virtual_clusters == {"a": 2, "b": 3, "c": 0}


def test_undated_counts_do_not_change(tmp_path):
    Lake(str(tmp_path)).write_nodes(
        "c", pd.DataFrame({"virtual_cluster": ["a"], "nodes": [2], "gpus_per_node": [4]})
    )
    spec, changes = changing_cluster(
        lake_sizes(Site(lake=str(tmp_path), cluster="c"), ORIGIN.to_pydatetime(), SHANGHAI), ORIGIN
    )
    assert (spec, changes) == (ClusterSpec({"a": 2}, 4), ())
    with pytest.raises(NotFoundError):
        lake_sizes(Site(lake=str(tmp_path), cluster="other"), ORIGIN.to_pydatetime(), SHANGHAI)


def failures(tmp_path, text, name="failures.csv"):
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    cluster = ClusterSpec({"a": 4})
    return read_failures(path, origin=ORIGIN, zone=SHANGHAI, cluster=cluster)


@pytest.mark.parametrize("name", ["failures.csv", "failures.csv.gz"])
def test_failures_at_times_and_at_seconds(tmp_path, name):
    text = (
        "virtual_cluster,node,at,down_s\n"
        "a,3,2020-05-02 15:00:00,60\n"  # 07:00 UTC
        "a,0,90.5,1e3\n"
        "a,1,2020-05-02T05:59:00+00:00,100\n"  # a minute before the origin, and 40 s more
        "a,1,2020-05-02T05:00:00+00:00,100\n"  # over before it
    )
    assert failures(tmp_path, text, name) == (
        NodeFailure(0.0, "a", 1, 40.0),
        NodeFailure(90.5, "a", 0, 1000.0),
        NodeFailure(3600.0, "a", 3, 60.0),
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("virtual_cluster,node,at\na,1,5\n", "lacks down_s"),
        ("virtual_cluster,node,at,down_s\nb,1,5,5\n", "row 1 names virtual cluster 'b'"),
        ("virtual_cluster,node,at,down_s\na,1,5,5\na,one,5,5\n", "row 2"),
        ("virtual_cluster,node,at,down_s\na,1,soon,5\n", "row 1"),
        ("virtual_cluster,node,at,down_s\na,1,5,0\n", "row 1"),
        ("virtual_cluster,node,at,down_s\na,1\n", "row 1"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, text, named):
    with pytest.raises(BadInputError, match=named):
        failures(tmp_path, text)
