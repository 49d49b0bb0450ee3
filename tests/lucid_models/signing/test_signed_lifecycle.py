"""A release from its verdict to schedulers: what is signed when, and what is kept of it."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from foundation.errors import BadInputError, LucidError, ReleaseRefusedError
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict, rollback_release
from lucid_models.releases.manifest import release_name
from lucid_models.releases.publication_history import EXPERIMENT, read_history
from lucid_models.releases.publications import renew_champion, renew_publication
from lucid_models.releases.store import identity_of
from lucid_models.signing.installation import Signing
from lucid_models.signing.key_store import KeyStore
from lucid_models.signing.refusals import Reason, StatementRefusedError
from lucid_models.signing.statements import JUDGEMENT_TAG, PUBLICATION_TAG, Publication
from lucid_models.signing.verification import believe_publication
from tests.command_line import Lucid
from tests.evidence import Evidence
from tests.fixtures import register_small_models

NAME = release_name("small")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, small_model_files: dict[str, list[Path]]) -> Path:
    """Two approved releases of a small cluster, in an installation with keys."""
    folder = tmp_path_factory.mktemp("judged")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LUCID_STATE_DIR", str(folder / "state"))
        patch.delenv("LUCID_TRUST", raising=False)
        KeyStore(folder / "state" / "trust.json", folder / "state" / "keys").create()
        register_small_models(uri, small_model_files)
        for number in (1, 2):
            build_release(
                tracking_uri=uri,
                cluster="small",
                versions=dict.fromkeys(("packing", "throughput", "duration"), number),
                settings={"allow_simulated_profiles": True},
            )
            judge({"tracking_uri": uri, "cluster": "small"}, number)
    return folder


@pytest.fixture
def site(judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A copy of it; which registry, and which cluster."""
    shutil.copytree(judged / "state", tmp_path / "state")
    shutil.copy(judged / "mlflow.db", tmp_path)
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("LUCID_TRUST", raising=False)
    return {"tracking_uri": f"sqlite:///{tmp_path / 'mlflow.db'}", "cluster": "small"}


def judge(site: dict[str, Any], version: int, *, approved: bool = True) -> None:
    verdict = {"approved": approved, "sentence": "No loss was found.", "rules": {"margin_pct": 5.0}}
    record_verdict(**site, version=version, verdict=verdict)


def live(site: dict[str, Any]) -> Publication:
    """What a scheduler believes of the champion now."""
    registry = Registry(site["tracking_uri"])
    champion = registry.version(NAME, registry.aliases(NAME)["champion"])
    trust = Signing.of_environment().trust
    assert trust is not None
    return believe_publication(
        champion.tags.get(PUBLICATION_TAG),
        release=identity_of(champion),
        verdict_sha256=champion.tags["verdict_sha256"],
        trust=trust,
        now=datetime.now(UTC),
    ).publication


def history(site: dict[str, Any]) -> list[tuple[str, int, str | None]]:
    past = read_history(Registry(site["tracking_uri"]), "small", Signing.of_environment())
    return [(each.publication.kind, each.publication.release.version, each.problem) for each in past]


def test_what_goes_live_is_signed_with_who_asked_and_kept(site: dict[str, Any]) -> None:
    publish_release(**site, version=1, by="noor", asked_by="mia", because="a first one")
    first = live(site)
    publish_release(**site, version=2, by="mia", because="shorter queues")
    second = live(site)
    rollback_release(**site, by="noor", because="queues grew")
    third = live(site)
    assert (first.asked_by, first.approved_by, first.because) == ("mia", "noor", "a first one")
    assert [each.kind for each in (first, second, third)] == ["publish", "publish", "rollback"]
    assert first.sequence < second.sequence < third.sequence
    assert [each.replaces for each in (first, second, third)] == [None, 1, 2]
    assert set(first.files) == {
        "manifest.json",
        "verdict.json",
        "packing.json",
        "throughput.json",
        "duration.json",
    }
    assert first.expires - first.at == timedelta(hours=24)
    assert history(site) == [("rollback", 1, None), ("publish", 2, None), ("publish", 1, None)]


