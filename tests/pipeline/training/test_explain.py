"""`lucid explain`: registered models and single predictions in words, tables, data and pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster_logs.lake import Lake
from lucid_models.duration.model import job_mappings
from pipeline.training.explanations import scorer_as_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake_uri(tmp_path_factory: pytest.TempPathFactory, small_tables: Any) -> str:
    """A lake in which some jobs of the small log were profiled."""
    jobs = small_tables.jobs.copy()
    profiled = jobs.index % 2 == 0
    jobs["job_type"] = np.where(profiled, "net3/data/64/1", None)
    for name, value in (("gpu_util_pct", 96.0), ("gpu_mem_util_pct", 48.0), ("gpu_mem_mib", 8_192.0)):
        jobs[name] = np.where(profiled, value, np.nan)
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    lake.write_jobs("small", jobs)
    lake.write_throughput("small", small_tables.throughput)
    return lake.uri


@pytest.fixture
def ask(lucid, local_shop, lake_uri: str):
    def run(*arguments: object):
        return lucid("explain", "--tracking-uri", local_shop.uri, "--lake", lake_uri, *arguments)

    return run


def test_a_job_is_explained_in_words_and_as_data(ask, tmp_path: Path) -> None:
    asked = ("--model", "duration", "--version", 1, "--cluster", "small", "--job", "j590", "--job", "j10")
    said = ask(*asked)
    assert said.code == 0, said.err
    assert "lucid-duration version 1: job j590, as known at 2020-04-1" in said.out
    assert "usually runs" in said.out
    assert "The estimate as an account" in said.out
    document = ask(*asked, "--json", "--out", tmp_path / "pictures").json
    first, second = document["predictions"]
    assert first["local"]["reason"] in " ".join(said.out.split())
    account = first["local"]["account"]
    added = sum(part["seconds"] for part in account["parts"])
    assert account["history"]["usual_s"] + added == pytest.approx(account["estimate_s"])
    assert second["known_at"] <= first["known_at"]
    assert document["global"][""]["unit"] == "log seconds"
    pictures = {Path(path).name for path in document["figures"]}
    assert {"global_importances.png", "local_explanation.png", "local_account.png"} <= pictures
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in document["figures"])


def test_the_whole_model_and_the_next_bins(ask) -> None:
    said = ask("--model", "throughput", "--version", 2)
    assert said.code == 0, said.err
    assert "submitted_gpus: what it looks at" in said.out
    document = ask("--model", "throughput", "--version", 2, "--cluster", "small", "--json").json
    assert [one["part"] for one in document["predictions"]] == ["submitted_gpu_jobs", "submitted_gpus"]
    for one in document["predictions"]:
        total = one["local"]["intercept"] + sum(term["contribution"] for term in one["local"]["terms"])
        assert total == pytest.approx(one["local"]["score"])
    shown = ask("--model", "throughput", "--version", 2, "--cluster", "small")
    assert "The features that move it most" in shown.out


def test_a_packing_score_is_a_way_through_the_tree(ask) -> None:
    said = ask("--model", "packing", "--version", 1, "--cluster", "small", "--job", "j100")
    assert said.code == 0, said.err
    assert "Jumbo because " in said.out
    assert "The way through the tree" in said.out
    unprofiled = ask("--model", "packing", "--version", 1, "--cluster", "small", "--job", "j101")
    assert unprofiled.code == 1
    assert "was never profiled" in unprofiled.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "weather"), "duration, inference_load, node_demand, packing, throughput"),
        (("--model", "duration"), "No cluster has a release"),
        (("--model", "duration", "--version", 9), "9"),
        (("--model", "duration", "--version", 1, "--job", "j1"), "--cluster"),
        (("--model", "duration", "--version", 1, "--cluster", "small", "--job", "x"), "no job 'x'"),
        (("--model", "throughput", "--version", 1, "--cluster", "small", "--job", "j1"), "not jobs"),
    ],
)
def test_what_cannot_be_explained_is_said_in_one_line(ask, arguments, says: str) -> None:
    said = ask(*arguments)
    assert said.code == 1
    assert says in said.err
    assert len(said.err.strip().splitlines()) == 1


def test_a_releases_models_are_found_by_its_alias(ask, local_shop) -> None:
    from lucid_models.releases.lifecycle import build_release

    release = build_release(tracking_uri=local_shop.uri, cluster="small")
    said = ask("--model", "duration", "--release", "challenger", "--json")
    assert said.json["version"] == release.models["duration"]["version"]


def test_an_explanation_rests_on_what_was_known_at_the_submission(world) -> None:
    """The state that explains a job is the one that the replay of the log gives it, whatever came after."""
    model = world.release.duration
    jobs = Lake(world.lake_uri).read_jobs("small")
    submit = jobs["submit_time"]
    later = np.flatnonzero((submit >= world.until).to_numpy())
    features = model.features_causal(jobs.iloc[later], earlier=jobs[submit < world.until]).to_numpy()
    for place in (3, 40, len(later) - 1):
        row = int(later[place])
        changed = jobs.copy()
        changed.loc[changed.index[row + 1 :], ["user", "duration_s"]] = ["somebody", 1e6]
        unknown = (changed["end_time"] > submit.iloc[row]).to_numpy()
        changed.loc[unknown, "duration_s"] = 1e6
        for table in (jobs, changed):
            scorer, at_s = scorer_as_of(model, table, row)
            job = job_mappings(jobs.iloc[[row]])[0]
            np.testing.assert_allclose(scorer.state.features(job, at_s), features[place], rtol=1e-12)
    assert scorer_as_of(model, jobs, 0)[0] is model.scorer
