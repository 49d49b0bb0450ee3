"""The lake's table of inference load: files in two layouts, gaps flagged, bins that merge by time."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.ingest import IngestReport, IngestSettings, ingest_log
from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import FIRST_DAY, synthesize, write_to_lake
from cluster_logs.validation import validate_table
from foundation.errors import BadInputError, NotFoundError
from parts.lending.load.lake_table import synthetic_inference_load
from parts.lending.load.table import LoadReading
from tests.reference import ROOT


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def ingest(lake: Lake, path: Path, **load: object) -> IngestReport:
    return ingest_log(
        source_format="inference-load",
        input_uri=str(path),
        cluster="c",
        lake_uri=lake.uri,
        settings=IngestSettings(beside=LoadReading(**load)),  # type: ignore[arg-type]
    )


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "load.csv"
    path.write_text(text)
    return path


def test_requests_are_a_share_of_the_full_load(lake: Lake, tmp_path: Path) -> None:
    path = written(tmp_path, "time,requests_per_s\n2026-03-01 00:00,10\n2026-03-01 00:05,30\n")

    ingest(lake, path, servers=94, full_load_per_s=40.0)
    load = lake.read_series("inference_load", "c")
    assert load["usage"].tolist() == [0.25, 0.75]
    assert load["servers"].tolist() == [94, 94]
    assert str(load["time"].iloc[1]) == "2026-03-01 00:05:00+00:00"


def test_without_a_full_load_the_mean_of_what_was_measured_is_65_percent(lake: Lake, tmp_path: Path) -> None:
    rows = "time_s,requests_per_s,gap\n0,10,0\n300,30,0\n600,900,1\n900,0,0\n"

    ingest(lake, written(tmp_path, rows), zeros_are_gaps=True)
    load = lake.read_series("inference_load", "c")
    # The mean is that of 10 and 30: neither the gap's nor the zero was measured. At most 98 % is in use.
    assert load["usage"].tolist() == pytest.approx([0.325, 0.975, 0.98, 0.0])
    assert load["gap"].tolist() == [False, False, True, True]
    assert load["servers"].isna().all()


def test_the_rates_of_one_of_several_services_are_named(lake: Lake, tmp_path: Path) -> None:
    path = written(tmp_path, "time_s,M_Small,m_large,usage\n0,10,1,0.9\n600,30,1,0.9\n")

    ingest(lake, path, rates_column="m_small", full_load_per_s=40.0)
    assert lake.read_series("inference_load", "c")["usage"].tolist() == [0.25, 0.75]
    with pytest.raises(BadInputError, match="m_mid"):
        ingest(lake, path, rates_column="m_mid")


def test_a_gap_replaces_no_measured_bin(lake: Lake, tmp_path: Path) -> None:
    ingest(lake, written(tmp_path, "time_s,usage,gap\n0,0.5,0\n300,0.6,1\n"))
    ingest(lake, written(tmp_path, "time_s,usage,gap\n0,0.9,1\n300,0.7,0\n"))

    load = lake.read_series("inference_load", "c")
    assert list(zip(load["usage"], load["gap"], strict=True)) == [(0.5, False), (0.7, False)]


def test_bad_files_and_facts_are_named(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="two rows for 1970-01-01"):
        ingest(lake, written(tmp_path, "time_s,usage\n0,0.5\n0,0.6\n"))
    with pytest.raises(BadInputError, match="usage"):
        ingest(lake, written(tmp_path, "time_s,load\n0,0.5\n"))
    with pytest.raises(BadInputError, match="-3 inference servers"):
        LoadReading(servers=-3)
    with pytest.raises(BadInputError, match="full load of 0"):
        LoadReading(full_load_per_s=0.0)
    with pytest.raises(NotFoundError, match="no inference_load of cluster 'c'"):
        lake.read_series("inference_load", "c")


@given(usage=st.lists(st.floats(0, 1), min_size=1, max_size=12), split=st.integers(0, 12))
@settings(max_examples=20, deadline=None)
def test_in_one_piece_or_two_the_table_is_the_same(
    usage: list[float], split: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start = pd.Timestamp("2026-03-01 23:30", tz="UTC")
    rows = pd.DataFrame(
        {
            "time": [start + pd.Timedelta(minutes=5 * number) for number in range(len(usage))],
            "usage": usage,
            "servers": 8,
            "gap": [value < 0.1 for value in usage],
            "origin": "published",
        }
    )
    whole, parts = (Lake(str(tmp_path_factory.mktemp("lake"))) for _ in range(2))
    whole.write_series("inference_load", "c", rows)
    for part in (rows.iloc[split:], rows.iloc[:split], rows):
        parts.write_series("inference_load", "c", part)
    pd.testing.assert_frame_equal(
        whole.read_series("inference_load", "c"), parts.read_series("inference_load", "c")
    )
    assert whole.write_series("inference_load", "c", rows) == 0


def test_a_synthetic_cluster_has_inference_servers_that_swing_by_day(lake: Lake, tmp_path: Path) -> None:
    write_to_lake(synthesize("helios-venus", days=2, seed=3), lake, "made")

    load = lake.read_series("inference_load", "made")
    assert len(load) == 2 * 288
    assert validate_table(load, "inference_load", tmp_path / "docs").success
    with pytest.raises(BadInputError, match="synthetic"):
        lake.write_series("inference_load", "made", load.assign(origin="published"))


def test_a_longer_synthetic_load_begins_with_the_shorter_one() -> None:
    short, long = (synthetic_inference_load(FIRST_DAY, days, 7, 80) for days in (3, 28))
    pd.testing.assert_frame_equal(long.iloc[: len(short)], short)
    by_hour = long.groupby(long["time"].dt.hour)["usage"].mean()
    assert 0.35 < by_hour.min() < 0.5 < 0.8 < by_hour.max() < 0.95
    assert abs(long["usage"].mean() - 0.65) < 0.03
    assert np.median(np.abs(np.diff(long["usage"]))) < 0.03
    assert long["servers"].unique().tolist() == [94]


@pytest.mark.reference
def test_the_published_fortnight_is_read_as_it_stands(lake: Lake) -> None:
    report = ingest(lake, ROOT / "data/lyra/inference_load.csv.gz", servers=94)

    assert (report.rows_in, report.rows_kept) == (4_032, 4_032)
    load = lake.read_series("inference_load", "c")
    assert load["usage"].between(0, 0.98).all()
    assert 0.6 < load["usage"].mean() < 0.7
    assert load["gap"].sum() > 0
