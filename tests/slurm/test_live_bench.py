"""The live bench: its streams, its history, its figures, and a small run of it on the real Slurm."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.live.bench import Bench, in_days, parser, plan_of
from benchmarks.live.foretell import foretell
from benchmarks.live.history import dated
from benchmarks.live.measures import Times, measures, worst_user_against
from benchmarks.live.one_run import RunMode, RunRequest
from benchmarks.live.page import SeedResult, tables_of
from benchmarks.live.publication import CLUSTER
from benchmarks.live.runs import first_estimates, read_run, run_side_by_side
from benchmarks.live.site import Users, stand_ins
from benchmarks.live.stream import (
    CANCELLED,
    COMPLETED,
    FAILED,
    GPUS_PER_NODE,
    MOST_S,
    SPAN_S,
    StreamJob,
    VirtualCluster,
    make_world,
    read_stream,
    sized_for,
    write_stream,
)
from benchmarks.live.submission import script_of
from cluster_logs.ingest import read_jobs_file
from foundation.errors import BadInputError, LucidError, NotFoundError
from lucid_models.releases.lifecycle import publish_release
from tests.fixtures import ReleaseShop
from tests.slurm.conftest import skip_without_slurm

ONE_NODE = VirtualCluster("vc", 1, 1.0)


def job(offset_s: float, duration_s: float, **changed: object) -> StreamJob:
    plain = StreamJob(offset_s, "ann", "train_1", GPUS_PER_NODE, "vc", duration_s)
    return replace(plain, **changed)  # type: ignore[arg-type]


# Streams -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(world=st.integers(0, 50), seed=st.integers(0, 50))
def test_a_stream_is_its_seeds_and_nothing_else(world: int, seed: int) -> None:
    jobs = make_world(world).stream(seed)
    assert jobs == make_world(world).stream(seed)
    assert jobs != make_world(world).stream(seed + 1)
    assert [one.offset_s for one in jobs] == sorted(one.offset_s for one in jobs)
    nodes = {one.name: one.nodes for one in make_world(world).virtual_clusters}
    for one in jobs:
        assert 0 <= one.offset_s <= SPAN_S
        assert 0 < one.duration_s <= MOST_S
        assert one.gpus <= GPUS_PER_NODE * nodes[one.virtual_cluster]
        assert one.time_limit_min is None or one.time_limit_min * 60 >= 2 * one.duration_s - 1


def test_streams_bring_the_load_that_each_virtual_cluster_is_to_have() -> None:
    world = make_world(1)
    for cluster in world.virtual_clusters:
        loads = []
        for seed in range(10):
            here = [one for one in world.stream(seed) if one.virtual_cluster == cluster.name]
            asked = sum(one.gpus * one.duration_s for one in here)
            loads.append(asked / (cluster.nodes * GPUS_PER_NODE * SPAN_S))
        assert cluster.load <= np.mean(loads) < cluster.load + 0.25


def test_streams_look_like_the_field() -> None:
    jobs = [one for seed in range(8) for one in make_world(seed).stream(seed)]
    run_s = np.array([one.duration_s for one in jobs])
    assert run_s.mean() > 1.6 * np.median(run_s), "heavy-tailed"
    ends = Counter(one.ends for one in jobs)
    assert 0.5 < ends[COMPLETED] / len(jobs) < 0.75
    assert ends[FAILED] > 0
    assert ends[CANCELLED] > 0
    sizes = Counter(one.gpus for one in jobs)
    assert set(sizes) == {1, 2, 4, 8}
    assert sizes[1] == max(sizes.values())
    assert sum(one.time_limit_min is None for one in jobs) > len(jobs) / 2


def test_a_stream_has_the_jobs_that_it_must_have() -> None:
    assert len(make_world(7).stream(4)) < 600 <= len(make_world(7).stream(4, least_jobs=600))


def test_the_past_has_the_same_users_and_other_draws() -> None:
    world = make_world(3)
    sessions = world.history(4)
    assert [one.begin_s for one in sessions] == sorted(one.begin_s for one in sessions)
    assert {int(one.begin_s // 86_400) for one in sessions} == {0, 1, 2, 3}
    past = [one for session in sessions for one in session.jobs]
    assert {one.user for one in past} <= {family.user for family in world.families}
    assert not {one.duration_s for one in past[:5]} >= {one.duration_s for one in world.stream(1)[:5]}


def test_a_stream_survives_its_file(tmp_path: Path) -> None:
    jobs = make_world(1).stream(1)[:40]
    write_stream(jobs, tmp_path / "s.csv")
    found = read_stream(tmp_path / "s.csv")
    first_s = jobs[0].offset_s
    assert found == [replace(one, offset_s=round(one.offset_s - first_s, 3)) for one in jobs]


def test_a_strangers_stream_needs_few_columns_and_can_be_scaled(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("offset,user,gpus,virtual_cluster,duration\n100,bob,2,a,600\n40,eve,16,b,1200\n")
    found = read_stream(path, time_scale=60)
    assert [(one.offset_s, one.user, one.duration_s) for one in found] == [(0, "eve", 20), (1, "bob", 10)]
    assert {one.name: one.nodes for one in sized_for(found)} == {"a": 2, "b": 40}, "load 1 within a second"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("0,ann,x,0,vc,5", "at least one GPU"),
        ("0,ann,x,one,vc,5", "row 1 cannot be used"),
        ("0,ann,x,1,vc,-5", "run time above 0"),
        ("0,,x,1,vc,5", "lacks user"),
    ],
)
def test_a_row_that_cannot_be_run_is_named(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"offset_s,user,name,gpus,virtual_cluster,duration_s\n{row}\n")
    with pytest.raises(BadInputError, match=said):
        read_stream(path)
    with pytest.raises(NotFoundError):
        read_stream(tmp_path / "none.csv")


def test_an_own_stream_and_its_past_are_planned_for(tmp_path: Path) -> None:
    write_stream(make_world(2).stream(5), tmp_path / "s.csv")
    write_stream(make_world(2).stream(6), tmp_path / "h.csv")
    given_ = parser().parse_args(["--stream", f"{tmp_path}/s.csv", "--history", f"{tmp_path}/h.csv"])
    plan = plan_of(given_)
    assert list(plan.streams) == ["s"]
    assert sum(len(session.jobs) for session in plan.history) == len(make_world(2).stream(6))
    assert {one.name for one in plan.virtual_clusters} == {"vision", "language", "robots"}
    assert plan.digest() != plan_of(parser().parse_args(["--stream", f"{tmp_path}/s.csv"])).digest()


def test_a_stream_may_bring_its_past_in_its_front(tmp_path: Path) -> None:
    jobs = make_world(2).stream(5)
    write_stream(jobs, tmp_path / "s.csv")
    plan = plan_of(parser().parse_args(["--stream", f"{tmp_path}/s.csv", "--past-share", "0.4"]))
    past = sum(len(session.jobs) for session in plan.history)
    assert past == round(0.4 * len(jobs))
    assert len(plan.streams["s"]) == len(jobs) - past
    assert plan.streams["s"][0].offset_s == 0
    with pytest.raises(BadInputError, match="past of 1"):
        plan_of(parser().parse_args(["--stream", f"{tmp_path}/s.csv", "--past-share", "1"]))


def test_a_stream_cut_into_days_keeps_every_job() -> None:
    jobs = make_world(1).stream(2)
    sessions = in_days(jobs, 10)
    assert sum(len(session.jobs) for session in sessions) == len(jobs)
    assert all(0 <= one.offset_s <= SPAN_S / 10 for session in sessions for one in session.jobs)


def test_a_folder_belongs_to_one_plan(tmp_path: Path) -> None:
    def bench(*words: str) -> Bench:
        return Bench(plan_of(parser().parse_args(list(words))), tmp_path / "out")

    bench("--seeds", "1").take()
    (tmp_path / "out" / "seed-1" / "fifo.json").write_text("{}")
    bench("--seeds", "1", "2").take()
    with pytest.raises(LucidError, match="another plan"):
        bench("--seeds", "1", "--span-s", "60").take()
    with pytest.raises(LucidError, match="another plan"):
        bench("--seeds", "3", "--world", "2").take()
    assert (tmp_path / "out" / "seed-1" / "fifo.json").exists()
    bench("--seeds", "3", "--world", "2").take(anew=True)
    assert not (tmp_path / "out" / "seed-1").exists()


# History -------------------------------------------------------------------------------------------------


def test_dating_moves_all_times_of_a_job_by_one_amount(tmp_path: Path) -> None:
    rows = [
        "JobIDRaw|User|Partition|JobName|State|Submit|Start|End|ElapsedRaw|AllocTRES",
        "1|ann|vc|a_1|COMPLETED|2026-02-01T10:00:00|2026-02-01T10:00:02|2026-02-01T10:00:09|7|gres/gpu=2",
        "2|bob|vc|b|CANCELLED by 7|2026-02-01T10:00:01|2026-02-01T10:00:01|2026-02-01T10:01:01|60|gres/gpu=1",
    ]
    path = tmp_path / "sacct.txt"
    path.write_text(dated("\n".join(rows), {"1": 1_000_000_000.9, "2": 1_000_090_000.0}))
    jobs, account = read_jobs_file(str(path), "sacct")
    assert account.rows_kept == 2
    assert jobs["submit_time"].astype("datetime64[s, UTC]").astype("int64").tolist() == [
        1_000_000_000,
        1_000_090_000,
    ]
    assert jobs["queuing_delay_s"].tolist() == [2.0, 0.0]
    assert jobs["duration_s"].tolist() == [7.0, 60.0]


# Figures -------------------------------------------------------------------------------------------------


def times(*rows: tuple[float, float, float]) -> Times:
    return Times(*(np.array(column) for column in zip(*rows, strict=True)))


def test_figures_of_a_run() -> None:
    jobs = [job(0, 10), job(0, 10, user="bob"), job(0, 20)]
    found = measures(times((0, 0, 10), (0, 10, 20), (0, 20, 40)), jobs)
    assert found["mean_jct_s"] == pytest.approx(70 / 3)
    assert found["max_jct_s"] == found["worst_tenth_jct_s"] == found["makespan_s"] == 40
    assert found["mean_queuing_s"] == 10
    # ann: slowdowns 1 and 2, bob: 2
    assert found["worst_users_slowdown"] == 2
    assert found["jain_index"] == pytest.approx(3.5**2 / (2 * (1.5**2 + 2**2)))


def test_the_worst_off_user_is_named() -> None:
    jobs = [job(0, 10), job(0, 10, user="bob")]
    before, now = times((0, 0, 10), (0, 10, 20)), times((0, 10, 20), (0, 0, 10))
    assert worst_user_against(now, before, jobs) == ("ann", 2.0)


def test_the_simulator_predicts_that_order_by_run_times_helps() -> None:
    jobs = [job(0, 50), job(1, 60), job(2, 5), job(3, 4)]
    truth = np.array([one.duration_s for one in jobs])
    own, ordered = foretell(jobs, [ONE_NODE], None), foretell(jobs, [ONE_NODE], truth)
    assert own.start_s.tolist() == [0, 50, 110, 115]
    assert ordered.start_s.tolist() == [0, 59, 54, 50]


def test_the_verdict_is_by_the_aims() -> None:
    jobs = [job(0, 10), job(0, 10)]
    slow, fast = times((0, 0, 40), (0, 0, 40)), times((0, 0, 20), (0, 0, 28))
    result = SeedResult("s", jobs, {"fifo": slow, "daemon": fast, "oracle": fast})
    said = tables_of([result])["live-bench-verdict"]
    assert said.count("- met") == 3
    assert "with true run times mean JCT is -40.0 % against FIFO" in said
    worse = SeedResult("s", jobs, {"fifo": fast, "daemon": slow, "oracle": fast})
    assert tables_of([worse])["live-bench-verdict"].count("- missed") == 3


# On the real Slurm ---------------------------------------------------------------------------------------


def test_a_script_ends_as_its_job_is_to_end() -> None:
    assert script_of(job(0, 3)).endswith("sleep 3\nexit 0\n")
    assert script_of(job(0, 3, ends=FAILED)).endswith("exit 1\n")
    assert "scancel" in script_of(job(0, 3, ends=CANCELLED))


def test_users_without_accounts_stand_before_the_name() -> None:
    assert Users().job_name(job(0, 1)) == "ann.train_1"
    assert Users({"ann": "games"}).job_name(job(0, 1)) == "train_1"
    assert Users({"ann": "games"}).options(job(0, 1)) == ["--uid=games"]


def test_a_small_bench_on_the_real_slurm(shop: ReleaseShop, tmp_path: Path) -> None:
    skip_without_slurm(accounting=True)
    shop.approved(1, cluster=CLUSTER)
    publish_release(tracking_uri=shop.uri, cluster=CLUSTER)
    # All ask for the whole node: the first holds it while the others gather.
    lasts_s = [9.0, 2.4, 1.2, 2.1, 0.9, 1.8, 0.6, 1.5, 0.3, 2.7, 1.2, 0.6]
    jobs = [job(0.1 * at, each, name=f"run_{at}") for at, each in enumerate(lasts_s)]
    jobs[3], jobs[4] = replace(jobs[3], ends=FAILED), replace(jobs[4], ends=CANCELLED, user="bob")
    write_stream(jobs, tmp_path / "stream.csv")
    requests = [
        RunRequest(
            mode=mode,
            stream=str(tmp_path / "stream.csv"),
            virtual_clusters=[ONE_NODE],
            accounts={} if mode is RunMode.FIFO else dict(stand_ins({"ann", "bob"}).accounts),
            tracking_uri=shop.uri,
            out=str(tmp_path / f"{mode}.json"),
            settings={},
        )
        for mode in (RunMode.FIFO, RunMode.ORACLE)
    ]
    told: list[str] = []
    run_side_by_side(requests, told.append)
    assert any("12 of 12 jobs submitted" in line for line in told)

    fifo, oracle = (read_run(Path(request.out)) for request in requests)
    expected = [COMPLETED] * 3 + [FAILED, CANCELLED] + [COMPLETED] * 7
    assert list(fifo.states) == list(oracle.states) == expected
    for run in (fifo, oracle):
        ran_s = run.times.end_s - run.times.start_s
        assert (ran_s > np.array(lasts_s) - 1.01).all(), "whole seconds, cut down"
    assert (np.diff(fifo.times.start_s) >= 0).all(), "in the order of submission"

    assert first_estimates(Path(requests[1].out), 12)[1:] == pytest.approx(lasts_s[1:])
    lines = map(json.loads, Path(requests[1].out).with_suffix(".decisions.jsonl").read_text().splitlines())
    ranked_at_s = {int(new[0]) - 1: line["at_s"] for line in lines for new in line["new"]}
    start_s = oracle.times.start_s
    for one in ranked_at_s:
        for other in ranked_at_s:
            both_known_s = max(ranked_at_s[one], ranked_at_s[other]) + 3
            if min(start_s[one], start_s[other]) > both_known_s and lasts_s[one] < lasts_s[other]:
                assert start_s[one] <= start_s[other], "the shorter one first"

    again: list[str] = []
    run_side_by_side(requests, again.append)
    assert again == [], "what is there is not run again"
