"""The lake's table of node states: counts merge by time, gaps are held across ingests."""

from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.ingest import ingest_log
from cluster_logs.lake import Lake
from cluster_logs.node_series import read_node_series
from cluster_logs.removal import holdings, remove_cluster
from foundation.errors import BadInputError, NotFoundError
from tests.reference import ROOT

MINUTE = pd.Timedelta(minutes=1)
START = pd.Timestamp("2017-10-03 23:58", tz="UTC")


def rows_of(busy: list[int], *, start: pd.Timestamp = START, origin: str = "published", **columns: object):
    return pd.DataFrame(
        {
            "time": [start + minute * MINUTE for minute in range(len(busy))],
            "total": 20,
            "busy": busy,
            "held": False,
            "origin": origin,
            **columns,
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def test_the_same_counts_twice_change_nothing_and_days_are_files(lake: Lake) -> None:
    counts = rows_of([12, 13, 14, 15])

    assert lake.write_node_states("c", counts) == 2
    assert lake.write_node_states("c", counts) == 0
    assert [str(day) for day in lake.dates("c", "node_states")] == ["2017-10-03", "2017-10-04"]
    assert lake.read_node_states("c")["busy"].tolist() == [12, 13, 14, 15]
    assert lake.read_node_states("c", START + MINUTE, START + 3 * MINUTE)["busy"].tolist() == [13, 14]


def test_a_gap_is_held_from_the_lakes_last_count_on(lake: Lake) -> None:
    lake.write_node_states("c", rows_of([12, 15]))
    lake.write_node_states("c", rows_of([0, 0, 14], start=START + 2 * MINUTE, idle=[20, 20, 6]))

    states = lake.read_node_states("c")
    assert states["busy"].tolist() == [12, 15, 15, 15, 14]
    assert states["held"].tolist() == [False, False, True, True, False]
    # Whether nodes idled is not known either.
    assert states["idle"].isna().tolist() == [True, True, True, True, False]
    zero = read_node_series(states, gaps="zero")
    assert zero.running.tolist() == [12, 15, 0, 0, 14]


def test_a_late_count_replaces_a_held_one_and_not_the_other_way_round(lake: Lake) -> None:
    lake.write_node_states("c", rows_of([12, 0, 13]))
    lake.write_node_states("c", rows_of([12, 11, 13]))
    lake.write_node_states("c", rows_of([12, 0, 13]))

    assert lake.read_node_states("c")["busy"].tolist() == [12, 11, 13]


def test_counts_stand_above_what_is_derived_of_jobs(lake: Lake) -> None:
    midnight = pd.Timestamp("2017-10-04", tz="UTC")
    lake.write_node_states("c", rows_of([5, 6], start=midnight, origin="derived"))
    lake.write_node_states("c", rows_of([8], start=midnight, origin="derived"))
    assert lake.read_node_states("c")["busy"].tolist() == [8]

    lake.write_node_states("c", rows_of([9], start=midnight + MINUTE, origin="slurm"))
    lake.write_node_states("c", rows_of([5, 6], start=midnight, origin="derived"))
    assert lake.read_node_states("c")[["busy", "origin"]].to_numpy().tolist() == [[9, "slurm"]]


def test_zeros_that_slurm_was_asked_for_are_zeros(lake: Lake) -> None:
    lake.write_node_states("c", rows_of([15, 0, 0], origin="slurm"))

    assert lake.read_node_states("c")["busy"].tolist() == [15, 0, 0]


def test_real_counts_do_not_mix_with_a_synthetic_log(lake: Lake) -> None:
    from cluster_logs.synthetic import generator

    generator.write_to_lake(generator.synthesize("helios-venus", days=2, seed=1), lake, "made")

    with pytest.raises(BadInputError, match="Real and synthetic rows never mix"):
        lake.write_node_states("made", rows_of([1]))
    lake.write_node_states("made", rows_of([1], origin="derived"))


def test_removing_a_cluster_removes_its_counts(lake: Lake) -> None:
    lake.write_node_states("c", rows_of([1, 2, 3]))
    lake.write_node_states("d", rows_of([4]))

    assert holdings(lake.uri, "c").rows == {"node_states": 3}
    remove_cluster(lake.uri, "c")
    with pytest.raises(NotFoundError, match="no node_states of cluster 'c'"):
        lake.read_node_states("c")
    assert lake.read_node_states("d")["busy"].tolist() == [4]


def test_a_minute_that_is_there_twice_is_an_error(tmp_path: Path, lake: Lake) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("time,busy,total\n60,1,2\n60,2,2\n")

    with pytest.raises(BadInputError, match="two rows for 1970-01-01 00:01:00"):
        ingest_log(source_format="node-sequence", input_uri=str(path), cluster="c", lake_uri=lake.uri)
    path.write_text("time,vc,busy,total\n60,a,1,2\n60,b,2,2\n60,,3,4\n")
    ingest_log(source_format="node-sequence", input_uri=str(path), cluster="c", lake_uri=lake.uri)
    states = lake.read_node_states("c")
    assert states["busy"].tolist() == [3, 1, 2]


@pytest.mark.reference
def test_phillys_nodes_in_the_lake_are_those_of_the_file(lake: Lake) -> None:
    path = ROOT / "data/philly/philly_node_sequence.csv.gz"
    report = ingest_log(
        source_format="node-sequence", input_uri=str(path), cluster="philly", lake_uri=lake.uri
    )

    assert (report.rows_in, report.rows_kept) == (105_644, 105_644)
    states = lake.read_node_states("philly")
    # 1,081 minutes of 26 October, 10 of 3 December and 40 of 6 December.
    assert int(states["held"].sum()) == 1_131
    of_lake, of_file = read_node_series(states), read_node_series(path)
    assert (of_lake.running == of_file.running).all()
    assert (of_lake.held == of_file.held).all()
