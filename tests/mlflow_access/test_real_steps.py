"""The product's own steps, each with the account of its part, and what a scheduler gets with its own."""

import json
from pathlib import Path

import pytest

from foundation.errors import LucidError, NotFoundError, ServiceRefusedError, ServiceUnavailableError
from live_scheduler.release_server import ReleaseServer
from lucid_models.registry import Registry
from lucid_models.releases.clusters import note_removal
from lucid_models.releases.decisions import record_starters
from lucid_models.releases.lifecycle import (
    build_release,
    list_releases,
    publish_release,
    record_verdict,
    rollback_release,
)
from lucid_models.releases.studies import record_study
from mlflow_access.roles import JUDGE, PUBLISH, ROLES, TRAIN
from tests.mlflow_access.conftest import MARS, VENUS, GuardedMlflow

pytestmark = pytest.mark.thorough("small models are trained, and the real server stocked with two releases")


def test_a_release_is_replaced_and_rolled_back_by_three_accounts(
    stocked: GuardedMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    mars = {"tracking_uri": stocked.uri, "cluster": MARS}
    stocked.log_in("train", monkeypatch)
    built = build_release(**mars, settings={"allow_simulated_profiles": True, "gss": 3})
    verdict = {"approved": True, "sentence": "No loss.", "subject": {"study": "margin 1"}}
    stocked.log_in("judge", monkeypatch)
    record_study(**mars, version=built.version, verdict=verdict)
    record_verdict(**mars, version=built.version, verdict=verdict | {"subject": {}})
    record_starters(stocked.uri, MARS, built.version, ["ann"])
    with pytest.raises(ServiceRefusedError, match="judge"):
        publish_release(**mars)
    stocked.log_in("publish", monkeypatch)
    assert publish_release(**mars, by="ann", because="better").version == built.version
    assert rollback_release(**mars).version != built.version
    stocked.log_in("train", monkeypatch)
    note_removal(stocked.uri, MARS)
    assert (
        build_release(**mars, settings={"allow_simulated_profiles": True, "gss": 3}).version == built.version
    )
    with pytest.raises(ServiceRefusedError, match="train"):
        rollback_release(**mars)
    stocked.log_in("pages", monkeypatch)
    assert {release.cluster for release in list_releases(tracking_uri=stocked.uri)} == {VENUS, MARS}


@pytest.mark.parametrize("role", [TRAIN, JUDGE, PUBLISH])
def test_each_part_writes_runs_of_all_its_experiments(
    stocked: GuardedMlflow, monkeypatch: pytest.MonkeyPatch, role: str, tmp_path: Path
) -> None:
    stocked.log_in(role, monkeypatch)
    registry = Registry(stocked.uri)
    (tmp_path / "a.txt").write_text("x")
    for experiment in sorted(ROLES[role].experiments):
        with registry.run(experiment, "a run") as run:
            run.log_params({"a": 1})
            run.log_metrics({"b": 2.0})
            run.log_folder(tmp_path)
            run.set_tag("c", "3")
            run.rename("another name")
        assert registry.read_run_file(run.run_id, "a.txt") == b"x"
    for other in {TRAIN, JUDGE, PUBLISH} - {role}:
        for experiment in ROLES[other].experiments:
            with pytest.raises(LucidError, match="may not"), registry.run(experiment, "a run"):
                pass


def test_a_scheduler_reads_what_it_follows_and_no_more(
    stocked: GuardedMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests of the light client, with the account of one cluster."""
    stocked.log_in("schedule", monkeypatch)
    server = ReleaseServer(stocked.uri)
    try:
        name = f"lucid-release-{VENUS}"
        assert server.models_with("champion") == [name], "of two clusters it sees its own"
        found = server.resolve(name, "champion")
        assert found.verdict.run_id is not None
        verdict = json.loads(server.fetch_of_run(found.verdict.run_id, "verdict.json", 10**6))
        assert verdict["release"]["cluster"] == VENUS
        assert server.fetch(name, found.version, "manifest.json", 10**6).startswith(b"{")
        with pytest.raises(NotFoundError):
            server.resolve(name, "nothing")
        with pytest.raises(ServiceUnavailableError, match="403"):
            server.resolve(f"lucid-release-{MARS}", "champion")
    finally:
        server.close()
