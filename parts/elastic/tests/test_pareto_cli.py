"""`lucid pareto` on a small log of elastic jobs: real simulations, two processes, a real MLflow server."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, UnknownNameError
from foundation.progress import silent
from foundation.site import Site
from lucid_models.registry import Registry
from parts.elastic.configurations import load_configuration
from parts.elastic.pareto.inputs import Collected, collect_from_log
from parts.elastic.pareto.objectives import covers
from parts.elastic.pareto.plan import SearchSpec, plan_search, plan_study
from parts.elastic.pareto.presented import present, read_front
from parts.elastic.pareto.report import finish_search, pick_configuration
from parts.elastic.pareto.search import parameters_between
from parts.elastic.pareto.size_classes import SearchBounds, WfqParameters
from parts.elastic.pareto.study import (
    ParetoSearch,
    candidates_of,
    held_out_samples,
    run_search,
    search_samples,
)
from pipeline.replay.log_file import LogFile
from pipeline.steps.studies import evaluate
from tests.command_line import Lucid
from tests.small_cluster import CLUSTER, make_jobs
from tests.waiting import wait_until

GPUS = 8
SPEC = SearchSpec(
    evaluations=16,
    jobs_per_sample=60,
    samples=2,
    held_out_samples=2,
    round_size=8,
    preference=("JCT", "Pred_err"),
)
OPTIONS = (
    *("--format", "pcs-csv", "--gpus", str(GPUS), "--evaluations", "16", "--jobs-per-sample", "60"),
    *("--samples", "2", "--held-out-samples", "2", "--round-size", "8"),
)


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which small jobs wait for large ones."""
    rng = np.random.default_rng(3)
    file = tmp_path_factory.mktemp("elastic") / "small.csv"
    at = 0.0
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["app_id", "submit_time", "service", "num_jobs", "sleep_time", "model_name"])
        for i in range(120):
            gap = round(float(rng.exponential(400.0)), 3)
            at = round(at + gap, 3)
            size = round(float(rng.lognormal(6.5, 1.6)), 3)
            model = rng.choice(["Resnet50Model128", "VggnetModel256", "TransformerModel256"])
            writer.writerow([i, at, size, int(rng.choice([1, 2, 4, 8])), gap, model])
    return file


@pytest.fixture(scope="module")
def collected(log: Path) -> Collected:
    return collect_from_log(log, "pcs-csv", gpus=GPUS)


def planned(collected: Collected, folder: Path, **changed: Any) -> ParetoSearch:
    return plan_study(collected, SearchSpec(**{**vars(SPEC), **changed}), out_uri=str(folder), name="small")


@pytest.fixture(scope="module")
def whole(collected: Collected, tmp_path_factory: pytest.TempPathFactory) -> ParetoSearch:
    """A search that ran in one go, in one process."""
    study = planned(collected, tmp_path_factory.mktemp("whole"))
    run_search(study)
    present(study)
    return study


def files(study: ParetoSearch) -> dict[str, bytes]:
    """All that a search knows; not the page, nor a file that a kill left half written."""
    folder = Path(study.uri)
    found = [
        *folder.glob("rounds/*.json"),
        *folder.glob("evaluations/[!.]*.json"),
        *folder.glob("front.json"),
    ]
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


# -- the search ----------------------------------------------------------------------------------------------


def test_the_front_is_judged_by_fresh_samples(whole: ParetoSearch) -> None:
    front = read_front(whole.uri)
    candidates = candidates_of(whole)
    assert front.evaluations == len(candidates) == 16
    assert len({candidate.config for candidate in candidates}) == 16
    fresh = held_out_samples(whole)
    judged = [candidate for candidate in candidates if candidate.knows(fresh)]
    points = [tuple(point.figures[name] for name in front.preference) for point in front.points]
    assert points == sorted(points)
    for candidate in judged:
        assert covers(points, candidate.values(whole, fresh))
    for point in front.points:
        candidate = next(c for c in judged if c.identity == point.identity)
        assert tuple(point.figures[name] for name in front.preference) == candidate.values(whole, fresh)
        assert tuple(point.search_figures.values()) == candidate.values(whole, search_samples(whole))
    # First come first served predicts without an error, and nothing completes jobs later.
    assert front.points[-1].figures["Pred_err:avg"] == 0.0
    assert front.points[0].figures["JCT:avg"] < 0.8 * front.points[-1].figures["JCT:avg"]


