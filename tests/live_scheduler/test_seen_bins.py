"""Bins of busy nodes: the highest of each, over restarts; gaps are held and say so."""

import json
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from live_scheduler.memory.records import KEPT_S, SeenBins

BIN_S = 600
START_S = 2_900_000 * BIN_S
MOST_BINS = KEPT_S // BIN_S
FILE = "busy_nodes.jsonl"


def bins_of(folder: Path) -> SeenBins:
    return SeenBins(folder / FILE, "busy", bin_s=BIN_S)


def test_a_finished_bin_holds_the_most_that_was_seen(tmp_path: Path) -> None:
    bins = bins_of(tmp_path)
    for at_s, busy in ((0, 3), (200, 7), (599, 2), (600, 1), (700, 4)):
        bins.note(START_S + at_s, busy)
    assert bins.values().tolist() == [7.0]
    assert bins.newest_start_s == START_S
    assert not bins.newest_is_held
    assert bins_of(tmp_path).values().tolist() == [7.0]


def test_a_gap_is_held_and_said(tmp_path: Path) -> None:
    bins = bins_of(tmp_path)
    bins.note(START_S, 5)
    bins.note(START_S + BIN_S, 6)
    later = bins_of(tmp_path)  # three bins later, after a restart
    later.note(START_S + 4 * BIN_S + 10, 1)
    assert later.values().tolist() == [5.0, 5.0, 5.0, 5.0]
    assert later.newest_is_held
    assert bins_of(tmp_path).newest_is_held
    later.note(START_S + 5 * BIN_S, 9)
    assert later.values().tolist() == [5.0, 5.0, 5.0, 5.0, 1.0]
    assert not later.newest_is_held
    flags = [json.loads(line).get("held", False) for line in (tmp_path / FILE).open()]
    assert flags == [False, True, True, True, False]


def test_torn_lines_and_clocks_that_go_back_lose_nothing_else(tmp_path: Path) -> None:
    bins = bins_of(tmp_path)
    for number, busy in enumerate((2, 4, 6)):
        bins.note(START_S + number * BIN_S, busy)
    with (tmp_path / FILE).open("a") as stream:
        stream.write('{"start_s": 17\n{"start_s": "x", "busy": 3}\n[]\n{"start_s": ')
    again = bins_of(tmp_path)
    assert again.values().tolist() == [2.0, 4.0]
    again.note(START_S - 100 * BIN_S, 50)
    again.note(START_S + 2 * BIN_S, 7)
    again.note(START_S + 3 * BIN_S, 1)
    assert again.values().tolist() == [2.0, 4.0, 7.0]


@given(
    readings=st.lists(
        st.tuples(st.integers(1, 5_000), st.integers(0, 100), st.booleans()), min_size=1, max_size=40
    )
)
def test_bins_are_whole_and_in_a_row_whatever_restarts(
    readings: list[tuple[int, int, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bins, now_s, seen = bins_of(Path(folder)), float(START_S), []
        for later_s, busy, restarts in readings:
            now_s += later_s
            if restarts:
                bins = bins_of(Path(folder))
            bins.note(now_s, busy)
            seen.append(busy)
        values = bins.values()
        if len(values):
            assert bins.newest_start_s is not None
            assert bins.newest_start_s + BIN_S <= now_s < bins.newest_start_s + 2 * BIN_S
            assert set(values) <= set(map(float, seen))
        assert bins_of(Path(folder)).values().tolist() == values.tolist()


def test_five_weeks_are_kept(tmp_path: Path) -> None:
    bins = bins_of(tmp_path)
    bins.note(START_S, 1)
    bins.note(START_S + (MOST_BINS + 500) * BIN_S, 2)
    assert len(bins.values()) <= MOST_BINS
    assert len(bins_of(tmp_path).values()) <= MOST_BINS
