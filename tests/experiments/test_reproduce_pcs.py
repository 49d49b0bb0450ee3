"""`lucid reproduce pcs`: the evaluation of PCS on a trace, and the page that it writes."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import numpy as np
import pytest

from experiments.reproduction.pcs import published
from experiments.reproduction.pcs.fronts import chosen
from experiments.reproduction.pcs.replays import RIVALS, read_trace, replay
from parts.elastic.rules.wfq import WfqConfig

SECTIONS = ("fig7_policies", "fig3_fronts", "fig5_percentiles", "unfairness", "fig9_costs", "replays")


@dataclass(frozen=True)
class Point:
    front_id: str
    config: WfqConfig
    figures: dict[str, float] = field(default_factory=dict)


def write_trace(path: Path, jobs: int = 120) -> Path:
    rng = np.random.default_rng(3)
    models = ("DcganModel256", "VggnetModel256", "ChatbotModel256", "LinearModel")
    at, lines = 0, ["app_id,submit_time,service,num_jobs,sleep_time,model_name"]
    for i in range(jobs):
        gap = round(float(rng.exponential(120)))
        at += gap
        service = round(float(np.exp(rng.normal(7, 1.5))), 1)
        lines.append(f"{i},{at},{service},{rng.choice([1, 2, 4])},{gap},{models[i % 4]}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_the_report_has_every_figure_and_a_second_run_repeats_it(lucid, tmp_path):
    trace = write_trace(tmp_path / "small.csv")
    words = (
        *("reproduce", "pcs", "--jobs", trace, "--gpus", "4", "--folder", "kept", "--workers", "1"),
        *("--evaluations", "6", "--jobs-per-sample", "60", "--parameter-evaluations", "3"),
        *("--foretold-max", "20", "--json"),
    )
    first = lucid(*words, "--out", "report", "--write", "docs/page.md")
    assert first.code == 0, first.err
    rows = {row["policy"]: row for row in first.json["policies"]}
    assert list(rows) == list(published.COLUMNS)
    assert rows["afs"]["jct"] == 1.0
    assert rows["elastic_fifo"]["error_pct"] == rows["elastic_fifo"]["p99_error_pct"] == 0.0
    assert rows["themis"]["foretold"] == 20
    assert all(row["jobs"] == 120 for row in rows.values())
    for key in SECTIONS:
        assert (tmp_path / "report" / f"{key}.csv").is_file(), key
    page = (tmp_path / "docs" / "page.md").read_text()
    for image in ("fig7_policies", "fig3_fronts", "fig5_percentiles", "fig9_costs"):
        assert f"](images/page.{image}.png)" in page
        assert (tmp_path / "docs" / "images" / f"page.{image}.png").is_file()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept" / "replays").iterdir()}
    again = lucid(*words, "--out", "report")
    assert again.json["policies"] == first.json["policies"]
    assert again.json["front"] == first.json["front"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "kept" / "replays").iterdir()} == kept


def test_where_it_goes_must_be_said(lucid, tmp_path):
    done = lucid("reproduce", "pcs", "--jobs", write_trace(tmp_path / "small.csv"))
    assert done.code != 0
    assert "--out DIR" in done.err


def test_columns_are_chosen_by_fresh_figures():
    def point(name, jct, error, classes=2):
        bounds = tuple(float(i + 1) for i in range(classes - 1))
        config = WfqConfig((*bounds, inf), (1 / classes,) * classes, 0.5, 0.5)
        return Point(name, config, {"JCT:avg": jct, "Pred_err:avg": error})

    points = [
        point("short", 100.0, 20.0),
        point("middle", 140.0, 5.0),
        point("long", 290.0, 1.0),
        point("too long", 310.0, 0.5),
        point("fifo", 200.0, 0.0, classes=1),
    ]
    picked = {key: variant.source for key, variant in chosen(points).items()}
    assert picked == {"pcs-jct": "ours, short", "pcs-bal": "ours, middle", "pcs-pred": "ours, long"}


def test_a_replay_that_is_kept_is_told_again(tmp_path):
    trace = read_trace(write_trace(tmp_path / "trace_0e4a51_short.csv", 40), "pcs-csv", 4)
    assert trace.like == "0e4a51"
    fifo = next(each for each in RIVALS if each.policy == "elastic_fifo")
    found = replay(trace, fifo, foretold_max=10, folder=tmp_path / "kept")
    assert replay(trace, fifo, foretold_max=10, folder=tmp_path / "kept") == found
    assert found["foretold"] == found["jobs"] == 40
    assert found["jct_s"]["curve"] == sorted(found["jct_s"]["curve"])
    assert found["jct_s"]["curve"][50] == found["jct_s"]["p50"]


@pytest.mark.parametrize("trace", published.FIGURE_7)
def test_published_columns_are_complete(trace):
    row = published.FIGURE_7[trace]
    assert list(row) == list(published.COLUMNS)
    assert row["afs"].jct == 1.0
    assert row["elastic_fifo"].error_pct == 0.0
    assert row["pcs-jct"].jct < row["pcs-bal"].jct < row["pcs-pred"].jct < row["elastic_fifo"].jct
