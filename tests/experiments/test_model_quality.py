"""`lucid evaluate`, and the page that `lucid evaluate all` writes: every table, and losses named."""

import re
from pathlib import Path

import pytest

from experiments.model_quality.duration_comparison import DurationComparison
from experiments.model_quality.page import COMMAND, FILES, ModelQuality, measure
from experiments.model_quality.tables import MODELS, tables
from experiments.model_quality.throughput_comparison import ThroughputComparison
from experiments.model_quality.utilisation import UtilisationQuality
from experiments.pages import written
from parts.horus.evaluation import TARGETS

PAGE = Path(__file__).parents[2] / "docs" / "model_quality.md"


def row(model: str, error: float, worse_by: tuple[float, float, float], **more: object) -> dict[str, object]:
    low, mean, high = worse_by
    return {
        "model": model,
        "fit_s": 1.5,
        "predict_ms": 0.25,
        "worse_by": mean,
        "worse_by_low": low,
        "worse_by_high": high,
        "mae": error,
        "kendall_tau": 0.5,
        "spearman": 0.6,
        "mae_log10": error,
        "r2_mean_head": 0.1,
        "coverage_p50": 0.5,
        "coverage_p90": 0.91,
        "negative_share": 0.0,
        "jobs": 100,
        "bins": 144,
        **more,
    }


@pytest.fixture
def quality() -> ModelQuality:
    """A measurement in which one rival is ahead for sure, one perhaps, and one is behind."""
    seen = [
        row("ebm", 3.5, (0.0, 0.0, 0.0)),
        row("lightgbm", 3.25, (-0.5, -0.25, -0.125)),
        row("rf", 3.375, (-0.5, -0.125, 0.125)),
        row("zero", 6.0, (2.0, 2.5, 3.0)),
    ]
    at = [(series, lead) for series in ("jobs", "gpus") for lead in ("g5", "g1")]
    rows = [found | {"series": series, "lead": lead} for series, lead in at for found in seen]
    groups = [
        {"model": "ebm", "split": split, "group": group, "jobs": 50, "mae_log10": 0.25}
        for split, group in (("user", "known"), ("user", "new"), ("virtual_cluster", "vc|1"))
    ]
    durations = DurationComparison(rows=seen, by_group=groups)
    packing = [
        {
            "model": "utilisation_sum",
            "protocol": "fixed",
            "accuracy": None,
            "severe_errors": None,
            "precision_mean": 0.981,
            "recall_mean": 0.874,
            "precision_min": 0.9,
            "recall_min": None,
        }
    ]
    clusters = [
        {
            "cluster": "Philly",
            "series": "GPU jobs",
            "train_days": 3.0,
            "weights": (0.25, 0.5, 0.25),
            "by_model": {
                name: {
                    "model": name,
                    "mae": error,
                    "worse_by": error - 2.5,
                    "worse_by_low": error - 2.6,
                    "worse_by_high": error - 2.4,
                }
                for name, error in (
                    ("ebm", 2.5),
                    ("rolling_median_12", 3.0),
                    ("zero", 2.75),
                    ("lightgbm", 2.0),
                )
            },
        }
    ]
    graphs = [
        {
            "target": target,
            "model": model,
            "mae": error,
            "mape": 0.2,
            "rmse": error,
            "spearman": None,
            "careful_mae": error,
            "under_share": 0.1,
            "under_models": 0.1,
            "under_mean": 0.5,
            "within_models": 0.7,
            "fit_s": None,
            "predict_ms": 0.1,
        }
        for target in TARGETS
        for model, error in (("formula", 14.0), ("mean", 29.0), ("ridge", 13.0))
    ]
    figures = [f"{target}_{which}" for target in TARGETS for which in ("measured", "expected", "careful")]
    by_model = [{"model": "VGG", "configurations": 6, **dict.fromkeys(figures, 40.0)}]
    return ModelQuality(
        ThroughputComparison(rows, dict.fromkeys(at)),
        rows,
        clusters,
        durations,
        durations,
        packing,
        UtilisationQuality(graphs, graphs, [found | {"cost": 3.0} for found in graphs], by_model),
        dict.fromkeys(FILES, "0123456789abcdef" * 4),
        "abc",
        "a machine",
        120.0,
    )


