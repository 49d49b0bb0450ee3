"""The System Tuner on a small congested cluster: real replays, real estimates, no MLflow."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.site import Site
from lucid_models.duration.model import DurationSettings
from lucid_models.packing.tree import PackingSettings
from pipeline.profiling.profile_store import write_profile_set
from pipeline.studies.tuning.plan import TuningSpec, plan_study
from pipeline.studies.tuning.proposal import propose, read_proposal
from pipeline.studies.tuning.report import write_report
from pipeline.studies.tuning.space import (
    SearchSpace,
    TuningBase,
    importances,
    next_trials,
    search_space,
    thresholds_rise,
)
from pipeline.studies.tuning.study import TuningStudy, best_trial, run_study
from profiler_jobs.profile_table import ProfileSet
from simulator.policies.lucid import LucidSettings
from tests.command_line import Lucid
from tests.fixtures import small_profiles
from tests.small_cluster import CLUSTER, FAST, make_jobs
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

FEW = {
    "profiling_limit_s": [60.0, 200.0, 600.0],
    "profiling_max_gpus": [4],
    "profiling_nodes": [2],
    "borrowed_nodes_max": [4],
    "sharing": ["none"],
    "medium_from": [0.75],
    "tiny_above": [0.95],
}
SPEC = TuningSpec(hold_out_days=5, search_days=5, validation_days=5, blocks=2, round_size=3, search=FEW)
# Every small job is profiled for ten minutes, however idle the cluster: shorter profiling must help.
SLOW_PROFILER = {"profiling_in_place": False, "profiling_scales": False, "profiling_limit_s": 600.0}


def lake_at(folder: Path, jobs: pd.DataFrame | None = None) -> str:
    """A lake with few jobs a day, so that history is too short for a model and estimates are rolling."""
    lake = Lake(str(folder))
    lake.write_jobs(CLUSTER, make_jobs(jobs=500) if jobs is None else jobs)
    names = ["vc0", "vc1", "vc2"]
    lake.write_nodes(CLUSTER, pd.DataFrame({"virtual_cluster": names, "nodes": 7, "gpus_per_node": 4}))
    solo, pairs = small_profiles()
    write_profile_set(
        Site(lake=str(folder), cluster=CLUSTER), ProfileSet(solo, pairs, out_of_memory=pd.DataFrame())
    )
    return str(folder)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return lake_at(tmp_path_factory.mktemp("tuned") / "lake")


def plan(lake_uri: str, out: Path | None = None, **changed: Any) -> TuningStudy:
    held = changed.pop("settings", None)
    spec = TuningSpec(**{**vars(SPEC), **changed})
    return plan_study(
        Site(lake=lake_uri, cluster=CLUSTER),
        spec=spec,
        base=TuningBase(held or {}),
        out_uri=None if out is None else str(out),
    )


def files(study: TuningStudy, folder: str) -> dict[str, Any]:
    found = sorted(Path(study.uri, folder).glob("[!.]*.json"))  # a kill leaves a file that is being written
    return {file.name: json.loads(file.read_text()) for file in found}


RUN = """
import sys
from pipeline.profiling.profile_store import write_profile_set
from pipeline.studies.tuning.study import run_study
from pipeline.studies.tuning.space import TuningBase
from pipeline.studies.tuning.study import TuningStudy
run_study(TuningStudy.load(sys.argv[1]), trials=3)
"""


# -- the search ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(lake: str, tmp_path_factory: pytest.TempPathFactory) -> TuningStudy:
    """A study that ran in one go, in one process."""
    study = plan(lake, tmp_path_factory.mktemp("whole"))
    assert run_study(study, trials=3) == len(study.trials())
    return study


@pytest.mark.thorough("several processes, as for Pareto fronts")
def test_the_same_trials_whatever_the_number_of_workers(
    lake: str, whole: TuningStudy, tmp_path: Path
) -> None:
    study = plan(lake, tmp_path / "two")
    assert study.sha256 == whole.sha256
    run_study(study, trials=3, workers=2)
    for folder in ("rounds", "trials"):
        assert files(study, folder) == files(whole, folder)


def test_trial_0_holds_the_current_settings(whole: TuningStudy) -> None:
    trials = whole.trials()
    assert trials[0].values == whole.space.current
    assert trials[0].change_pct == 0.0
    assert [trial.round_number for trial in trials] == [0] * (len(trials) - 3) + [1] * 3
    assert len({trial.identity for trial in trials}) == len(trials)
    assert trials[0].record is not None
    assert list(trials[0].record["blocks"]) == ["block 1", "block 2"]


def test_trials_with_a_result_are_not_run_again(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study")
    first = run_study(study, trials=0)
    assert first == len(study.trials())
    records = {file: file.stat().st_mtime_ns for file in Path(study.uri, "trials").iterdir()}
    again = plan(lake, tmp_path / "study")
    assert again == study
    assert run_study(again, trials=0) == 0
    assert run_study(again, trials=3) == 3  # enlarged
    assert {file: file.stat().st_mtime_ns for file in records} == records


def test_a_killed_study_goes_on_where_it_stopped(lake: str, whole: TuningStudy, tmp_path: Path) -> None:
    halved = plan(lake, tmp_path / "halved")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, halved.uri], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    folder = Path(halved.uri, "trials")
    try:
        wait_until(lambda: len(list(folder.glob("[!.]*.json"))) >= 2, "two trials", every_s=0.01)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    kept = {file: file.stat().st_mtime_ns for file in folder.glob("[!.]*.json")}
    assert 2 <= len(kept) < len(whole.trials())
    run_study(TuningStudy.load(halved.uri), trials=3)
    assert files(halved, "trials") == files(whole, "trials")
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


def test_a_trial_that_fails_is_a_record_and_tried_again(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study")
    identities = study.ask(number=0)
    file = Path(study.uri, "trials", f"{identities[1]}.json")
    study.evaluate(identities)
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "status": "failed", "error": "the disk was full"}))
    failed = study.trials()[1]
    assert failed.change_pct is None
    assert best_trial(study.trials()) not in (None, failed)
    assert len(study.ask(number=1)) == 3  # the optimiser goes on without it
    assert study.ask(number=0) == [identities[1]]
    assert [again["status"] for again in study.evaluate([identities[1]])] == ["ok"]
    assert json.loads(file.read_text()) == record


def test_rounds_are_asked_for_in_order(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study")
    with pytest.raises(BadInputError, match="in order"):
        study.ask(number=1)
    study.ask(number=0)
    with pytest.raises(BadInputError, match="Evaluate them first"):
        study.ask(number=1)
    with pytest.raises(BadInputError, match="no trial"):
        study.evaluate(["unknown"])


# -- what it may know ----------------------------------------------------------------------------------------


def test_nothing_of_the_held_out_window_is_read(tmp_path: Path) -> None:
    """Corrupt all that happens from the end of training on: not a byte of the study changes."""
    jobs = make_jobs(jobs=500)
    until = jobs["submit_time"].max() - pd.Timedelta(days=5)
    last = jobs["submit_time"].max()
    corrupted = jobs.copy()
    later = (corrupted["submit_time"] >= until) & (corrupted["submit_time"] < last)
    corrupted.loc[later, "gpus"] = 8
    corrupted.loc[later, ["duration_s", "service_s"]] = 9_999.0
    corrupted.loc[later, "user"] = "nobody"
    corrupted.loc[later, "end_time"] = corrupted["start_time"] + pd.Timedelta(seconds=9_999)
    # How long jobs run that were still running at the end of training is not known then either.
    running = (jobs["submit_time"] < until) & (jobs["end_time"] > until)
    assert running.any()
    corrupted.loc[running, ["duration_s", "service_s"]] *= 3
    corrupted.loc[running, "end_time"] += pd.Timedelta(days=2)
    studies = []
    for name, table in (("true", jobs), ("corrupted", corrupted)):
        study = plan(lake_at(tmp_path / name, table), tmp_path / f"study-{name}", settings=SLOW_PROFILER)
        run_study(study, trials=3)
        propose(study)
        studies.append(study)
    assert studies[0].sha256 == studies[1].sha256
    first, second = (Path(study.uri) for study in studies)
    for file in sorted(path for path in first.rglob("*") if path.is_file()):
        assert file.read_bytes() == (second / file.relative_to(first)).read_bytes(), file


def test_the_frozen_lake_ends_where_training_ends(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study")
    frozen = Lake(study.inputs_uri).read_jobs(CLUSTER)
    until = pd.Timestamp(study.windows.until)
    assert frozen["submit_time"].max() < until
    assert (frozen["submit_time"] + pd.to_timedelta(frozen["duration_s"], unit="s") <= until).all()
    assert (frozen["estimated_duration_s"] > 0).all()
    windows = [*study.windows.search.values(), study.windows.validation]
    for before, after in pairwise(windows):
        assert before.end == after.start  # disjoint, and without a gap
    assert windows[-1].end == study.windows.until


def test_estimates_are_those_of_a_model_that_learned_before_the_first_block(tmp_path: Path) -> None:
    lake = lake_at(tmp_path / "lake", make_jobs(jobs=1_800))
    fast = DurationSettings(log_boosting=FAST, mean_boosting=FAST)
    study = plan_study(Site(lake=lake, cluster=CLUSTER), spec=SPEC, duration=fast)
    assert not any("rolling" in remark for remark in study.remarks)
    frozen = Lake(study.inputs_uri).read_jobs(CLUSTER)
    fresh = frozen[frozen["submit_time"] >= study.windows.start]
    error = (fresh["estimated_duration_s"] / fresh["duration_s"].clip(lower=1)).map(abs).median()
    assert 0.4 < error < 2.5


# -- the proposal --------------------------------------------------------------------------------------------


def test_settings_that_cost_time_are_replaced(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study", settings=SLOW_PROFILER)
    run_study(study, trials=3)
    proposal = propose(study)
    assert proposal.proposed, proposal.sentence
    assert proposal.changes["profiling_limit_s"] == {"from": 600.0, "to": 60.0}
    assert proposal.validation is not None
    objective = proposal.validation["objective"]
    assert objective["change_high_s"] < 0
    assert objective["challenger"] < objective["reference"]
    # The sentence gives the bounds that were judged, of which the upper one lies below zero.
    assert objective["change_high_s"] < 0
    assert (
        f"; {objective['change_low_s']:+,.1f} to {objective['change_high_s']:+,.1f} s)" in proposal.sentence
    )
    tuned, current = (proposal.validation["figures"][name] for name in ("tuned", "current"))
    assert tuned["mean_jct_s"] < current["mean_jct_s"]
    assert read_proposal(study) == proposal
    written = write_report(study, proposal)
    assert all(Path(file).stat().st_size for file in written)
    report = Path(study.uri, "tuning.md").read_text()
    assert proposal.sentence in report
    assert "| T_prof (s) | 600 * | +0.00 % |" in report


def test_a_luckily_better_trial_is_not_proposed(lake: str, tmp_path: Path) -> None:
    """Records say that a trial without any effect was better on the search blocks: the guard sees through."""
    study = plan(lake, tmp_path / "study", search={**FEW, "borrowed_nodes_max": [4, 8]})
    run_study(study, trials=0)
    lucky = next(trial for trial in study.trials() if trial.values["borrowed_nodes_max"] == 8)
    file = Path(study.uri, "trials", f"{lucky.identity}.json")
    record = json.loads(file.read_text())
    for figures in record["blocks"].values():
        figures["mean_jct_s"] *= 0.5
    file.write_text(json.dumps(record))
    proposal = propose(study)
    assert proposal.changes == {"borrowed_nodes_max": {"from": 4, "to": 8}}
    assert proposal.search["change_pct"] < -45
    assert not proposal.proposed
    assert "not better beyond chance" in proposal.sentence


def test_too_few_days_to_validate_on_are_no_evidence(tmp_path: Path) -> None:
    jobs = make_jobs(jobs=500).assign(virtual_cluster="vc0")
    study = plan(lake_at(tmp_path / "lake", jobs), settings=SLOW_PROFILER)
    run_study(study, trials=0)
    proposal = propose(study)
    assert proposal.changes
    assert not proposal.proposed
    assert "validate on more days" in proposal.sentence


def test_equal_trials_change_as_little_as_possible(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study", search={**FEW, "borrowed_nodes_max": [4, 8]})
    run_study(study, trials=6)
    best = best_trial(study.trials())
    assert best is not None
    changed = [name for name, value in best.values.items() if value != study.space.current[name]]
    assert "borrowed_nodes_max" not in changed  # a cluster of two nodes: there is none to borrow from


def test_nothing_better_changes_nothing(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study", search={name: [value] for name, value in CURRENT.items()})
    run_study(study, trials=5)
    assert len(study.trials()) == 1  # the space holds the current settings alone
    proposal = propose(study)
    assert not proposal.proposed
    assert "nothing changes" in proposal.sentence
    write_report(study, proposal)


CURRENT = {
    "profiling_limit_s": 200.0,
    "profiling_max_gpus": 8,
    "profiling_nodes": 2,
    "borrowed_nodes_max": 4,
    "sharing": "default",
    "medium_from": 0.85,
    "tiny_above": 0.95,
}


def test_without_a_trial_there_is_no_proposal(lake: str, tmp_path: Path) -> None:
    study = plan(lake, tmp_path / "study")
    with pytest.raises(NotFoundError, match="no proposal"):
        read_proposal(study)


# -- the space and the optimiser -----------------------------------------------------------------------------


def space(**chosen: Any) -> SearchSpace:
    return search_space({}, PackingSettings(), nodes=100, chosen=chosen)


def test_the_space_holds_the_current_values_and_no_profiler_that_would_be_cut_back() -> None:
    found = search_space(
        {"profiling_limit_s": 75.0}, PackingSettings(medium_from=0.7, tiny_above=0.92), nodes=30
    )
    assert found.current["profiling_limit_s"] == 75.0
    values = {parameter.name: parameter.values for parameter in found.parameters}
    assert 75.0 in values["profiling_limit_s"]
    assert 0.7 in values["medium_from"]
    assert max(values["profiling_nodes"]) == 3  # a tenth of 30
    assert values["sharing"] == ("none", "apathetic", "default")
    first, *others = found.one_at_a_time()
    assert first == found.current
    assert all(sum(value != first[name] for name, value in trial.items()) == 1 for trial in others)


def test_values_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="profiling_limit_s"):
        space(no_such=[1])
    with pytest.raises(BadInputError, match="sharing"):
        space(sharing=["all"])
    with pytest.raises(BadInputError, match="profiling_max_gpus"):
        space(profiling_max_gpus=[1.5])
    with pytest.raises(BadInputError, match="profiling_limit_s"):
        space(profiling_limit_s=[-5])
    with pytest.raises(BadInputError, match="threshold"):
        space(tiny_above=[2.5])
    assert space(profiling_limit_s=[60, 200]) == space(profiling_limit_s=[60.0, 200.0])


def test_a_study_says_what_is_wrong(lake: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="mean_jct_s"):
        TuningSpec(objective="makespan")
    with pytest.raises(BadInputError, match="days of log"):
        plan(lake, search_days=40)
    plan(lake, tmp_path / "study")
    with pytest.raises(BadInputError, match="another study"):
        plan(lake, tmp_path / "study", seed=1)
    with pytest.raises(NotFoundError):
        TuningStudy.load(str(tmp_path / "nowhere"))


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1_000), st.integers(1, 6), st.lists(st.floats(-50, 50), min_size=4, max_size=4))
def test_rounds_depend_on_the_trials_alone(seed: int, number: int, scores: list[float]) -> None:
    found = space()
    known = list(zip(found.one_at_a_time(), scores, strict=False))
    asked = [next_trials(found, known, seed=seed, round_number=number, size=3) for _ in range(2)]
    assert asked[0] == asked[1]
    assert len(asked[0]) == 3
    for values in asked[0]:
        LucidSettings(**{k: v for k, v in values.items() if k not in ("medium_from", "tiny_above")})
        assert thresholds_rise(values)
        assert values not in [values for values, _ in known]


def test_the_optimiser_finds_what_matters() -> None:
    """A space where only T_prof counts: the best value is found, and named as what explains the scores."""
    found = space(profiling_limit_s=[60, 100, 150, 200, 300, 450, 600])

    def score(values: Any) -> float:
        return abs(float(values["profiling_limit_s"]) - 450.0) / 10

    known = [(values, score(values)) for values in [found.current]]
    for number in range(1, 6):
        asked = next_trials(found, known, seed=0, round_number=number, size=6)
        known += [(values, score(values)) for values in asked]
    best = min(known, key=lambda trial: trial[1])[0]
    assert best["profiling_limit_s"] == 450.0
    late = [values["profiling_limit_s"] for values, _ in known[-12:]]
    assert late.count(450.0) > len(late) / 3  # of seven values
    weights = importances(found, known)
    assert max(weights, key=weights.__getitem__) == "profiling_limit_s"
    assert weights["profiling_limit_s"] > 0.9
    assert importances(found, known[:1]) == {}


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command_tunes_and_goes_on(lucid: Lucid, lake: str, tmp_path: Path) -> None:
    words = ["tune", "--lake", lake, "--cluster", CLUSTER, "--hold-out-days", 5, "--search-days", 5]
    words += ["--validation-days", 5, "--blocks", 2, "--trials", 3, "--round-size", 3, "--workers", 1]
    words += ["--search", "medium_from=0.75", "--search", "tiny_above=0.95", "--search", "sharing=none"]
    words += ["--search", "profiling_max_gpus=4", "--out", tmp_path / "out", "--json"]
    said = lucid(*map(str, words))
    assert said.code == 0, said.err
    assert said.json["executed"] == said.json["trials"] > 10
    assert isinstance(said.json["proposed"], bool)
    assert said.json["release"] is None
    again = lucid(*map(str, words))
    assert again.json["executed"] == 0
    assert again.json["sentence"] == said.json["sentence"]
    people = lucid(*map(str, words[:-1]))
    assert said.json["sentence"].split(".")[0][:40] in people.out
    table = pd.read_csv(tmp_path / "out" / "sensitivity.csv")
    assert set(table["parameter"]) >= {"profiling_limit_s", "borrowed_nodes_max"}
    bad = lucid("tune", "--lake", lake, "--cluster", CLUSTER, "--search", "profiling_limit_s")
    assert bad.code == 1
    assert "NAME=VALUE" in bad.err
