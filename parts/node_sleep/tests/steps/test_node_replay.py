"""`lucid nodes replay`: what it says and writes, from the outside."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.reference import ROOT

BIN_S = 600
DAYS = 16
HEADER = "time,busy,total\n"


def busy_at(minute: int) -> int:
    hour = minute // 60 % 24
    return 30 + (20 if 8 <= hour < 20 else 0) + (minute // 10 * 7 % 5)


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nodes") / "nodes.csv"
    rows = (f"{minute * 60},{busy_at(minute)},80\n" for minute in range(0, DAYS * 1440, 5))
    path.write_text(HEADER + "".join(rows))
    return path


def test_a_replay_prints_figures_and_leaves_its_bins(lucid, counts: Path, tmp_path: Path) -> None:
    said = lucid(
        "nodes", "replay", "--series", counts, "--control", "buffer", "--buffer", 4, "--start", "1970-01-15",
        "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    document = said.json
    assert {
        "asleep_mean", "wake_ups_per_day", "nodes_per_wake_up", "utilisation_before_pct",
        "utilisation_after_pct", "shortages", "node_minutes_short",
    } <= set(document)  # fmt: skip
    assert document["settings"]["buffer_nodes"] == 4
    assert [point["buffer_nodes"] for point in document["buffer_curve"]] == list(range(1, 13))
    assert document["oracle"]["asleep_mean"] > 0
    # 0.8 kW, three times with cooling.
    assert document["energy"]["kwh"] == pytest.approx(document["asleep_mean"] * 2.4 * 24 * document["days"])

    rows = list(csv.DictReader((tmp_path / "out/bins.csv").open()))
    assert len(rows) == 2 * 144
    assert rows[0]["time"] == "1970-01-15 00:00:00"
    asleep = [int(row["total"]) - int(row["active"]) - int(row["booting"]) for row in rows]
    assert sum(asleep) / len(asleep) == pytest.approx(document["asleep_mean"], abs=1)
    assert sum(float(row["node_minutes_short"]) for row in rows) == document["node_minutes_short"]
    assert (tmp_path / "out/nodes.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out/replay.json").exists()


def test_settings_are_chosen_on_the_weeks_before(lucid, counts: Path, tmp_path: Path) -> None:
    said = lucid("nodes", "replay", "--series", counts, "--start", "1970-01-15", "--out", tmp_path, "--json")
    assert said.code == 0, said.err
    assert said.json["choice"]["past_weeks"] == 2
    # Every morning needs 20 nodes more than a buffer of 12 has.
    assert not said.json["choice"]["best_buffer"]["within_limits"]
    assert "Nothing tried kept the limits" in said.json["why"]

    loose = lucid(
        "nodes", "replay", "--series", counts, "--start", "1970-01-15", "--most-short", 500,
        "--most-wake-ups", 2, "--out", tmp_path, "--json",
    )  # fmt: skip
    assert loose.json["choice"]["best_buffer"]["within_limits"]
    assert loose.json["asleep_mean"] > said.json["asleep_mean"]


@pytest.fixture(scope="module")
def restless_counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine days whose quarters differ by what nothing foretells: that ends the learning early."""
    path = tmp_path_factory.mktemp("nodes") / "restless.csv"
    more = np.repeat(np.random.default_rng(0).normal(0, 10, 4 * 9), 36)
    busy = (round(busy_at(at * 10) + more[at]) for at in range(9 * 144))
    path.write_text(HEADER + "".join(f"{at * BIN_S},{count},80\n" for at, count in enumerate(busy)))
    return path


