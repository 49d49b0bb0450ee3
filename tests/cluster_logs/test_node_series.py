"""Node sequences as regular series: gaps held and counted, bins their highest minute, real sequences."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.node_series import NodeSeries, read_node_series
from foundation.errors import BadInputError, UnknownNameError
from tests.reference import ROOT

MINUTE_S = 60
# 2017-10-03 00:00 in seconds since 1970: a whole number of ten minutes.
START_S = 1_506_988_800


def write_sequence(folder: Path, running: list[int | None], total: int = 20) -> Path:
    """One row a minute; None: no row."""
    path = folder / "nodes.csv"
    rows = [
        f"{START_S + MINUTE_S * minute},{count},{total}"
        for minute, count in enumerate(running)
        if count is not None
    ]
    path.write_text("\n".join(["time,active,total", *rows]) + "\n")
    return path


def test_zeros_of_failed_telemetry_and_missing_rows_hold_the_last_count(tmp_path: Path) -> None:
    path = write_sequence(tmp_path, [12, 15, 0, 0, 14, None, None, 13, 9, 0])

    held, zero = (read_node_series(path, gaps=gaps) for gaps in ("hold", "zero"))

    assert held.running.tolist() == [12, 15, 15, 15, 14, 14, 14, 13, 9, 0]
    assert np.flatnonzero(held.held).tolist() == [2, 3, 5, 6]
    assert held.total.tolist() == [20] * 10
    assert zero.running.tolist() == [12, 15, 0, 0, 14, 0, 0, 13, 9, 0]
    assert held.times_s.tolist() == [START_S + MINUTE_S * minute for minute in range(10)]


def test_a_cluster_that_empties_is_empty(tmp_path: Path) -> None:
    # Nine nodes may end one job; of a hundred nodes twelve may.
    assert not read_node_series(write_sequence(tmp_path, [9, 0, 0, 9])).held.any()
    assert not read_node_series(write_sequence(tmp_path, [12, 0, 0], total=100)).held.any()


def test_a_cluster_without_any_node_was_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"time,running,total\n{START_S},2,4\n{START_S + 60},0,0\n{START_S + 120},0,4\n")

    series = read_node_series(path)

    assert (series.running.tolist(), series.total.tolist()) == ([2, 2, 0], [4, 4, 4])
    assert series.held.tolist() == [False, True, False]


def test_a_bin_is_its_highest_counted_minute_and_held_without_any(tmp_path: Path) -> None:
    running = [11, 19, *[None] * 9, 14, 12, *[None] * 7, *[0] * 10, 17]
    bins = read_node_series(write_sequence(tmp_path, running)).bins(600)

    # The second bin's held minutes are 19, its counted ones are 14 and 12; the third holds its highest.
    assert bins.running.tolist() == [19, 14, 14, 17]
    assert bins.held.tolist() == [False, False, True, False]
    assert (bins.start_s, bins.step_s) == (START_S, 600)


def test_bins_are_whole_multiples_of_their_length(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"time,busy,total\n{START_S + 540},4,9\n{START_S + 600},5,9\n{START_S + 660},3,9\n")
    series = read_node_series(path)

    assert series.bins(600).times_s.tolist() == [START_S, START_S + 600]
    assert series.bins(600).running.tolist() == [4, 5]
    with pytest.raises(BadInputError, match="not a whole number of steps of 60 s"):
        series.bins(90)


def test_nodes_of_one_virtual_cluster_of_all_and_of_the_whole_cluster(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    header = "time,virtual_cluster,busy,total,down\n"
    path.write_text(header + f"{START_S},a,1,4,1\n{START_S},b,2,4,\n{START_S + 60},a,2,4,\n")
    shared = tmp_path / "shared.csv"
    shared.write_text(path.read_text() + f"{START_S},,2,7,1\n{START_S + 60},,3,7,\n")

    assert read_node_series(path, virtual_cluster="a").running.tolist() == [1, 2]
    assert read_node_series(path).running.tolist() == [3, 2]
    # A node that both may use counts once, and one that is down is none to be had.
    assert read_node_series(shared).running.tolist() == [2, 3]
    assert read_node_series(shared).total.tolist() == [6, 7]
    with pytest.raises(BadInputError, match="no nodes of virtual cluster 'c'"):
        read_node_series(path, virtual_cluster="c")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("yesterday,1,2", "row 2: A time was expected"),
        (",1,2", "row 2: The source does not say when this was counted"),
        ("60,,2", "row 2: A count is not there"),
        ("60,-1,2", "row 2: A count is below zero"),
        ("60,1.5,2", "row 2: A number was expected"),
        ("60,3,2", "row 2: More nodes are in some state than there are in all"),
        ("60,1", "row 2: The row has more or fewer columns"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"time,busy,total\n0,1,2\n{row}\n120,1,2\n")

    with pytest.raises(BadInputError, match=message):
        read_node_series(path)


def test_a_wrong_year_makes_no_endless_series(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("time,busy,total\n2017-10-03,1,2\n2017-10-03 00:00:01,1,2\n2071-10-03 00:00:02,1,2\n")

    with pytest.raises(BadInputError, match="steps of 1 s"):
        read_node_series(path, step_s=1)


def test_unusable_questions_are_refused(tmp_path: Path) -> None:
    path = write_sequence(tmp_path, [1])

    assert read_node_series(path).bins(600).running.tolist() == [1]
    with pytest.raises(UnknownNameError, match="treatment of gaps"):
        read_node_series(path, gaps="fill")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="A step of 0 s"):
        read_node_series(path, step_s=0)
    path.write_text("time,busy,total\n")
    with pytest.raises(BadInputError, match="counts no nodes"):
        read_node_series(path)


counts = st.lists(st.one_of(st.none(), st.integers(0, 20)), min_size=1, max_size=60)


@given(counts=counts, first=st.integers(0, 20))
def test_every_step_is_counted_or_held_and_bins_are_the_highest_minute(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int | None], first: int
) -> None:
    running = [first, *counts]
    rows = pd.DataFrame(
        {
            "time": pd.to_datetime(
                [START_S + MINUTE_S * minute for minute, count in enumerate(running) if count is not None],
                unit="s",
                utc=True,
            ),
            "total": 20,
            "busy": [count for count in running if count is not None],
            "held": False,
            "origin": "published",
        }
    )
    series = read_node_series(rows, step_s=MINUTE_S)
    zeros = read_node_series(rows, step_s=MINUTE_S, gaps="zero")

    assert len(series.running) == (~series.held).sum() + series.held.sum()
    counted = ~series.held
    stated = np.array([-1 if count is None else count for count in running])[: len(series.running)]
    assert (series.running[counted] == stated[counted]).all()
    assert set(stated[series.held]) <= {-1, 0}
    assert (series.running[1:][series.held[1:]] == series.running[:-1][series.held[1:]]).all()
    assert (zeros.running == np.where(series.held, 0, series.running)).all()
    for bin_s in (60, 300, 600):
        binned(series, bin_s)


def binned(series: NodeSeries, bin_s: int) -> None:
    bins = series.bins(bin_s)
    for index, start_s in enumerate(bins.times_s):
        inside = (series.times_s >= start_s) & (series.times_s < start_s + bin_s)
        counted = inside & ~series.held
        assert bins.held[index] == (not counted.any())
        highest = series.running[counted].max() if counted.any() else bins.running[max(0, index - 1)]
        assert bins.running[index] == highest


def test_what_is_held_depends_on_the_past_alone() -> None:
    rows = pd.DataFrame(
        {
            "time": pd.to_datetime([START_S + MINUTE_S * minute for minute in range(6)], unit="s", utc=True),
            "total": 20,
            "busy": [15, 0, 0, 13, 0, 20],
            "held": False,
            "origin": "published",
        }
    )
    whole = read_node_series(rows)
    for known in range(1, len(rows)):
        part = read_node_series(rows.iloc[:known], step_s=MINUTE_S)
        assert part.running.tolist() == whole.running[:known].tolist()
        assert part.held.tolist() == whole.held[:known].tolist()


@pytest.mark.reference
def test_philly_has_the_gaps_that_are_known_of_it() -> None:
    path = ROOT / "data/philly/philly_node_sequence.csv.gz"
    series = read_node_series(path)
    times = pd.to_datetime(series.times_s, unit="s")
    autumn = (times >= "2017-10-03") & (times < "2017-12-01")

    # 84,361 of 84,960 minutes are in the file, and 1,081 of them are zeros of failed telemetry.
    assert autumn.sum() == 84_960
    assert series.held[autumn].sum() == 84_960 - 84_361 + 1_081
    bins = series.bins(600)
    night = pd.to_datetime(bins.times_s[bins.held], unit="s")
    assert [str(at) for at in night[night >= "2017-12-01"]] == [
        "2017-12-06 17:50:00",
        "2017-12-06 18:00:00",
        "2017-12-06 18:10:00",
    ]
    assert series.running.min() == 1


@pytest.mark.reference
def test_bins_are_those_that_the_published_control_was_given() -> None:
    given_bins = pd.read_csv(ROOT / "reference/helios/ces_philly_dec_artifact.csv.gz", parse_dates=["time"])
    bins = read_node_series(ROOT / "data/philly/philly_node_sequence.csv.gz", gaps="zero").bins(600)
    own = pd.Series(bins.running, index=pd.to_datetime(bins.times_s, unit="s"))

    assert len(given_bins) == 2016
    assert (own[given_bins["time"]].to_numpy() == given_bins["running"].to_numpy()).all()


@pytest.mark.reference
def test_earth_in_september_has_no_gap() -> None:
    bins = read_node_series(ROOT / "data/helios/earth_sep_nodes.csv.gz", time_zone="Asia/Shanghai")

    assert (len(bins.running), bins.step_s, int(bins.held.sum())) == (3024, 600, 0)
    assert bins.running.max() <= bins.total.max() == 154
