"""A picked point of a front becomes a release: what it pins, what it tells the gate, who keeps it."""

import json
from math import inf
from pathlib import Path

import pandas as pd
import pytest
import typer

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.building import SettingsOrigin
from lucid_models.releases.lifecycle import (
    ReleaseInfo,
    build_release,
    publish_release,
    record_verdict,
    show_release,
)
from parts.elastic.pareto.objectives import Objective
from parts.elastic.pareto.presented import Front, FrontPoint
from parts.elastic.pareto.release_choice import build_picked_release, choice_of, gate_objective
from parts.elastic.pareto.size_classes import WfqParameters
from parts.elastic.pick_command import register
from parts.elastic.rules.wfq import WfqConfig
from pipeline.release.current_release import kept_policy
from pipeline.validation.held_out_days import HeldOutDays
from simulator.policies.registry import load_policy
from tests.fixtures import ReleaseShop, small_jobs

STUDY, RUN = "5" * 64, "a" * 32


def point(front_id: str, jct_s: float, error_pct: float, weight: float) -> FrontPoint:
    figures = {"JCT:avg": jct_s, "Pred_err:p99": error_pct, "Pred_err:avg": error_pct / 10}
    return FrontPoint(
        front_id,
        front_id,
        WfqConfig((900.0, 40_000.0, inf), (weight, 0.15, round(0.85 - weight, 3)), 0.5, 0.25),
        WfqParameters(1.0, 1.0, 0.5, 0.25),
        figures,
        {},
        figures,
    )


FRONT = Front(
    points=(
        point("c1", 1_000.0, 90.0, 0.82),
        point("c2", 1_100.0, 40.0, 0.81),
        point("c3", 1_500.0, 12.5, 0.8),
    ),
    preference=("JCT:avg", "Pred_err:p99"),
    name="small",
    study=STUDY,
    gpus=64,
    whole_gpus=True,
    evaluations=20,
    simulations=60,
    jobs_per_sample=200,
)


@pytest.fixture
def lake_uri(tmp_path: Path) -> str:
    jobs = small_jobs(400)
    # The models of the shop learned until midnight of the 10th: the last day begins later than that.
    late = pd.Timestamp("2020-04-11T12:00", tz="UTC") - jobs["submit_time"].iloc[-1]
    for column in ("submit_time", "start_time", "end_time"):
        jobs.loc[jobs.index[-1], column] += late
    Lake(str(tmp_path)).write_jobs("small", jobs)
    return str(tmp_path)


def pick(lake_uri: str, local_shop: ReleaseShop, hold_out_days: int = 1) -> ReleaseInfo:
    return build_picked_release(
        Site(lake_uri, local_shop.uri, "small"),
        front=FRONT,
        front_id="c3",
        run_id=RUN,
        held_out=HeldOutDays(hold_out_days),
    )


@pytest.mark.parametrize(
    ("preference", "objective"),
    [
        (["JCT:avg", "Pred_err:avg"], "mean_pred_err_pct"),
        (["Pred_err:p99", "JCT:avg"], "p99_pred_err_pct"),
        (["JCT:avg", "Pred_err:p50"], "p50_pred_err_pct"),
        (["JCT:avg", "Pred_err:p95"], "p99_pred_err_pct"),
        (["JCT:avg", "Pred_err:p99.9"], "p99_pred_err_pct"),
        (["JCT:avg", "unfairness:p99"], "mean_jct_s"),
    ],
)
def test_the_gate_judges_by_what_was_preferred(preference: list[str], objective: str) -> None:
    assert gate_objective([Objective.parse(text) for text in preference]) == objective


def test_a_point_is_judged_at_the_price_that_it_was_picked_at() -> None:
    assert choice_of(FRONT, "c3")["jct_price_pct"] == 60  # half as long again as the shortest, and a tenth
    assert choice_of(FRONT, "c1")["jct_price_pct"] == 10
    assert choice_of(FRONT, "c3", jct_price_pct=0)["jct_price_pct"] == 0
    with pytest.raises(BadInputError, match="jct_price_pct is -1"):
        choice_of(FRONT, "c3", jct_price_pct=-1)
    with pytest.raises(UnknownNameError, match="c1, c2, c3"):
        choice_of(FRONT, "c4")