@pytest.mark.slow
def test_a_forecast_is_learned_from_the_days_before(lucid, restless_counts: Path, tmp_path: Path) -> None:
    said = lucid(
        "nodes", "replay", "--series", restless_counts, "--start", "1970-01-08", "--buffer", 2, "--out",
        tmp_path, "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert said.json["settings"]["control"] == "forecast"
    assert said.json["choice"] is None
    assert said.json["asleep_mean"] > 0
    rows = list(csv.DictReader((tmp_path / "bins.csv").open()))
    running, forecast = (np.array([float(row[name]) for row in rows]) for name in ("running", "forecast"))
    assert ((forecast >= 20) & (forecast <= 65)).all()
    # The mean of the next five hours, nearer than what runs now.
    later = np.array([running[at + 1 : at + 31].mean() for at in range(len(rows) - 30)])
    assert np.abs(forecast[:-30] - later).mean() < 0.6 * np.abs(running[:-30] - later).mean()


def test_a_file_is_no_folder_for_results(lucid, counts: Path, tmp_path: Path) -> None:
    said = lucid("nodes", "replay", "--series", counts, "--control", "buffer", "--out", counts)
    assert (said.code, "is not a folder" in said.err) == (1, True)


def test_without_a_week_before_nothing_is_chosen(lucid, counts: Path, tmp_path: Path) -> None:
    forecast = tmp_path / "forecast.csv"
    forecast.write_text(
        "time,forecast\n" + "".join(f"{at * BIN_S},40\n" for at in range(14 * 144, DAYS * 144))
    )
    asked = ("nodes", "replay", "--series", counts, "--out", tmp_path, "--json")
    alone = lucid(*asked)
    assert (alone.json["settings"]["control"], alone.json["choice"]) == ("buffer", None)
    assert "No week lies before" in alone.json["why"]

    given = lucid(*asked, "--forecast", forecast, "--start", "1970-01-15")
    assert (given.json["settings"]["control"], given.json["choice"]) == ("forecast", None)
    assert "no past weeks" in given.json["why"]


def test_too_few_days_for_a_model_have_the_best_naive_forecast(lucid, tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text(HEADER + "".join(f"{at * BIN_S},{round(busy_at(at * 10))},80\n" for at in range(144)))
    asked = ("nodes", "replay", "--series", path, "--control", "causal", "--buffer", 5)
    said = lucid(*asked, "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    assert said.json["settings"]["control"] == "forecast"
    assert "0 days lie before the start and a model learns from 7: of the naive forecasts" in said.json["why"]
    rows = list(csv.DictReader((tmp_path / "out" / "bins.csv").open()))
    assert all(row["forecast"] for row in rows)


def test_rules_without_boots_do_not_say_for_how_long_nodes_were_short(
    lucid, counts: Path, tmp_path: Path
) -> None:
    said = lucid(
        "nodes", "replay", "--series", counts, "--start", "1970-01-15", "--rules", "bins", "--out",
        tmp_path, "--json",
    )  # fmt: skip
    assert said.json["shortages"] > 0
    assert said.json["node_minutes_short"] is said.json["oracle"]["node_minutes_short"] is None
    assert said.json["choice"]["best_buffer"]["node_minutes_short_per_day"] is None
    assert "node-minutes" not in said.json["why"]
    rows = list(csv.DictReader((tmp_path / "bins.csv").open()))
    assert {row["node_minutes_short"] for row in rows} == {""}


def test_people_see_the_curve_and_the_oracle(lucid, counts: Path, tmp_path: Path) -> None:
    said = lucid(
        "nodes", "replay", "--series", counts, "--control", "oracle", "--setting", "past_threshold=0.5",
        "--out", tmp_path,
    )  # fmt: skip
    assert said.code == 0, said.err
    for words in ("oracle", "Plain buffers on the same days", "past_threshold 0.5", "plain buffer has"):
        assert words in said.out


def test_the_artifact_replays_with_its_forecast_alone(lucid, counts: Path, tmp_path: Path) -> None:
    forecast = tmp_path / "forecast.csv"
    rows = (f"{at * BIN_S},{busy_at(at * 10)}.7\n" for at in range(DAYS * 144))
    forecast.write_text("time,forecast\n" + "".join(rows))
    asked = ("nodes", "replay", "--series", counts, "--control", "helios-artifact", "--out", tmp_path)
    said = lucid(*asked, "--forecast", forecast, "--parameters", "earth", "--json")
    assert said.code == 0, said.err
    assert (said.json["rules"], said.json["gaps"], said.json["settings"]["least_nodes"]) == (
        "bins",
        "zero",
        5,
    )
    assert said.json["node_minutes_short"] is None

    refused = lucid(*asked)
    assert refused.code == 1
    assert "--forecast FILE" in refused.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--control", "cautious"), ("cautious", "oracle")),
        (("--gaps", "fill"), ("fill", "hold")),
        (("--rules", "hours"), ("hours", "minutes")),
        (("--setting", "sigma=3"), ("sigma", "buffer_nodes")),
        (("--setting", "boot_s=3"), ("boot_s=3",)),
        (("--buffer", "10000000000000000000000"), ("buffer_nodes", "10,000,000")),
        (("--setting", "peak_bins=none"), ("peak_bins", "none")),
        (("--parameters", "pluto"), ("pluto", "philly")),
        (("--start", "1971-01-01"), ("no whole bin",)),
        (("--boot-failures", "1.5"), ("1.5",)),
        (("--control", "helios-artifact", "--rules", "minutes"), ("--rules bins",)),
    ],
)
def test_what_cannot_be_replayed_is_one_clear_line(
    lucid, counts: Path, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = lucid("nodes", "replay", "--series", counts, "--out", tmp_path / "out", *options)
    assert said.code == 1
    lines = said.err.strip().splitlines()
    assert lines[-1].startswith("Error: ")
    assert "unexpected" not in lines[-1]
    for word in words:
        assert word in lines[-1]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("0,5\n600,soon\n", ("row 2", "600,soon")),
        ("0,5\n1200,5\n", ("not the bin after",)),
        ("0,5\n0,5\n", ("not the bin after",)),
        ("7,5\n607,5\n", ("not the bin after",)),
        ("", ("has no forecast",)),
        ("0,5\n600,5\n", ("does not forecast all bins",)),
    ],
)
def test_a_forecast_that_cannot_be_used_is_named(
    lucid, counts: Path, tmp_path: Path, rows: str, words: tuple[str, ...]
) -> None:
    forecast = tmp_path / "forecast.csv"
    forecast.write_text("time,forecast\n" + rows)
    said = lucid(
        "nodes", "replay", "--series", counts, "--control", "helios-artifact", "--forecast", forecast,
        "--out", tmp_path,
    )  # fmt: skip
    assert said.code == 1
    for word in words:
        assert word in said.err.strip().splitlines()[-1]


@pytest.mark.reference
def test_philly_in_december_is_as_published(lucid, tmp_path: Path) -> None:
    published = ROOT / "reference/helios/ces_philly_dec_artifact.csv.gz"
    said = lucid(
        "nodes", "replay", "--series", published, "--forecast", published, "--control", "helios-artifact",
        "--parameters", "philly", "--out", tmp_path, "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert [
        round(said.json[name], 2)
        for name in (
            "asleep_mean", "wake_ups_per_day", "nodes_per_wake_up", "utilisation_before_pct",
            "utilisation_after_pct", "shortages",
        )
    ] == [100.1, 0.5, 27.14, 68.98, 90.41, 7]  # fmt: skip