def test_losses_are_named_as_plainly_as_wins(quality: ModelQuality) -> None:
    standing = tables(quality)["standing"]
    behind = [line for line in standing.splitlines() if "from graphs" not in line]
    assert len(behind) == 6
    for line in behind:
        assert re.search(r"; \*\*behind\*\* lightgbm 3.250*, rf 3.3750* \(may be chance\)\.$", line)
    graphs = [line for line in standing.splitlines() if "from graphs" in line]
    assert [line.endswith("**behind** ridge 13.0.") for line in graphs] == [True, True, False]
    assert graphs[2].endswith("mean error 14 MiB (the mean predictor: 29); **behind** ridge 13.")


def test_the_page_has_a_place_for_every_table_and_no_other(quality: ModelQuality) -> None:
    made = tables(quality)
    page = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- (\w+): begin -->", page)) == set(made)
    filled = written(page, made)
    assert COMMAND in filled
    assert "4.607 | 4.491 | 5.807 | 5.132 | 4.125" in filled  # the paper's own row
    assert "vc\\|1" in filled  # a name cannot break a table
    assert written(filled, made) == filled


def test_a_cluster_is_shown_beside_its_best_naive_forecast(quality: ModelQuality) -> None:
    row = tables(quality)["throughput_clusters"].splitlines()[2]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:6] == ["Philly", "GPU jobs", "3", "25% / 50% / 25%", "2.500", "3.000"]
    assert cells[6:] == ["ours better", "2.750 (zero)", "ours better", "2.000"]


def test_every_number_of_a_table_is_one_that_was_measured(quality: ModelQuality) -> None:
    table = tables(quality)["throughput_jobs_g5"].splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == ["lightgbm", "rf", "**ebm**", "zero"]
    assert "-0.250 (-0.500 to -0.125) | ours worse | 1.5 | 0.2 |" in table[2]


def test_missing_data_is_named(tmp_path: Path) -> None:
    from foundation.errors import NotFoundError

    with pytest.raises(NotFoundError, match=re.escape(FILES[0])):
        measure(tmp_path)


def test_contract_models_have_words() -> None:
    named = {"ebm", "lightgbm", "rf", "lucid_published", "last_value", "rolling_median_12", "ewma", "tsafrir"}
    assert named | {"helios_mix", "neural", "tree", "pairwise", "utilisation_sum", "with_leak"} <= set(MODELS)


@pytest.mark.slow
def test_a_log_a_lake_and_errors_on_the_command_line(lucid, tmp_path: Path) -> None:
    made = lucid("synthesize", "--like", "helios-venus", "--days", 3, "--seed", 2, "--lake", "lake",
                 "--out", "log.csv", "--format", "helios", "--json")  # fmt: skip
    assert made.code == 0, made.err
    options = ("--test-days", 1, "--no-rivals", "--lead", "g1", "--json")
    of_lake = lucid(
        "evaluate", "throughput", "--format", "lake", "--input", "lake", "--out", "pics", *options
    )
    assert of_lake.code == 0, of_lake.err
    rows = of_lake.json["rows"]
    assert {(found["series"], found["lead"]) for found in rows} == {("jobs", "g1"), ("gpus", "g1")}
    assert {"ebm", "last_value", "rolling_median_12"} <= {found["model"] for found in rows}
    assert all(Path(picture).is_file() for picture in of_lake.json["pictures"])
    for arguments, says in (
        (("throughput", "--input", "no.csv"), "--input 'no.csv' is not a file"),
        (("throughput", "--input", "log.csv"), "has no column 'time'"),
        (("duration", "--format", "lake", "--input", "lake", "--train-days", 40), "split elsewhere"),
        (("duration", "--format", "lake", "--input", "none", "--train-days", 1), "holds no cluster"),
        (("packing", "--singles", "log.csv"), "only one file is given"),
    ):
        refused = lucid("evaluate", *arguments)
        assert refused.code == 1
        assert says in refused.err
        assert refused.out == ""
