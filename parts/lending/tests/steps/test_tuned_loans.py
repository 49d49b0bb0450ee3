"""Tuning a release with servers on loan: real replays of its jobs beside the servers of inference."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.log_span import submission_span
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.site import Site
from lucid_models.packing.tree import PackingSettings
from parts.lending.steps.release_settings import pinned_loaning
from parts.lending.tests.steps.inference_days import inference_days
from pipeline.release.release_settings import pinned_settings
from pipeline.studies.tuning.plan import TuningSpec, plan_study
from pipeline.studies.tuning.proposal import propose
from pipeline.studies.tuning.report import write_report
from pipeline.studies.tuning.space import TuningBase, search_space, thresholds_rise
from pipeline.studies.tuning.study import Trial, best_trial, run_study
from tests.pipeline.studies.test_tuning import FEW, lake_at
from tests.small_cluster import CLUSTER, make_jobs

LOANING = pinned_loaning({"usage": "present", "headroom": 0.05})
ONE = {name: values[:1] for name, values in FEW.items()} | {"profiling_limit_s": [200.0]}
SPEC = TuningSpec(
    hold_out_days=5,
    search_days=5,
    validation_days=5,
    blocks=2,
    round_size=3,
    search={**ONE, "headroom": [0.0, 0.05], "hysteresis_servers": [0], "lend": ["capacity"]},
)


def test_loans_are_tuned_of_a_release_that_lends_alone() -> None:
    plain = search_space({}, PackingSettings(), nodes=100)
    assert plain.parts == ()
    lends = search_space({}, PackingSettings(), nodes=100, parts={"loaning": LOANING})
    values = {parameter.name: parameter.values for parameter in lends.parameters}
    assert [part.field for part in lends.parts] == ["loaning"]
    assert lends.current["headroom"] == 0.05
    assert values["lend"] == ("capacity", "demand")
    with pytest.raises(UnknownNameError, match="headroom"):
        search_space({}, PackingSettings(), nodes=100, chosen={"headroom": [0.1]})
    with pytest.raises(BadInputError, match="capacity, demand"):
        search_space({}, PackingSettings(), nodes=100, chosen={"lend": ["all"]}, parts={"loaning": LOANING})
    with pytest.raises(BadInputError, match="headroom"):
        search_space({}, PackingSettings(), nodes=100, chosen={"headroom": [-1]}, parts={"loaning": LOANING})


def test_of_lyra_its_loans_are_tuned_and_the_value_of_saved_time_where_jobs_scale() -> None:
    lyra = pinned_settings({"value_exponent": 0.25}, "lyra")
    around = partial(search_space, lyra, PackingSettings(), nodes=100, policy="lyra")
    loans = around(parts={"loaning": LOANING})
    assert [parameter.name for parameter in loans.parameters] == ["headroom", "hysteresis_servers", "lend"]
    whole = around(parts={"loaning": LOANING}, in_log=True, chosen={"value_exponent": [2]})
    assert whole.parameters[0].values == (0.25, 2.0)
    assert all(thresholds_rise(values) for values in whole.one_at_a_time())
    assert around(in_log=True).current == {"value_exponent": 0.25}
    with pytest.raises(BadInputError, match="nothing to tune"):
        around()
    with pytest.raises(BadInputError, match="value_exponent"):
        around(in_log=True, chosen={"value_exponent": [-1]})
    with pytest.raises(UnknownNameError, match="profiling_limit_s"):
        around(parts={"loaning": LOANING}, chosen={"profiling_limit_s": [60]})


def test_a_trial_that_leaves_inference_short_is_not_the_best() -> None:
    current = Trial(0, 0, "a", {"headroom": 0.05}, None, 0.0)
    faster = Trial(1, 0, "b", {"headroom": 0.0}, None, -20.0, over_limit_points=3.0)
    assert best_trial([current, faster]) == current
    assert faster.score == 10.0
    within = Trial(2, 0, "c", {"headroom": 0.02}, None, -5.0)
    assert best_trial([current, faster, within]) == within


@pytest.mark.slow
def test_trials_replay_the_load_and_shortages_count(tmp_path: Path) -> None:
    lake = lake_at(tmp_path / "lake")
    base = TuningBase(parts={"loaning": LOANING})
    site, asked = Site(lake=lake, cluster=CLUSTER), {"spec": SPEC, "base": base}
    with pytest.raises(NotFoundError, match="inference"):
        plan_study(site, **asked, out_uri=str(tmp_path / "none"))  # type: ignore[arg-type]
    first, last = submission_span(lake, CLUSTER)
    days = (last - first).days + 1
    load = inference_days(days, start=pd.Timestamp(first).floor("D")).assign(origin="published")
    Lake(lake).write_series("inference_load", CLUSTER, load)
    study = plan_study(site, **asked, out_uri=str(tmp_path / "study"))  # type: ignore[arg-type]
    assert [(each.field, each.limit) for each in study.limits] == [("short_limit_pct", 2.0)]
    run_study(study, trials=0, workers=1)
    current, *others = study.trials()
    (other,) = [trial for trial in others if trial.values["headroom"] == 0.0]
    assert (current.values["headroom"], other.values["headroom"]) == (0.05, 0.0)
    shares = [trial.mean_figure("inference_short_pct") for trial in (current, other)]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[1] > shares[0]
    assert other.over_limit_points == pytest.approx(max(0.0, shares[1] - 2.0))
    write_report(study, propose(study))
    assert "headroom of inference" in (tmp_path / "study" / "tuning.md").read_text()


def lake_of_jobs_in_workers(folder: Path) -> str:
    """The small cluster beside its inference servers; its jobs can use twice the workers that they need."""
    jobs = make_jobs(jobs=500)
    each = jobs["gpus"].clip(upper=4)
    least = jobs["gpus"] // each
    lake = lake_at(
        folder,
        jobs.assign(
            gpus_per_worker=each,
            workers_min=least,
            workers_max=2 * least,
            loanable=(each == 1).astype(int),
        ),
    )
    start = pd.Timestamp(jobs["submit_time"].min()).floor("D")
    Lake(lake).write_series(
        "inference_load", CLUSTER, inference_days(19, start=start).assign(origin="published")
    )
    return lake


@pytest.mark.slow
def test_trials_of_lyra_scale_jobs_and_lend_them_servers(tmp_path: Path) -> None:
    lake = lake_of_jobs_in_workers(tmp_path / "lake")
    values = {"value_exponent": [0.0, 2.0], "headroom": [0.05, 0.9], "hysteresis_servers": [0]}
    spec = replace(SPEC, search={**values, "lend": ["capacity"]})
    base = TuningBase(pinned_settings({}, "lyra"), parts={"loaning": LOANING}, policy="lyra")
    study = plan_study(
        Site(lake=lake, cluster=CLUSTER), spec=spec, base=base, out_uri=str(tmp_path / "study")
    )
    assert study.policy == "lyra"
    run_study(study, trials=0, workers=1)
    current, *others = study.trials()
    assert [trial.record and trial.record["error"] for trial in (current, *others)] == [None] * 3
    by_change = {
        next(name for name, value in trial.values.items() if value != current.values[name]): trial
        for trial in others
    }
    assert by_change["value_exponent"].record != current.record
    fewer = by_change["headroom"]
    assert fewer.mean_figure("preemptions") == 0  # hardly a server is lent
    assert (current.mean_figure("preemptions") or 0) > 0
    assert fewer.mean_figure("inference_short_pct") == 0.0
    assert current.mean_figure("profiling_runs") == 0
    assert current.mean_figure("colocated_pct") == 0
    proposal = propose(study)
    assert set(proposal.changes) <= set(values)
    write_report(study, proposal)
    assert "value of saved time" in (tmp_path / "study" / "tuning.md").read_text()
