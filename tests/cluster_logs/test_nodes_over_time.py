"""Nodes files with moments in them: dates, times, Helios's daily table; bad rows are named."""

import pandas as pd
import pytest

from cluster_logs.readers.nodes_over_time import read_nodes_over_time
from foundation.errors import BadInputError


def read(tmp_path, text, **options):
    (tmp_path / "nodes.csv").write_text(text)
    nodes = read_nodes_over_time(str(tmp_path / "nodes.csv"), **options)
    assert list(nodes.columns) == ["virtual_cluster", "from_time", "nodes", "gpus_per_node"]
    return [
        (name, None if pd.isna(since) else since.isoformat(), count, gpus)
        for name, since, count, gpus in nodes.itertuples(index=False, name=None)
    ]


def test_a_file_without_moments_holds_from_the_beginning(tmp_path):
    assert read(tmp_path, "vc,node num\n6214e9,64\nb,2\n") == [("6214e9", None, 64, 8), ("b", None, 2, 8)]


@pytest.mark.parametrize("column", ["from", "date"])
def test_moments_are_on_the_logs_clock(tmp_path, column):
    rows = ("a,1,", "a,2,2017-11-01", "a,0,2017-11-05 12:30:00", "a,9,2017-12-01T00:00:00Z")
    text = "\n".join([f"virtual_cluster,nodes,{column}", *rows, ""])
    assert read(tmp_path, text, gpus_per_node=4, time_zone="US/Pacific") == [
        ("a", None, 1, 4),
        ("a", "2017-11-01T07:00:00+00:00", 2, 4),
        ("a", "2017-11-05T20:30:00+00:00", 0, 4),
        ("a", "2017-12-01T00:00:00+00:00", 9, 4),
    ]


def test_helios_daily_table(tmp_path):
    text = "date,vc1,vc2,total\n2020-04-01,16,8,24\n2020-04-02,24,0,24\n"
    assert read(tmp_path, text, time_zone="Asia/Shanghai") == [
        ("vc1", "2020-03-31T16:00:00+00:00", 2, 8),
        ("vc2", "2020-03-31T16:00:00+00:00", 1, 8),
        ("vc1", "2020-04-01T16:00:00+00:00", 3, 8),
        ("vc2", "2020-04-01T16:00:00+00:00", 0, 8),
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("virtual_cluster,nodes,from\na,1,yesterday\n", "row 1"),
        ("virtual_cluster,nodes,from\na,1,2020-01-01\na,-2,2020-01-02\n", "row 2"),
        ("virtual_cluster,nodes,from\na,1,2020-01-01\na,2,2020-01-01 00:00:00\n", "'a' twice"),
        ("virtual_cluster,nodes\na,1\na,2\n", "'a' twice"),
        ("virtual_cluster,nodes,from\n", "no virtual cluster"),
        ("date,vc1\n2020-04-01,9\n", "row 1"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, text, named):
    with pytest.raises(BadInputError, match=named):
        read(tmp_path, text)
