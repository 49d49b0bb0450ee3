"""`lucid reproduce helios`: each printed number has a row, measured or with the reason why not."""

from pathlib import Path

import numpy as np
import pytest

from experiments.reproduction.helios.evaluation import evaluate_helios, report_of
from experiments.reproduction.helios.noise import helios_noise
from experiments.reproduction.helios.published import HeliosRow, frame_of, set_beside
from experiments.reproduction.report import to_html, to_markdown
from foundation.errors import BadInputError
from tests.reference import ROOT

WEEK = "Philly week1vc48"


@pytest.fixture(scope="module")
def rows() -> list[HeliosRow]:
    return evaluate_helios(ROOT, twin_days=4)


def ours(rows: list[HeliosRow], table: str, scheme: str, metric: str) -> float | None:
    return next(row.ours for row in rows if row.key == (table, scheme, metric))


@pytest.mark.reference
def test_every_row_has_a_number_of_ours_or_a_reason(rows: list[HeliosRow]) -> None:
    assert len(rows) == len({row.key for row in rows})
    assert all(row.remark for row in rows)
    assert all(row.ours is None or np.isfinite(row.ours) for row in rows)
    assert {row.scheme for row in rows if "synthetic" in row.metric} >= {
        "FIFO",
        "QSSF, the paper's rules",
        "QSSF, the artifact's rules",
    }
    # Of SenseTime's four clusters there is no job log: no scheduler is measured on them.
    schedulers = [row for row in rows if row.table in ("Table 3", "Table 4") and row.published is not None]
    schedulers = [row for row in schedulers if "Philly" not in row.metric]
    assert len(schedulers) == 48
    assert all(row.ours is None and row.published is not None for row in schedulers)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("scheme", "ratios"), [("QSSF", (651.231, 7.723, 1.575)), ("SJF", (241.412, 8.693, 1.583))]
)
def test_queuing_on_the_loaded_week_is_the_references(
    rows: list[HeliosRow], scheme: str, ratios: tuple[float, ...]
) -> None:
    groups = ("<15 min", "15 min-6 h", ">6 h")
    measured = [ours(rows, "Table 4", f"FIFO / {scheme}", f"queuing of jobs {g}, {WEEK}") for g in groups]
    assert measured == pytest.approx(list(ratios), abs=5e-4)
    assert ours(rows, "Table 3", "QSSF", f"queuing jobs, {WEEK}") == 6975
    assert ours(rows, "Table 3", "SJF", f"queuing jobs, {WEEK}") == 7871


@pytest.mark.reference
def test_what_public_data_decides_agrees(rows: list[HeliosRow]) -> None:
    for metric, decimals in (
        ("nodes asleep, Philly", 1),
        ("wake-ups a day, Philly", 1),
        ("nodes per wake-up, Philly", 1),
        ("node utilisation before %, Philly", 1),
        ("node utilisation after %, Philly", 1),
        ("nodes asleep, Earth", 1),
        ("node utilisation after %, Earth", 1),
    ):
        row = next(row for row in rows if row.key == ("Table 5", "CES", metric))
        assert row.ours == pytest.approx(row.published, abs=0.6 * 10**-decimals), metric
    for metric in ("mean GPUs, Helios", "mean duration s, Helios"):
        row = next(row for row in rows if row.key == ("Table 2", "", metric))
        assert row.ours == pytest.approx(row.published, rel=0.002), metric
    assert (
        ours(rows, "Figure 15", "CES", "bins in which as many nodes are awake as in the artifact, %, Philly")
        == 100
    )


@pytest.mark.reference
def test_figures_that_public_data_decides_agree(rows: list[HeliosRow]) -> None:
    by_hour = [row for row in rows if row.table == "Figure 2b" and row.metric.startswith("Venus")]
    assert len(by_hour) == 24
    assert [row.ours for row in by_hour] == pytest.approx([row.published for row in by_hour], abs=0.01)
    states = [row for row in rows if row.table in ("Figure 1b", "Figure 7a") and row.ours is not None]
    assert len(states) == 9
    assert [row.ours for row in states] == pytest.approx([row.published for row in states], abs=0.1)


@pytest.mark.reference
def test_the_page_shows_both_numbers_and_says_what_is_missing(rows: list[HeliosRow]) -> None:
    text = to_markdown(report_of(rows, "lucid reproduce helios"))
    assert "| QSSF | mean queuing, Philly | 7,783 |" in text
    assert "Not measured" in text
    assert "<table>" in to_html(text, "Helios", {})


def test_errors_of_estimates_are_distributed_as_helios() -> None:
    run_s = np.full(100_000, 1_000.0)
    error = np.abs(helios_noise(run_s, 0) / run_s - 1)
    shares = np.histogram(error, [0, 0.1, 0.5, 1, 10, 100])[0] / len(error)
    assert shares == pytest.approx([0.1, 0.4, 0.2, 0.2, 0.1], abs=0.01)
    assert (helios_noise(run_s, 0) < 0).mean() == pytest.approx(0.147, abs=0.01)
    np.testing.assert_array_equal(helios_noise(run_s, 3), helios_noise(run_s, 3))


def test_a_published_number_without_one_of_ours_says_why() -> None:
    published = [
        HeliosRow("Table 3", "QSSF", "mean JCT, Venus", 18_349.0),
        HeliosRow("Table 3", "QSSF", "mean JCT, Philly", 37_324.0),
        HeliosRow("Table 5", "CES", "nodes asleep, Saturn", 20.0),
    ]
    rows = set_beside(published, {("Table 3", "QSSF", "mean JCT, Philly"): (1.0, "another copy")})
    assert [row.ours for row in rows] == [None, 1.0, None]
    assert [row.remark for row in rows] == [
        "the job logs of SenseTime's clusters are not among the data",
        "another copy",
        "no public series of this cluster's nodes",
    ]
    assert list(frame_of(rows).columns) == ["table", "scheme", "metric", "published", "ours", "remark"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"published_tables\.csv is not there"):
        evaluate_helios(tmp_path)
