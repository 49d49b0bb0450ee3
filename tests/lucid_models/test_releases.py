import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError, ServiceUnavailableError
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import (
    build_release,
    list_releases,
    load_release_models,
    publish_release,
    record_verdict,
    rollback_release,
    show_release,
)
from lucid_models.releases.manifest import release_name
from tests.evidence import Evidence

SMALL = release_name("small")


class KilledError(Exception):
    """The process died here."""


def aliases(uri: str) -> dict[str, int]:
    return Registry(uri).aliases(SMALL)


def test_build_pins_versions_digests_and_settings(local_shop: Any) -> None:
    release = build_release(tracking_uri=local_shop.uri, cluster="small", settings={"gss": 1})
    assert release.alias == "challenger"
    assert release.verdict is None
    assert {kind: pin["version"] for kind, pin in release.models.items()} == {
        "packing": 2, "throughput": 2, "duration": 2,
    }  # fmt: skip
    for kind, pin in release.models.items():
        assert pin["digest"] == hashlib.sha256(local_shop.files[kind][1].read_bytes()).hexdigest()
    assert release.settings == {"gss": 1}
    assert release.provenance == {"simulated_profiles": True, "synthetic_logs": True}
    models = load_release_models(tracking_uri=local_shop.uri, cluster="small", version=release.version)
    assert models.packing.predict([95.0], [50.0], [9_000.0], [0]).tolist() == [2]
    assert models.manifest.cluster == "small"


def test_building_the_same_twice_gives_one_version(local_shop: Any) -> None:
    first = build_release(tracking_uri=local_shop.uri, cluster="small")
    other = build_release(tracking_uri=local_shop.uri, cluster="small", versions={"packing": 1})
    again = build_release(tracking_uri=local_shop.uri, cluster="small")
    assert (again.version, again.created) == (first.version, first.created)
    assert other.version != first.version
    assert aliases(local_shop.uri)["challenger"] == first.version
    assert [release.version for release in list_releases(tracking_uri=local_shop.uri)] == [2, 1]


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"versions": {"weather": 1}}, BadInputError, "weather"),
        ({"versions": {"packing": 99}}, NotFoundError, "99"),
        ({"cluster": "another"}, NotFoundError, "another"),
        ({"cluster": "another", "versions": {"throughput": 1}}, BadInputError, "small"),
        ({"training_until": datetime(2020, 4, 9, tzinfo=UTC)}, BadInputError, "learned"),
        ({"settings": {"gss": float("nan")}}, BadInputError, "nan"),
    ],
)
def test_build_refuses(
    local_shop: Any, arguments: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        build_release(**({"tracking_uri": local_shop.uri, "cluster": "small"} | arguments))
    assert list_releases(tracking_uri=local_shop.uri) == []


def test_publish_needs_an_approved_verdict_on_this_very_release(local_shop: Any) -> None:
    built = build_release(tracking_uri=local_shop.uri, cluster="small")
    with pytest.raises(ReleaseRefusedError, match="has no verdict"):
        publish_release(tracking_uri=local_shop.uri, cluster="small")
    record_verdict(
        tracking_uri=local_shop.uri,
        cluster="small",
        version=built.version,
        verdict={"approved": False, "sentence": "JCT rose by 4 %."},
    )
    with pytest.raises(ReleaseRefusedError, match="JCT rose by 4 %"):
        publish_release(tracking_uri=local_shop.uri, cluster="small")
    # Somebody flips the tag by hand: the document counts.
    registry = Registry(local_shop.uri)
    registry.set_version_tag(SMALL, built.version, "verdict", "approved")
    with pytest.raises(ReleaseRefusedError, match="JCT rose by 4 %"):
        publish_release(tracking_uri=local_shop.uri, cluster="small")
    # And the other way round: both have to say so.
    record_verdict(
        tracking_uri=local_shop.uri, cluster="small", version=built.version, verdict={"approved": True}
    )
    registry.set_version_tag(SMALL, built.version, "verdict", "refused")
    with pytest.raises(ReleaseRefusedError, match="its tag says 'refused'"):
        publish_release(tracking_uri=local_shop.uri, cluster="small")
    assert "champion" not in aliases(local_shop.uri)


def test_a_verdict_does_not_serve_another_release(local_shop: Any) -> None:
    good = local_shop.approved(1)
    other = build_release(tracking_uri=local_shop.uri, cluster="small")
    registry = Registry(local_shop.uri)
    for key, value in registry.version(SMALL, good).tags.items():
        if key.startswith("verdict"):
            registry.set_version_tag(SMALL, other.version, key, value)
    with pytest.raises(ReleaseRefusedError, match="was given on"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=other.version)
    registry.set_version_tag(SMALL, good, "verdict_sha256", "0" * 64)
    with pytest.raises(ReleaseRefusedError, match="SHA-256"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=good)


def test_publish_moves_champion_and_keeps_previous(local_shop: Any, tmp_path: Path) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    published = publish_release(tracking_uri=local_shop.uri, cluster="small", version=first)
    assert (published.alias, published.version) == ("champion", first)
    publish_release(tracking_uri=local_shop.uri, cluster="small")
    assert aliases(local_shop.uri) == {"challenger": second, "champion": second, "previous": first}
    publish_release(tracking_uri=local_shop.uri, cluster="small")
    assert aliases(local_shop.uri) == {"challenger": second, "champion": second, "previous": first}
    shown = show_release(tracking_uri=local_shop.uri, cluster="small")
    assert shown.version == second
    assert shown.verdict is not None
    assert shown.verdict["sentence"] == "No loss was found."
    assert shown.verdict["objective"] == {"change_pct": -3.0}


def test_a_release_remembers_who_made_it_live_and_why(local_shop: Any) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    assert show_release(tracking_uri=local_shop.uri, cluster="small", version=first).went_live is None
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=first, by="ann")
    publish_release(tracking_uri=local_shop.uri, cluster="small", by="ben", because="the gate is right")
    shown = show_release(tracking_uri=local_shop.uri, cluster="small").went_live
    assert shown is not None
    assert (shown.kind, shown.by, shown.because, shown.before) == (
        "publish",
        "ben",
        "the gate is right",
        first,
    )
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=second, by="cat")
    assert show_release(tracking_uri=local_shop.uri, cluster="small").went_live == shown, (
        "it was live already"
    )
    back = rollback_release(
        tracking_uri=local_shop.uri, cluster="small", by="dan", because="slow <b>"
    ).went_live
    assert back is not None
    assert (back.kind, back.by, back.because, back.before) == ("rollback", "dan", "slow <b>", second)


