"""Sweeps with more or fewer nodes, by a live release's models, and with what is kept of each job."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.job_table import JOB_SCHEMA, conform, to_frame
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.site import Site
from pipeline.replay.cluster_events import one_pool
from pipeline.studies.sweeps.added_nodes import EVERYWHERE, with_added_nodes
from pipeline.studies.sweeps.inputs import SweepInputs, load_inputs
from pipeline.studies.sweeps.report import collect_sweep
from pipeline.studies.sweeps.runs import SweepRun, expand, run_id
from pipeline.studies.sweeps.spec import SweepSpec
from pipeline.studies.sweeps.sweep import SweepPlan, pending, plan_evaluation, plan_sweep, run_pending
from simulator.recorders.wait_clocks import CAUSE_COLUMNS
from tests.fixtures import ReleaseShop, small_jobs, small_profiles


def sizes(**nodes: int) -> pd.DataFrame:
    always = pd.Series([pd.NaT] * len(nodes), dtype="datetime64[us, UTC]")
    return pd.DataFrame(
        {
            "virtual_cluster": list(nodes),
            "from_time": always,
            "nodes": list(nodes.values()),
            "gpus_per_node": 8,
        }
    )


def counts(frame: pd.DataFrame) -> dict[str, int]:
    return dict(zip(frame["virtual_cluster"], frame["nodes"].tolist(), strict=True))


@pytest.fixture
def inputs() -> SweepInputs:
    solo, pairs = small_profiles()
    jobs = to_frame(conform(small_jobs(300).assign(cluster="c"), JOB_SCHEMA, what="job table"))
    jobs["virtual_cluster"] = [f"vc{i % 2}" for i in range(len(jobs))]
    return SweepInputs(jobs, sizes(vc0=3, vc1=3), job_types="drawn", solo=solo, pairs=pairs)


def test_named_virtual_clusters_change_and_the_others_stay() -> None:
    assert counts(with_added_nodes(sizes(a=4, b=2), {"a": -3, "b": 5})) == {"a": 1, "b": 7}
    assert counts(with_added_nodes(sizes(a=4, b=2), {})) == {"a": 4, "b": 2}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1),
    st.integers(-60, 60),
)
def test_nodes_in_all_are_divided_as_the_present_ones_are(nodes: dict[str, int], more: int) -> None:
    total = sum(nodes.values())
    if total + more < len(nodes):
        with pytest.raises(BadInputError, match=f"Take away at most {total - len(nodes)}"):
            with_added_nodes(sizes(**nodes), {EVERYWHERE: more})
        return
    changed = counts(with_added_nodes(sizes(**nodes), {EVERYWHERE: more}))
    assert sum(changed.values()) == total + more
    assert all((changed[name] - count) * more >= 0 for name, count in nodes.items())
    assert min(changed.values()) >= 1


def test_each_time_is_changed_by_itself_and_an_absent_virtual_cluster_stays_away() -> None:
    later = sizes(a=6, b=0).assign(from_time=pd.Timestamp("2020-04-03", tz="UTC"))
    changed = with_added_nodes(pd.concat([sizes(a=2, b=2), later], ignore_index=True), {EVERYWHERE: 2})
    assert changed["nodes"].tolist() == [3, 3, 8, 0]


@pytest.mark.parametrize(
    ("added", "error", "words"),
    [
        ({"nowhere": 1}, UnknownNameError, "virtual cluster to change the nodes of"),
        ({"a": -4}, BadInputError, "'a' would have 0 nodes: it has 4, and 4 are taken away"),
    ],
)
def test_what_cannot_be_taken_away_is_refused(added: dict[str, int], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        with_added_nodes(sizes(a=4, b=2), added)
    with pytest.raises(BadInputError, match="One pool of GPUs"):
        with_added_nodes(one_pool(8), {EVERYWHERE: 1}, one_pool=True)


@pytest.mark.parametrize("value", [{"a": 1.5}, {"a": True}, {"a": "2"}, [3], {"a": 10**9}])
def test_a_change_of_nodes_is_whole_numbers(value: object) -> None:
    with pytest.raises(BadInputError, match="added_nodes is"):
        SweepSpec().changed({"added_nodes": value})


def test_runs_with_the_present_nodes_stay_who_they_were() -> None:
    present, changed = expand(["fifo"], added_nodes={"vc0": 2})
    assert present == SweepRun("fifo")
    assert run_id(present, "x") == run_id(SweepRun("fifo"), "x") != run_id(changed, "x")
    assert SweepRun.from_dict(changed.to_dict()) == changed
    assert changed.label == "fifo nodes vc0 +2 seed 0"


def test_what_is_kept_of_each_job_adds_up(inputs: SweepInputs, tmp_path: Path) -> None:
    plan = plan_sweep(
        inputs, expand(["fifo", "lucid"], added_nodes={"vc0": -1}), str(tmp_path), keep_jobs=True
    )
    run_pending(plan)
    table = collect_sweep(SweepPlan.load(plan.uri), figures=False).table.set_index("run_id")
    assert table["added_nodes"].isna().tolist() == [True, False, True, False]
    assert table.loc[table["added_nodes"].notna(), "total_gpus"].tolist() == [40, 40]
    for identity in plan.runs:
        waits = pd.read_parquet(f"{plan.kept_uri}/{identity}-waits.parquet")
        assert waits["queuing_delay_s"].mean() == pytest.approx(table.loc[identity, "mean_queuing_delay_s"])
        np.testing.assert_allclose(
            waits[list(CAUSE_COLUMNS.values())].sum(axis=1), waits["queuing_delay_s"], atol=1e-6
        )
        assert inputs.jobs["job_id"].iloc[waits["row"]].tolist() == waits["job_id"].tolist()
        usage = pd.read_parquet(f"{plan.kept_uri}/{identity}-usage.parquet")
        last = usage.groupby("virtual_cluster").tail(1)
        assert last[["gpus_in_use", "waiting_jobs", "waiting_gpus"]].to_numpy().sum() == 0
        assert usage["gpus_in_use"].min() >= 0
        assert usage["gpus_in_use"].max() <= 24


def test_a_run_that_kept_nothing_is_made_again_where_jobs_are_to_be_kept(
    inputs: SweepInputs, tmp_path: Path
) -> None:
    runs = expand(["fifo"])
    run_pending(plan_sweep(inputs, runs, str(tmp_path)))
    again = plan_sweep(inputs, runs, str(tmp_path), keep_jobs=True)
    assert set(pending(again)) == set(again.runs)
    run_pending(again)
    assert not pending(again)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    from pipeline.profiling.profile_store import write_profile_set
    from profiler_jobs.profile_table import ProfileSet

    lake = Lake(str(tmp_path / "lake"))
    lake.write_jobs("small", small_jobs(300))
    lake.write_nodes(
        "small", pd.DataFrame({"virtual_cluster": ["vc"], "nodes": 4, "gpus_per_node": 8, "date": None})
    )
    solo, pairs = small_profiles()
    write_profile_set(
        Site(lake=lake.uri, cluster="small"), ProfileSet(solo, pairs, out_of_memory=pd.DataFrame())
    )
    return lake.uri


@pytest.mark.slow
def test_a_live_releases_models_estimate_what_they_have_not_seen(lake: str, local_shop: ReleaseShop) -> None:
    asked = {"policies": ["lucid", "qssf"], "live_release": True, "tracking": local_shop.uri}
    with pytest.raises(NotFoundError, match="no live release"):
        plan_evaluation(Site(lake=lake, cluster="small"), asked=asked)
    from lucid_models.releases.lifecycle import publish_release

    version = local_shop.approved(1, settings={"gss": 2, "profiling_limit_s": 77})
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
    planned = plan_evaluation(Site(lake=lake, cluster="small"), asked=asked)
    plan = SweepPlan.load(planned["sweep_uri"])
    settings = {run.policy: run.settings for run in plan.runs.values()}
    assert settings["lucid"]["profiling_limit_s"] == 77
    assert settings["qssf"] == {}
    inputs = load_inputs(plan.inputs_uri)
    assert inputs.jobs["estimated_duration_s"].notna().all()
    assert inputs.packing_model is not None
    assert f"the models of release {version}" in " ".join(plan.remarks)
    run_pending(plan)
    assert not pending(plan)
    plain = replace(inputs, packing_model=None, sha256="")
    assert plain.sha256 != inputs.sha256