def test_a_picked_point_becomes_the_challenger_around_the_champions_models(
    lake_uri: str, local_shop: ReleaseShop
) -> None:
    with pytest.raises(NotFoundError, match="no release of cluster 'small'"):
        pick(lake_uri, local_shop)
    base = local_shop.approved(1)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=base)
    built = pick(lake_uri, local_shop)
    champion = show_release(tracking_uri=local_shop.uri, cluster="small")
    assert champion.version == base
    assert (
        show_release(tracking_uri=local_shop.uri, cluster="small", alias="challenger").version
        == built.version
    )
    assert (built.policy, champion.policy) == ("pcs", "lucid")
    assert built.models == champion.models
    assert load_policy(built.policy, built.settings).settings.config().weights == (0.8, 0.15, 0.05)
    assert built.choice is not None
    assert (built.choice["point"], built.choice["objective"]) == ("c3", "p99_pred_err_pct")
    assert built.choice["expected"] == {"JCT:avg": 1_500.0, "Pred_err:p99": 12.5}
    assert built.training["datasets"]["search"] == STUDY
    tags = Registry(local_shop.uri).version(built.name, built.version).tags
    assert (tags["policy"], tags["picked_point"], tags["picked_run_id"]) == ("pcs", "c3", RUN)
    assert "at a price of up to 60 % in mean JCT" in tags["picked_says"]
    assert pick(lake_uri, local_shop).version == built.version
    with pytest.raises(BadInputError, match="learned"):
        pick(lake_uri, local_shop, hold_out_days=5)


def test_the_command_line_picks_too(lake_uri: str, local_shop: ReleaseShop, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    app = typer.Typer()
    register(app)

    study = tmp_path / "study"
    study.mkdir()
    (study / "front.json").write_text(json.dumps(FRONT.to_data()))
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(1))
    words = ["c2", "--study", str(study), "--cluster", "small", "--lake", lake_uri, "--price", "25"]
    words += ["--hold-out-days", "1", "--tracking-uri", local_shop.uri, "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (document["policy"], document["alias"]) == ("pcs", "challenger")
    assert (document["choice"]["point"], document["choice"]["jct_price_pct"]) == ("c2", 25)
    assert document["settings"]["weights"] == [0.81, 0.15, 0.04]


def test_new_models_keep_the_policy_that_a_person_picked(lake_uri: str, local_shop: ReleaseShop) -> None:
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(1))
    assert kept_policy(Site(registry=local_shop.uri, cluster="small")).policy == "lucid"
    built = pick(lake_uri, local_shop)
    record_verdict(
        tracking_uri=local_shop.uri,
        cluster="small",
        version=built.version,
        verdict={"approved": True, "sentence": "Predictable."},
    )
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=built.version)
    kept = kept_policy(Site(registry=local_shop.uri, cluster="small"))
    assert (kept.policy, kept.settings, kept.choice) == ("pcs", built.settings, built.choice)
    retrained = build_release(
        tracking_uri=local_shop.uri,
        cluster="small",
        policy=kept.policy,
        settings=kept.settings,
        origin=SettingsOrigin(kept.choice),
    )
    assert retrained.version != built.version
    assert retrained.models != built.models
    assert retrained.policy == "pcs"
    assert kept_policy(Site(registry=local_shop.uri, cluster="other")).policy == "lucid"


def test_there_is_nothing_of_lucids_to_tune_where_another_policy_runs(
    lake_uri: str, local_shop: ReleaseShop
) -> None:
    from pipeline.studies.tuning.plan import current_release

    build_release(tracking_uri=local_shop.uri, cluster="small", policy="pcs")
    with pytest.raises(BadInputError, match="runs pcs, neither Lucid"):
        current_release(Site(registry=local_shop.uri, cluster="small"))