def test_verdict_brings_its_tables(local_shop: Any, tmp_path: Path) -> None:
    version = build_release(tracking_uri=local_shop.uri, cluster="small").version
    (tmp_path / "policies.csv").write_text("policy,mean_jct_s\nfifo,10\n")
    record_verdict(
        tracking_uri=local_shop.uri,
        cluster="small",
        version=version,
        verdict={"approved": True, "sentence": "x"},
        artifacts_dir=tmp_path,
    )
    registry = Registry(local_shop.uri)
    run_id = registry.version(SMALL, version).tags["verdict_run_id"]
    assert registry.read_run_file(run_id, "policies.csv") == b"policy,mean_jct_s\nfifo,10\n"
    experiment = registry.client.get_experiment(registry.client.get_run(run_id).info.experiment_id)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    with pytest.raises(BadInputError, match="approved"):
        record_verdict(
            tracking_uri=local_shop.uri, cluster="small", version=version, verdict={"approved": "yes"}
        )


def test_rollback_goes_back_and_forth(local_shop: Any) -> None:
    with pytest.raises(NotFoundError, match="no champion"):
        rollback_release(tracking_uri=local_shop.uri, cluster="small")
    first, second = local_shop.approved(1), local_shop.approved(2)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=first)
    with pytest.raises(NotFoundError, match="no previous"):
        rollback_release(tracking_uri=local_shop.uri, cluster="small")
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)
    back = rollback_release(tracking_uri=local_shop.uri, cluster="small", from_version=second)
    assert back.version == first
    assert aliases(local_shop.uri) == {"challenger": second, "champion": first, "previous": second}
    # A retry of the same rollback is no second rollback.
    assert (
        rollback_release(tracking_uri=local_shop.uri, cluster="small", from_version=second).version == first
    )
    with pytest.raises(ReleaseRefusedError, match="rolled back"):
        publish_release(tracking_uri=local_shop.uri, cluster="small")
    with pytest.raises(ReleaseRefusedError, match="rolled back"):  # while a person was asked
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=second, named=False)
    assert publish_release(tracking_uri=local_shop.uri, cluster="small", version=second).version == second
    assert rollback_release(tracking_uri=local_shop.uri, cluster="small").version == first


