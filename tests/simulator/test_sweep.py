"""Plans and tables of sweeps: every combination once, identities that mean what they say."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from pipeline.studies.sweeps.figures import draw_sweep
from pipeline.studies.sweeps.runs import SweepRun, expand, run_id, tidy_table, values_of, variants

pytestmark = pytest.mark.slow


def test_every_combination_is_run_once_in_order():
    runs = expand(
        ["fifo", "lucid"],
        settings={"lucid": {"profiling_limit_s": [60, 100], "profiling_nodes": [1, 2]}},
        seeds=[0, 1],
        node_scales=[1.0, 0.5],
    )
    assert len(runs) == 2 * 2 + 4 * 2 * 2
    assert len({run_id(run, "jobs") for run in runs}) == len(runs)
    assert [run.policy for run in runs[:4]] == ["fifo"] * 4
    assert runs[0] == SweepRun("fifo", {}, 0, 1.0)
    assert runs[1].seed == 1
    assert runs[4].settings == {"profiling_limit_s": 60, "profiling_nodes": 1}


def test_what_is_asked_for_twice_is_run_once():
    assert len(expand(["fifo", "fifo"], seeds=[1, 1])) == 1
    assert len(expand(["lucid"], settings={"lucid": {"profiling_limit_s": [60, 60.0]}})) == 1


def test_an_identity_changes_with_everything_that_a_result_depends_on():
    base = SweepRun("lucid", {"profiling_limit_s": 60}, 0)
    others = [
        SweepRun("qssf", {"profiling_limit_s": 60}, 0),
        SweepRun("lucid", {"profiling_limit_s": 61}, 0),
        SweepRun("lucid", {}, 0),
        SweepRun("lucid", {"profiling_limit_s": 60}, 1),
        SweepRun("lucid", {"profiling_limit_s": 60}, 0, 0.5),
        SweepRun("lucid", {"profiling_limit_s": 60}, 0, 1.0, 0.0),
    ]
    identities = {run_id(run, "a") for run in [base, *others]} | {run_id(base, "b")}
    assert len(identities) == len(others) + 2
    assert run_id(SweepRun("p", {"b": 1, "a": 2}), "x") == run_id(SweepRun("p", {"a": 2.0, "b": 1}), "x")


runs = st.builds(
    SweepRun,
    st.sampled_from(["fifo", "lucid"]),
    st.dictionaries(
        st.sampled_from("ab"), st.one_of(st.integers(), st.booleans(), st.sampled_from(["", "none", "a,b"]))
    ),
    st.integers(0, 9),
    st.sampled_from([0.5, 1.0]),
    st.one_of(st.none(), st.sampled_from([0.0, 0.7])),
)


@given(runs)
def test_a_run_survives_being_written_down(run):
    again = SweepRun.from_dict(run.to_dict())
    assert again == run
    assert run_id(again, "x") == run_id(run, "x")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"policies": ["fifo", "nope"]}, UnknownNameError, "nope"),
        ({"policies": ["lucid"], "settings": {"lucid": {"speed": [1]}}}, UnknownNameError, "speed"),
        ({"policies": ["fifo"], "settings": {"lucid": {"profiling_nodes": [1]}}}, BadInputError, "lucid"),
        ({"policies": ["lucid"], "settings": {"lucid": {"profiling_nodes": []}}}, BadInputError, "nodes"),
        ({"policies": []}, BadInputError, "policies"),
        ({"policies": ["fifo"], "seeds": []}, BadInputError, "seeds"),
        ({"policies": ["fifo"], "node_scales": [0]}, BadInputError, "scale"),
        ({"policies": ["fifo"], "estimate_noises": [-1]}, BadInputError, "noise"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_before_anything_runs(arguments, error, said):
    with pytest.raises(error, match=said):
        expand(**arguments)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("60,100,200", [60, 100, 200]),
        ("0.5, true,none", [0.5, True, "none"]),
        ("[1,2],[3,4]", [[1, 2], [3, 4]]),
        ('"a,b",c', ["a,b", "c"]),
        ("default", ["default"]),
        ("", []),
    ],
)
def test_values_of_an_option(text, values):
    assert values_of(text) == values


def records(table_runs: dict[str, SweepRun]) -> dict[str, dict[str, object]]:
    return {
        identity: {
            "status": "ok",
            "error": None,
            "figures": {
                "policy": run.policy,
                "jobs": 10,
                "mean_jct_s": 100.0 + 7 * i,
                "mean_queuing_delay_s": float(i),
                "cpu_s": 0.1 * i,
                "skipped": {"cpu_job": 2, "unknown_duration": 1},
                "jain_users": None,
            },
        }
        for i, (identity, run) in enumerate(table_runs.items())
    }


def planned(*arguments: object, **more: object) -> dict[str, SweepRun]:
    return {run_id(run, "x"): run for run in expand(*arguments, **more)}


def test_one_row_a_run_with_its_settings_and_figures():
    table_runs = planned(
        ["fifo", "lucid"], settings={"lucid": {"profiling_limit_s": [60, 100]}}, seeds=[3, 4]
    )
    done = records(table_runs)
    failed, missing = list(table_runs)[1], list(table_runs)[5]
    done[failed] = {"status": "failed", "error": "no such thing", "figures": None}
    del done[missing]
    table = tidy_table(table_runs, done)
    assert table["run_id"].tolist() == list(table_runs)
    assert table["policy"].tolist() == ["fifo"] * 2 + ["lucid"] * 4
    assert table["lucid.profiling_limit_s"].isna().tolist() == [True, True, False, False, False, False]
    assert table["lucid.profiling_limit_s"].dropna().tolist() == [60, 60, 100, 100]
    assert table["seed"].tolist() == [3, 4] * 3
    assert table["status"].tolist() == ["ok", "failed", "ok", "ok", "ok", "missing"]
    assert table["error"][1] == "no such thing"
    assert table["mean_jct_s"].isna().tolist() == [False, True, False, False, False, True]
    assert table["skipped_jobs"].dropna().unique().tolist() == [3]
    assert "cpu_s" not in table.columns  # it differs from machine to machine


def test_variants_are_means_over_seeds_the_best_first():
    table_runs = planned(
        ["lucid", "fifo"], settings={"lucid": {"profiling_limit_s": [60, 100]}}, seeds=[3, 4]
    )
    done = records(table_runs)  # mean JCTs 100, 107, 114, ...
    done[list(table_runs)[3]]["status"] = "failed"
    rows = variants(tidy_table(table_runs, done), ["mean_jct_s", "mean_queuing_delay_s"])
    assert rows == [
        {
            "policy": "lucid",
            "lucid.profiling_limit_s": 60,
            "node_scale": 1.0,
            "seeds": 2,
            "mean_jct_s": 103.5,
            "mean_queuing_delay_s": 0.5,
            "spread_jct_s": 7.0,
        },
        {
            "policy": "lucid",
            "lucid.profiling_limit_s": 100,
            "node_scale": 1.0,
            "seeds": 1,
            "mean_jct_s": 114.0,
            "mean_queuing_delay_s": 2.0,
            "spread_jct_s": 0.0,
        },
        {
            "policy": "fifo",
            "node_scale": 1.0,
            "seeds": 2,
            "mean_jct_s": 131.5,
            "mean_queuing_delay_s": 4.5,
            "spread_jct_s": 7.0,
        },
    ]


def test_the_order_in_which_runs_end_does_not_show():
    table_runs = planned(["fifo", "sjf"], seeds=[0, 1])
    done = records(table_runs)
    backwards = dict(reversed(done.items()))
    pd.testing.assert_frame_equal(tidy_table(table_runs, done), tidy_table(table_runs, backwards))


def test_pictures_of_what_was_varied(tmp_path):
    table_runs = planned(
        ["fifo", "lucid"],
        settings={"lucid": {"profiling_limit_s": [60, 100], "sharing": ["default", "none"]}},
        seeds=[0, 1],
    )
    table = tidy_table(table_runs, records(table_runs))
    files = draw_sweep(table, tmp_path)
    assert [file.name for file in files] == [
        "sweep_policies.png",
        "sweep_lucid.profiling_limit_s.png",
        "sweep_lucid.sharing.png",
    ]
    again = tmp_path / "again"
    again.mkdir()
    for file, twin in zip(files, draw_sweep(table, again), strict=True):
        assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert file.read_bytes() == twin.read_bytes()
    table["status"] = "failed"
    assert draw_sweep(table, tmp_path) == []