def test_candidates_far_from_the_front_cost_one_simulation(whole: ParetoSearch) -> None:
    candidates = candidates_of(whole)
    samples = search_samples(whole)
    tried_once = [c for c in candidates if c.knows(samples[:1]) and not c.knows(samples)]
    assert tried_once
    best = [c.values(whole, samples[:1]) for c in candidates if c.knows(samples)]
    assert all(covers(best, c.values(whole, samples[:1])) for c in tried_once)
    # Who does exactly as another is not tried again, however good.
    assert len(set(best)) == len(best)
    assert any(c.values(whole, samples[:1]) in best for c in tried_once)


@pytest.mark.slow
def test_the_same_front_whatever_the_number_of_workers(
    collected: Collected, whole: ParetoSearch, tmp_path: Path
) -> None:
    study = planned(collected, tmp_path)
    assert study.sha256 == whole.sha256
    run_search(study, workers=2)
    present(study)
    assert files(study) == files(whole)


RUN = """
import sys
from parts.elastic.pareto.study import run_search
from parts.elastic.pareto.study import ParetoSearch
run_search(ParetoSearch.load(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_killed_search_goes_on_where_it_stopped(
    collected: Collected, whole: ParetoSearch, tmp_path: Path
) -> None:
    study = planned(collected, tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, study.uri], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    folder = Path(study.uri, "evaluations")
    try:
        wait_until(lambda: len(list(folder.glob("[!.]*.json"))) >= 2, "two evaluations", every_s=0.005)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    kept = {file: file.stat().st_mtime_ns for file in folder.glob("[!.]*.json")}
    run_search(ParetoSearch.load(study.uri))
    present(study)
    assert files(study) == files(whole)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


def test_a_finished_search_runs_nothing_and_a_larger_one_what_is_new(
    collected: Collected, whole: ParetoSearch, tmp_path: Path
) -> None:
    for name, data in files(whole).items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    assert run_search(planned(collected, tmp_path)) == 0
    larger = planned(collected, tmp_path, evaluations=20)
    assert run_search(larger) > 0
    assert len(candidates_of(larger)) == 24  # whole rounds
    assert {c.identity for c in candidates_of(whole)} < {c.identity for c in candidates_of(larger)}


def test_half_of_a_round_lies_in_the_gaps_of_the_front() -> None:
    """Of four points two are close: most of what is asked for is made of those beside the wide gaps."""
    bounds = SearchBounds((0.001, 10.0))
    known = [
        (WfqParameters(1.0, 1.0, 0.5, 0.5), (0.0, 9.0)),
        (WfqParameters(1.0, 1.0, 0.6, 0.5), (0.01, 8.99)),
        (WfqParameters(9.0, 1.0, 0.6, 0.5), (9.0, 0.0)),
        (WfqParameters(5.0, -3.0, 0.0, 0.9), (10.0, 10.0)),  # not on the front
    ]

    def asked(number: int, tried: Sequence[float] = (0.0, 0.01, 9.0, 10.0)) -> list[WfqParameters]:
        return parameters_between(
            bounds, known, lambda _: True, tried=tried, seed=0, round_number=number, size=10
        )

    found = [one for number in range(1, 4) for one in asked(number)]
    assert len(found) == 30
    assert all(
        low <= value <= high
        for one in found
        for value, (low, high) in zip(vars(one).values(), vars(bounds).values(), strict=True)
    )
    assert sum(one.variation_max > 2.0 for one in found) >= 10
    assert sum(one.weight_decay > 0.0 for one in found) >= 28  # nothing is made of who is not on the front
    assert asked(1) == found[:10]
    # A gap in which many were tried in vain is less worth a try.
    in_vain = [one for number in range(1, 4) for one in asked(number, [0.0, 0.01, *[5.0] * 10**6, 9.0])]
    assert sum(one.variation_max > 2.0 for one in in_vain) < sum(one.variation_max > 2.0 for one in found)
    assert (
        parameters_between(bounds, known[:1], lambda _: True, tried=[0.0], seed=0, round_number=1, size=10)
        == []
    )


def test_another_search_is_not_mixed_in(collected: Collected, whole: ParetoSearch) -> None:
    with pytest.raises(BadInputError, match="holds another search"):
        planned(collected, Path(whole.uri), seed=1)


def test_steps_on_several_machines_give_the_same_front(
    log: Path, whole: ParetoSearch, tmp_path: Path
) -> None:
    """What the DAG does, with documents between the steps as Airflow carries them."""
    plan = plan_search(
        Site(),
        log=LogFile(str(log), "pcs-csv"),
        gpus=GPUS,
        out_uri=str(tmp_path),
        asked={**vars(SPEC), "evaluations": "", "seed": None} | {"evaluations": 16},
    )
    assert plan["rounds"] == 2
    uri = plan["study_uri"]
    asks = [*(("round", number) for number in range(4)), ("confirm", 0), ("hold_out", 0)]
    study = ParetoSearch.load(uri)
    for stage, number in asks:
        tasks = json.loads(json.dumps(study.tasks(study.ask(stage, number), 3)))
        assert all(len(task["identities"]) <= 3 for task in tasks)
        if number in (2, 3):  # rounds that the plan does not have: one task without work
            assert [task["identities"] for task in tasks] == [[]]
        for task in reversed(tasks):
            evaluate(progress=silent, **task)
    done = finish_search(study_uri=uri)
    assert json.loads(json.dumps(done))["mlflow_path"] is None
    assert read_front(uri).points == read_front(whole.uri).points
    picked = pick_configuration(Site(), front_id=done["front"][0]["front_id"], study_uri=uri)
    assert picked["settings"] == done["front"][0]["settings"]
    with pytest.raises(UnknownNameError, match=r"'c99'.*c1"):
        pick_configuration(Site(), front_id="c99", study_uri=uri)


# -- where jobs come from ------------------------------------------------------------------------------------


def test_jobs_of_a_lake_are_those_known_before_the_held_out_days(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    jobs = make_jobs(jobs=400)
    lake.write_jobs(CLUSTER, jobs)
    names = ["vc0", "vc1", "vc2"]
    lake.write_nodes(CLUSTER, pd.DataFrame({"virtual_cluster": names, "nodes": 7, "gpus_per_node": 4}))
    asked = {"hold_out_days": 5, "virtual_cluster": "vc1", "jobs_per_sample": 40}
    plan = plan_search(Site(lake=str(tmp_path / "lake"), cluster=CLUSTER), asked=asked)
    study = ParetoSearch.load(plan["study_uri"])
    until = jobs["submit_time"].max() - pd.Timedelta(days=5)
    of_one = jobs[(jobs["virtual_cluster"] == "vc1") & (jobs["gpus"] > 0)]
    ended = of_one["submit_time"] + pd.to_timedelta(of_one["duration_s"], unit="s")
    assert study.jobs == int((of_one["end_time"].fillna(ended) <= until).sum())
    assert (study.gpus, study.whole_gpus) == (28, True)
    assert any("no speed-up curve and are taken as rigid" in remark for remark in study.remarks)
    linear = plan_search(
        Site(lake=str(tmp_path / "lake"), cluster=CLUSTER), asked={**asked, "scaling": "linear"}
    )
    assert not ParetoSearch.load(linear["study_uri"]).whole_gpus
    rigid = plan_search(
        Site(lake=str(tmp_path / "lake"), cluster=CLUSTER),
        asked={**asked, "evaluations": 3, "round_size": 3, "samples": 1},
    )
    assert run_search(ParetoSearch.load(rigid["study_uri"])) > 3
    assert present(ParetoSearch.load(rigid["study_uri"])).points
    with pytest.raises(UnknownNameError, match=r"vc9.*vc0, vc1, vc2"):
        plan_search(
            Site(lake=str(tmp_path / "lake"), cluster=CLUSTER), asked={**asked, "virtual_cluster": "vc9"}
        )


# -- the command ---------------------------------------------------------------------------------------------


def test_an_operators_session(
    lucid: Lucid, log: Path, whole: ParetoSearch, mlflow_server: str, tmp_path: Path
) -> None:
    arguments = ("pareto", "search", "--jobs", log, *OPTIONS, "--preference", "JCT:avg", "Pred_err:avg")
    tracked = ("--workers", "1", "--track", "--tracking-uri", mlflow_server, "--json")
    said = lucid(*arguments, *tracked)
    assert said.code == 0, said.err
    found = said.json
    assert [row["front_id"] for row in found["front"]] == [p.front_id for p in read_front(whole.uri).points]
    page = Path(found["study"], "front.html").read_text()
    assert "http-equiv" not in page  # it is finished
    assert "Plotly.newPlot" in page
    assert "cdn.plot.ly" not in page.replace("https://cdn.plot.ly/world", "")[:20_000]

    again = lucid(*arguments, *tracked).json
    assert again["executed"] == 0
    assert again["run_id"] == found["run_id"]  # one search is one run
    registry = Registry(mlflow_server)
    (run,) = registry.find_runs("lucid-pareto", {"pareto_study": whole.sha256})
    assert run.metrics["front_points"] == len(found["front"])
    assert registry.read_run_file(run.run_id, "front.html").decode() == page

    shown = lucid("pareto", "show", "--cluster", "small", "--tracking-uri", mlflow_server, "--json").json
    assert shown["front"] == found["front"] == lucid("pareto", "show", "--json").json["front"]
    assert "c1" in lucid("pareto", "show").out

    first = found["front"][0]
    picked = lucid("pareto", "pick", "c1", "--run", run.run_id, "--tracking-uri", mlflow_server, "--json")
    assert picked.json["settings"] == first["settings"]
    assert load_configuration("pcs-c1.json") == read_front(whole.uri).points[0].config
    replayed = lucid(
        *("simulate", "--jobs", log, "--format", "pcs-csv", "--gpus", str(GPUS)),
        *("--gpus-per-node", str(GPUS), "--policy", "pcs", "--setting", "pcs.configuration=pcs-c1.json"),
        *("--out", tmp_path / "o", "--json"),
    )
    assert replayed.code == 0, replayed.err
    assert replayed.json[0]["jobs"] == 120


def test_fronts_are_compared_on_samples_of_their_own(
    lucid: Lucid, whole: ParetoSearch, tmp_path: Path
) -> None:
    theirs = tmp_path / "front.csv"
    theirs.write_text(
        "idx;T;W;zeta;delta;thresholds;rates\n"
        "0;9;1;0.0;0.5;[inf];['1']\n"
        "1;1;1;0.5;0.5;[900, inf];['9/10', '1/10']\n"
    )
    said = lucid(
        *("pareto", "compare", "--front", theirs, "--study", whole.uri, "--samples", "2", "--workers", "1"),
        "--json",
    )
    assert said.code == 0, said.err
    found = said.json
    fifo = found["theirs"][0]
    assert fifo["Pred_err:avg"] == 0.0
    assert fifo["covered"]
    assert fifo["gap_pct"] <= 0
    assert found["covered"] == sum(row["covered"] for row in found["theirs"])
    own = lucid(
        *("pareto", "compare", "--front", Path(whole.uri, "front.json"), "--study", whole.uri),
        *("--samples", "2", "--workers", "1", "--json"),
    ).json
    assert own["covered"] == own["points"]
    assert own["hypervolume_ratio"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search",), "Give either a log file"),
        (("search", "--jobs", "{log}", "--format", "pcs-csv"), "--gpus N"),
        (("search", "--jobs", "{log}", *OPTIONS, "--preference", "JCT:avg"), "two or more"),
        (("search", "--jobs", "{log}", *OPTIONS, "--preference", "JCT", "speed"), "Unknown metric 'speed'"),
        (("search", "--jobs", "{log}", *OPTIONS, "--scaling", "no"), "linear, rigid"),
        (("show",), "There is no search"),
        (("pick", "c1", "--study", "nowhere"), "nowhere has no front"),
    ],
)
def test_what_cannot_be_is_said(lucid: Lucid, log: Path, arguments: tuple[str, ...], message: str) -> None:
    said = lucid("pareto", *(argument.format(log=log) for argument in arguments))
    assert said.code == 1
    assert message in said.err
    assert said.err.count("Error:") == 1