def test_a_renewal_holds_longer_and_is_no_history(
    site: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_release(**site, version=1, by="mia")
    first = live(site)
    registry = Registry(site["tracking_uri"])
    monkeypatch.setenv("LUCID_PUBLICATION_HOURS", "30")
    renew_publication(registry, registry.version(NAME, 1), Signing.of_environment())
    renewed = live(site)
    assert (renewed.kind, renewed.asked_by) == ("renew", "mia")
    assert renewed.sequence > first.sequence
    assert renewed.expires > first.expires
    assert renewed.files == first.files
    assert history(site) == [("publish", 1, None)]
    publish_release(**site, version=2)
    assert live(site).sequence > renewed.sequence
    assert history(site) == [("publish", 2, None), ("publish", 1, None)]


def test_judged_again_the_champion_is_signed_again(site: dict[str, Any]) -> None:
    publish_release(**site, version=1)
    judge(site, 1)
    record_verdict(**site, version=1, verdict={"approved": True, "sentence": "By other days."})
    with pytest.raises(StatementRefusedError):
        live(site)
    publish_release(**site, version=1)
    assert live(site).kind == "renew"


def test_what_the_judge_did_not_sign_is_not_published(site: dict[str, Any]) -> None:
    registry = Registry(site["tracking_uri"])
    registry.set_version_tag(NAME, 2, JUDGEMENT_TAG, registry.version(NAME, 1).tags[JUDGEMENT_TAG])
    with pytest.raises(StatementRefusedError) as refused:
        publish_release(**site, version=2)
    assert refused.value.reason == Reason.OTHER_RELEASE
    registry.delete_version_tag(NAME, 2, JUDGEMENT_TAG)
    with pytest.raises(StatementRefusedError) as refused:
        publish_release(**site, version=2)
    assert refused.value.reason == Reason.UNSIGNED
    assert "champion" not in registry.aliases(NAME)


def test_without_keys_nothing_is_judged_or_published_and_unsigned_is_a_word(
    site: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state" / "keys" / "publisher.key").unlink()
    with pytest.raises(BadInputError, match="lucid keys create"):
        publish_release(**site, version=1)
    (tmp_path / "state" / "keys" / "judge.key").unlink()
    with pytest.raises(BadInputError, match="LUCID_TRUST=unsigned"):
        judge(site, 1)
    monkeypatch.setenv("LUCID_TRUST", "unsigned")
    judge(site, 1)
    publish_release(**site, version=1)
    tags = Registry(site["tracking_uri"]).version(NAME, 1).tags
    assert not {JUDGEMENT_TAG, PUBLICATION_TAG} & tags.keys()


def test_a_history_from_which_one_was_taken_shows_the_gap(site: dict[str, Any]) -> None:
    publish_release(**site, version=1)
    publish_release(**site, version=2)
    rollback_release(**site)
    registry = Registry(site["tracking_uri"])
    runs = registry.find_runs(EXPERIMENT, {"cluster": "small", "release_version": "2"})
    registry.client.delete_run(runs[0].run_id)
    gap = "The publication before it is missing, or is not believed."
    assert history(site) == [("rollback", 1, gap), ("publish", 1, None)]


def test_a_history_that_was_written_by_another_is_not_believed(site: dict[str, Any]) -> None:
    publish_release(**site, version=1)
    publish_release(**site, version=2)
    registry = Registry(site["tracking_uri"])
    run = registry.find_runs(EXPERIMENT, {"release_version": "2"})[0]
    text = run.tags[PUBLICATION_TAG]
    changed = text.replace('"sig": "', '"sig": "AAAA', 1)
    registry.client.set_tag(run.run_id, PUBLICATION_TAG, changed)
    (kept, forged) = history(site)
    assert kept == ("publish", 1, None)
    assert "does not fit" in str(forged[2])


@pytest.mark.parametrize("killed_at", ["sign", "history"])
def test_a_publication_that_was_interrupted_is_made_up_for(
    site: dict[str, Any], killed_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucid_models.releases import lifecycle

    publish_release(**site, version=1)
    step = {"sign": "record_decision", "history": "keep_in_history"}[killed_at]
    calls = []

    def killed(*args: Any, **kwargs: Any) -> None:
        calls.append(step)
        if step == "record_decision" or len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, step, killed)
        with pytest.raises(KeyboardInterrupt):
            publish_release(**site, version=2)
    expected = 1 if killed_at == "sign" else 2
    assert live(site).release.version == expected
    publish_release(**site, version=2)
    assert live(site).release.version == 2
    assert history(site) == [("publish", 2, None), ("publish", 1, None)]


def test_the_commands_say_what_was_live_and_renew_it(
    lucid: Lucid, site: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))  # `lucid` has one of its own
    publish_release(**site, version=1, by="noor", asked_by="mia", because="[red]shorter[/red]")
    words = ("--cluster", "small", "--tracking-uri", site["tracking_uri"])
    (past,) = lucid("release", "history", *words, "--json").json["history"]
    assert (past["publication"]["asked_by"], past["is_believed"]) == ("mia", True)
    assert "[red]shorter[/red]" in lucid("release", "history", *words).out
    renewed = lucid("release", "renew", *words, "--json").json
    assert renewed["sequence"] == live(site).sequence > past["publication"]["sequence"]


def test_hours_that_are_none_are_refused(site: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID_PUBLICATION_HOURS", "0.5")
    with pytest.raises(BadInputError, match="from 1 to 744"):
        publish_release(**site, version=1)


def test_a_rotated_key_signs_and_what_the_old_one_signed_holds(site: dict[str, Any], tmp_path: Path) -> None:
    publish_release(**site, version=1)
    store = KeyStore(tmp_path / "state" / "trust.json", tmp_path / "state" / "keys")
    old = next(key for key in store.trust.keys if key.role == "publisher")
    following = store.begin_rotation("publisher")
    assert store.begin_rotation("publisher") == following
    publish_release(**site, version=2)
    store.finish_rotation("publisher")
    assert live(site).release.version == 2
    rollback_release(**site)
    assert live(site).release.version == 1
    store.revoke(old.id)
    assert live(site).release.version == 1
    assert [version for _, version, _ in history(site)] == [1, 2, 1]
    past = read_history(Registry(site["tracking_uri"]), "small", Signing.of_environment())
    assert [each.is_believed for each in past] == [True, False, False]
    assert "was revoked" in str(past[1].problem)
    with pytest.raises(LucidError):
        store.finish_rotation("publisher")
    store.revoke(following.id)
    with pytest.raises(ReleaseRefusedError, match="revoked"):
        live(site)


def test_a_champion_from_before_signatures_is_judged_again_and_signed(
    site: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setenv("LUCID_TRUST", "unsigned")
        judge(site, 1)
        publish_release(**site, version=1, by="mia", because="before")
    judge(site, 1)
    with pytest.raises(ReleaseRefusedError, match="publish --cluster small --version 1"):
        renew_champion(**site)
    publish_release(**site, version=1, by="noor")
    assert (live(site).kind, live(site).asked_by) == ("publish", "noor")
    assert history(site) == [("publish", 1, None)]


@pytest.mark.evidence(table="security", rows=("the alias is moved, and a renewal is waited for to sign it",))
@pytest.mark.parametrize("statement", ["none", "of another release", "its own of before"])
def test_a_renewal_does_not_sign_what_another_made_the_champion(
    site: dict[str, Any], statement: str, evidence: Evidence
) -> None:
    publish_release(**site, version=1)
    registry = Registry(site["tracking_uri"])
    moved = 2
    if statement != "none":
        publish_release(**site, version=2)
        moved = 1
    if statement == "of another release":
        text = registry.version(NAME, 2).tags[PUBLICATION_TAG]
        registry.set_version_tag(NAME, moved, PUBLICATION_TAG, text)
    registry.set_alias(NAME, "champion", moved)
    before = registry.version(NAME, moved).tags.get(PUBLICATION_TAG)
    with pytest.raises(ReleaseRefusedError, match="is not signed as live") as refused:
        renew_champion(**site)
    if statement == "none":
        evidence("security", "the alias is moved, and a renewal is waited for to sign it", str(refused.value))
    assert registry.version(NAME, moved).tags.get(PUBLICATION_TAG) == before
    publish_release(**site, version=moved, by="noor", because="meant so")
    assert (live(site).kind, live(site).asked_by, live(site).because) == ("publish", "noor", "meant so")
    renew_champion(**site)
    assert live(site).kind == "renew"


@pytest.mark.evidence(
    table="security", rows=("the alias `previous` is moved, and a rollback is waited for to sign it",)
)
def test_a_rollback_goes_to_no_release_that_was_never_published(
    site: dict[str, Any], evidence: Evidence
) -> None:
    publish_release(**site, version=1)
    registry = Registry(site["tracking_uri"])
    registry.set_alias(NAME, "previous", 2)
    with pytest.raises(ReleaseRefusedError, match="never signed as live") as refused:
        rollback_release(**site)
    evidence(
        "security",
        "the alias `previous` is moved, and a rollback is waited for to sign it",
        str(refused.value),
    )
    assert registry.aliases(NAME)["champion"] == 1
    assert PUBLICATION_TAG not in registry.version(NAME, 2).tags
    assert live(site).release.version == 1


@pytest.mark.evidence(
    table="security",
    rows=("the alias is moved back, and the history of what was newer is deleted, before a renewal",),
)
def test_a_renewal_remembers_what_was_live_though_the_registry_lost_it(
    site: dict[str, Any], evidence: Evidence
) -> None:
    publish_release(**site, version=1)
    publish_release(**site, version=2)
    registry = Registry(site["tracking_uri"])
    registry.set_alias(NAME, "champion", 1)
    for run in registry.find_runs(EXPERIMENT, {"release_version": "2"}):
        registry.client.delete_run(run.run_id)
    registry.client.delete_model_version(NAME, "2")
    with pytest.raises(ReleaseRefusedError, match="went live since") as refused:
        renew_champion(**site)
    evidence(
        "security",
        "the alias is moved back, and the history of what was newer is deleted, before a renewal",
        str(refused.value),
    )
    publish_release(**site, version=1)
    renew_champion(**site)


def test_a_champion_whose_key_was_revoked_is_published_again(site: dict[str, Any], tmp_path: Path) -> None:
    publish_release(**site, version=1)
    store = KeyStore(tmp_path / "state" / "trust.json", tmp_path / "state" / "keys")
    store.revoke(next(key for key in store.trust.keys if key.role == "publisher").id)
    store.begin_rotation("publisher")
    store.finish_rotation("publisher")
    with pytest.raises(ReleaseRefusedError, match="was revoked"):
        renew_champion(**site)
    publish_release(**site, version=1, by="noor")
    assert (live(site).kind, live(site).asked_by) == ("publish", "noor")
    registry = Registry(site["tracking_uri"])
    registry.set_version_tag(NAME, 1, PUBLICATION_TAG, "{}")
    publish_release(**site, version=2)
    assert live(site).release.version == 2