def kill_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Let the process die at its write number `writes` + 1 to the registry."""
    done = 0

    def dying(method: Callable[..., None]) -> Callable[..., None]:
        def write(*arguments: Any, **named: Any) -> None:
            nonlocal done
            if done == writes:
                raise KilledError
            done += 1
            method(*arguments, **named)

        return write

    for name in ("set_alias", "set_model_tag", "delete_model_tag", "set_version_tag", "delete_version_tag"):
        monkeypatch.setattr(Registry, name, dying(getattr(Registry, name)))


def set_aliases(uri: str, wanted: dict[str, int]) -> None:
    for alias in ("challenger", "champion", "previous"):
        Registry(uri).client.delete_registered_model_alias(SMALL, alias)
    for alias, version in wanted.items():
        Registry(uri).set_alias(SMALL, alias, version)


@pytest.mark.evidence(table="faults", rows=("3",))
def test_a_gate_killed_while_it_tells_its_verdict_has_approved_nothing(
    local_shop: Any, monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    small = {"tracking_uri": local_shop.uri, "cluster": "small"}
    verdict = {"approved": True, "sentence": "No loss was found.", "objective": {"change_pct": -3.0}}
    version = build_release(**small, settings={"gss": 2}).version
    deaths = 0
    while True:
        with monkeypatch.context() as patch:
            kill_after(patch, deaths)
            try:
                record_verdict(**small, version=version, verdict=verdict)
                break
            except KilledError:
                deaths += 1
        with pytest.raises(ReleaseRefusedError):
            publish_release(**small, version=version)
        assert "champion" not in aliases(local_shop.uri)
    assert deaths > 0
    assert publish_release(**small, version=version).version == version
    evidence(
        "faults", "3", "Without its whole verdict a release is not published; judged again, it is as ever."
    )


@pytest.mark.evidence(table="faults", rows=("4",))
def test_publish_killed_anywhere_ends_right_when_run_again(
    local_shop: Any, monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    oldest, first, second = (
        local_shop.approved(1),
        local_shop.approved(2),
        local_shop.approved(1, settings={"gss": 1}),
    )
    for writes in range(7):
        set_aliases(local_shop.uri, {"challenger": second, "champion": first, "previous": oldest})
        with monkeypatch.context() as patch:
            kill_after(patch, writes)
            try:
                publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)
                died = False
            except KilledError:
                died = True
        # Writes: the decision, note the move, champion, previous, forget the move and an earlier rollback.
        assert died == (writes < 6)
        between = aliases(local_shop.uri)
        assert between["champion"] == (first if writes < 3 else second)
        assert between["previous"] == (oldest if writes < 4 else first)
        if writes == 0:
            load_release_models(tracking_uri=local_shop.uri, cluster="small", version=between["champion"])
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)
        assert aliases(local_shop.uri) == {"challenger": second, "champion": second, "previous": first}
        assert "transition" not in Registry(local_shop.uri).model_tags(SMALL)
    evidence(
        "faults",
        "4",
        "After each of its six writes either the old or the new release is live, whole; run again, "
        "it ends right.",
    )


def test_rollback_killed_anywhere_ends_right_when_run_again(
    local_shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    for writes in range(7):
        set_aliases(local_shop.uri, {"challenger": second, "champion": second, "previous": first})
        with monkeypatch.context() as patch:
            kill_after(patch, writes)
            with pytest.raises(KilledError):
                rollback_release(tracking_uri=local_shop.uri, cluster="small", from_version=second)
        assert aliases(local_shop.uri)["champion"] == (second if writes < 4 else first)
        assert (
            rollback_release(tracking_uri=local_shop.uri, cluster="small", from_version=second).version
            == first
        )
        assert aliases(local_shop.uri) == {"challenger": second, "champion": first, "previous": second}


def test_rollback_after_a_killed_publish_returns_to_what_was_live(
    local_shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=first)
    with monkeypatch.context() as patch:
        kill_after(patch, 3)  # the new champion is set, previous not yet
        with pytest.raises(KilledError):
            publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)
    assert aliases(local_shop.uri)["champion"] == second
    assert rollback_release(tracking_uri=local_shop.uri, cluster="small").version == first


def test_of_two_publishers_one_gives_up(local_shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    write = Registry.set_model_tag

    def overtaken(self: Registry, name: str, key: str, value: str) -> None:
        write(self, name, key, value)
        monkeypatch.setattr(Registry, "set_model_tag", write)
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=first)

    monkeypatch.setattr(Registry, "set_model_tag", overtaken)
    with pytest.raises(ReleaseRefusedError, match="Another publication"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)
    assert aliases(local_shop.uri)["champion"] == first


def test_a_publication_that_came_and_went_in_between_holds(
    local_shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    write = Registry.set_version_tag

    def overtaken(self: Registry, name: str, version: int, key: str, value: str) -> None:
        monkeypatch.setattr(Registry, "set_version_tag", write)
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=first)
        write(self, name, version, key, value)

    monkeypatch.setattr(Registry, "set_version_tag", overtaken)
    with pytest.raises(ReleaseRefusedError, match=f"Another publication.*release {first} is live"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)
    assert aliases(local_shop.uri)["champion"] == first
    assert "transition" not in Registry(local_shop.uri).model_tags(SMALL)


def test_a_publication_whose_alias_another_wrote_over_is_not_told_as_done(
    local_shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    write = Registry.set_alias

    def written_over(self: Registry, name: str, alias: str, version: int) -> None:
        write(self, name, alias, version)
        write(self, name, alias, first)

    monkeypatch.setattr(Registry, "set_alias", written_over)
    with pytest.raises(ReleaseRefusedError, match=f"release {first} is live"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)


def test_a_request_to_publish_expires_when_another_release_goes_live(local_shop: Any) -> None:
    asked, newer = local_shop.approved(1), local_shop.approved(2)
    small = {"tracking_uri": local_shop.uri, "cluster": "small"}
    publish_release(**small, version=newer, replaces=0)
    with pytest.raises(ReleaseRefusedError, match="in place of release 7, and release 2 is live now"):
        publish_release(**small, version=asked, replaces=7)
    with pytest.raises(
        ReleaseRefusedError, match=r"has expired: it was to go live when none was.*--replaces 2"
    ):
        publish_release(**small, version=asked, replaces=0)
    assert aliases(local_shop.uri)["champion"] == newer
    for _ in range(2):  # a task that is tried again after it has moved the alias
        assert publish_release(**small, version=asked, replaces=newer).version == asked


@pytest.mark.evidence(table="faults", rows=("2",))
def test_build_killed_before_registration_leaves_no_release(
    local_shop: Any, monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    def dies(*arguments: Any, **named: Any) -> int:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Registry, "create_version", dies)
        with pytest.raises(KilledError):
            build_release(tracking_uri=local_shop.uri, cluster="small")
    assert list_releases(tracking_uri=local_shop.uri) == []
    assert build_release(tracking_uri=local_shop.uri, cluster="small").version == 1
    evidence(
        "faults",
        "2",
        "There is no release until all of it is stored; the next build makes version 1.",
    )


def test_a_changed_file_is_not_published(local_shop: Any) -> None:
    version = local_shop.approved(1)
    run_id = show_release(tracking_uri=local_shop.uri, cluster="small", version=version).run_id
    stored = next((local_shop.server.folder / "artifacts").rglob(f"{run_id}/artifacts/release/duration.json"))
    whole = stored.read_bytes()
    stored.write_bytes(whole.replace(b"1", b"2", 1))
    with pytest.raises(ReleaseRefusedError, match=r"duration\.json has the SHA-256"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
    stored.write_bytes(whole[:-1])
    with pytest.raises(ReleaseRefusedError, match=r"duration\.json holds"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
    stored.unlink()
    with pytest.raises(NotFoundError, match=r"duration\.json"):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
    assert "champion" not in aliases(local_shop.uri)


def test_a_rollback_to_what_is_damaged_or_no_longer_approved_moves_nothing(local_shop: Any) -> None:
    first, second = local_shop.approved(1), local_shop.approved(2)
    for version in (first, second):
        publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
    before = aliases(local_shop.uri)
    registry = Registry(local_shop.uri)
    run_id = registry.version(SMALL, first).run_id
    folder = next((local_shop.server.folder / "artifacts").rglob(f"{run_id}/artifacts/release"))

    def refused(said: str) -> None:
        with pytest.raises(ReleaseRefusedError, match=said):
            rollback_release(tracking_uri=local_shop.uri, cluster="small", from_version=second)
        assert aliases(local_shop.uri) == before
        assert "rolled_back" not in registry.version(SMALL, second).tags
        assert "transition" not in registry.model_tags(SMALL)

    for file, damage, said in (
        ("duration.json", lambda whole: whole.replace(b"1", b"2", 1), r"duration\.json has the SHA-256"),
        ("packing.json", lambda whole: whole[:-1], r"packing\.json holds"),
        ("manifest.json", lambda whole: whole.replace(b'"gss": 2', b'"gss": 1'), "manifest of release"),
    ):
        whole = (folder / file).read_bytes()
        (folder / file).write_bytes(damage(whole))
        refused(said)
        (folder / file).write_bytes(whole)
    registry.set_version_tag(SMALL, first, "verdict", "refused")
    refused("its tag says 'refused'")
    registry.set_version_tag(SMALL, first, "verdict", "approved")
    assert (
        rollback_release(tracking_uri=local_shop.uri, cluster="small", from_version=second).version == first
    )


def test_simulated_profiles_do_not_go_live_on_a_real_cluster(local_shop: Any) -> None:
    registry = Registry(local_shop.uri)
    for kind in ("throughput", "duration"):
        registry.set_version_tag(f"lucid-{kind}", 1, "synthetic_logs", "false")
    try:
        version = local_shop.approved(1)
        assert show_release(tracking_uri=local_shop.uri, cluster="small", version=version).provenance == {
            "simulated_profiles": True, "synthetic_logs": False,
        }  # fmt: skip
        with pytest.raises(ReleaseRefusedError, match="simulated profiles"):
            publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
        allowed = local_shop.approved(1, settings={"gss": 2, "allow_simulated_profiles": True})
        assert (
            publish_release(tracking_uri=local_shop.uri, cluster="small", version=allowed).version == allowed
        )
    finally:
        for kind in ("throughput", "duration"):
            registry.set_version_tag(f"lucid-{kind}", 1, "synthetic_logs", "true")


def test_show_names_what_is_missing(local_shop: Any) -> None:
    with pytest.raises(NotFoundError, match="champion"):
        show_release(tracking_uri=local_shop.uri, cluster="small")
    build_release(tracking_uri=local_shop.uri, cluster="small")
    with pytest.raises(NotFoundError, match=r"challenger \(1\)"):
        show_release(tracking_uri=local_shop.uri, cluster="small", alias="champion")


def test_no_server_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1:9 "):
        show_release(tracking_uri="http://127.0.0.1:9", cluster="small")


def test_registered_models_serve_and_hold_no_pickle(shop: Any, tmp_path: Path) -> None:
    folder = shop.server.folder / "artifacts"
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert not {name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))}
    assert {"packing.json", "mlflow_scorer.py", "requirements.txt", "input_example.json"} <= names
    answer = httpx.get(
        f"{shop.uri}/model-versions/get-artifact",
        params={"name": "lucid-packing", "version": "1", "path": "artifacts/packing.json"},
    )
    assert answer.content == shop.files["packing"][0].read_bytes()
