"""Every way to have a scheduler follow what was not published is refused with its own sentence, and the
release before stays: on a real MLflow server, by an account that may write whatever there is.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.release import FallbackRelease
from lucid_models.releases.approval import identify
from lucid_models.releases.lifecycle import build_release, record_verdict
from lucid_models.releases.manifest import MANIFEST_FILE
from lucid_models.signing.refusals import Reason
from lucid_models.signing.statements import JUDGEMENT_TAG, PUBLICATION_TAG
from lucid_models.signing.trust import Trust
from tests.evidence import Evidence
from tests.fixtures import MlflowServer, ReleaseShop, forget_new_models, forget_releases
from tests.live_scheduler.signed_releases import (
    FILES,
    JUDGE,
    NOON,
    PUBLISHER,
    SECOND,
    SMALL,
    STRANGER,
    TRUST,
    Follower,
    SignedReleases,
    trusted,
)

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def two_releases(stocked_server: MlflowServer, small_model_files: dict[str, list[Path]]) -> SignedReleases:
    forget_releases(stocked_server.uri)
    forget_new_models(stocked_server.uri, stock=2)
    shop = ReleaseShop(stocked_server, small_model_files)
    return SignedReleases(shop, shop.approved(1), shop.approved(2))


@pytest.fixture
def signed(two_releases: SignedReleases) -> Iterator[SignedReleases]:
    two_releases.restore()
    yield two_releases
    two_releases.restore()


@pytest.fixture
def follower(signed: SignedReleases, tmp_path: Path) -> Follower:
    """It follows the first release, as publication 5."""
    found = Follower(signed.uri, tmp_path)
    signed.publish(signed.first, 5)
    assert found.follows().version == signed.first
    return found


def refuses(follower: Follower, version: int, reason: Reason) -> str:
    """The alias names this version: it is refused for that reason, before a file of it is fetched, and what
    was in use stays, at a restart as well. Returns the sentence.
    """
    before = follower.client.current
    follower.asked.clear()
    assert follower.client.poll() is before
    status = follower.client.status()
    assert (status.refused_code, status.refused_version) == (reason, version), status
    if reason != Reason.FILE_CHANGED:
        assert follower.asked == ["/api/2.0/mlflow/registered-models/alias"]
    assert status.mode == "last known good"
    assert status.refused_reason
    assert status.problem == status.refused_reason
    anew = follower.start()
    assert anew.current.describe() == before.describe()
    anew.poll()
    assert anew.current.describe() == before.describe()
    assert anew.status().refused_code == reason
    return status.refused_reason


@pytest.mark.evidence(table="security", rows=("the alias is moved by a writer of MLflow",))
def test_a_moved_alias(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    signed.judge(signed.second)
    signed.move(signed.second)
    said = refuses(follower, signed.second, Reason.UNSIGNED)
    assert "is not signed" in said
    evidence("security", "the alias is moved by a writer of MLflow", said)


@pytest.mark.evidence(table="security", rows=("an unsigned release",))
def test_an_unsigned_release(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    """Approved by the gate of an installation that signs nothing."""
    signed.move(signed.second)
    evidence("security", "an unsigned release", refuses(follower, signed.second, Reason.UNSIGNED))


@pytest.mark.evidence(table="security", rows=("signed by the judge only",))
def test_signed_by_the_judge_only(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    """The judge's key signs a publication, too."""
    signed.publish(signed.second, 6, JUDGE)
    said = refuses(follower, signed.second, Reason.WRONG_ROLE)
    assert "is a judge's" in said
    evidence("security", "signed by the judge only", said)


@pytest.mark.evidence(table="security", rows=("signed by the publisher only",))
def test_signed_by_the_publisher_only(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    signed.publish(signed.second, 6)
    signed.judge(signed.second, PUBLISHER)
    said = refuses(follower, signed.second, Reason.WRONG_ROLE)
    assert "is a publisher's" in said
    evidence("security", "signed by the publisher only", said)


@pytest.mark.evidence(table="faults", rows=("34",))
@pytest.mark.evidence(
    table="security", rows=("manifest, verdict, digests, tags and run are forged consistently",)
)
def test_a_consistent_forgery(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    """All that is not signed fits: made with the product's own code and a writer's rights."""
    forged = build_release(tracking_uri=signed.uri, cluster="small", settings={"gss": 1})
    verdict = {"approved": True, "sentence": "No loss was found."}
    record_verdict(tracking_uri=signed.uri, cluster="small", version=forged.version, verdict=verdict)
    for tag in (JUDGEMENT_TAG, PUBLICATION_TAG):
        signed.registry.set_version_tag(SMALL, forged.version, tag, signed.said[signed.first, tag])
    signed.move(forged.version)
    said = refuses(follower, forged.version, Reason.OTHER_RELEASE)
    assert f"was signed for version {signed.first}" in said
    evidence("security", "manifest, verdict, digests, tags and run are forged consistently", said)
    evidence("faults", "34", said)
    # And by an account that can rewrite what was published in its place.
    whole = signed.stored(signed.first, MANIFEST_FILE).read_bytes()
    changed = whole.replace(b'"gss": 2', b'"gss": 1')
    assert changed != whole
    signed.overwrite(signed.stored(signed.first, MANIFEST_FILE), changed)
    signed.move(signed.first)
    assert follower.follows().manifest.settings["gss"] == 2  # it holds the release that was signed
    other = Follower(signed.uri, follower.folder / "another")
    other.client.poll()
    assert other.client.status().refused_code == Reason.FILE_CHANGED


@pytest.mark.evidence(table="security", rows=("a statement of another cluster",))
def test_a_statement_of_another_cluster(
    signed: SignedReleases, follower: Follower, evidence: Evidence
) -> None:
    own = signed.identity(signed.second)
    signed.publish(signed.second, 6, release=identify("large", own.version, own.manifest_sha256))
    said = refuses(follower, signed.second, Reason.OTHER_CLUSTER)
    assert "signed for cluster large" in said
    evidence("security", "a statement of another cluster", said)


@pytest.mark.evidence(table="security", rows=("a statement with a lower number",))
def test_a_lower_number(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    signed.publish(signed.second, 4)
    said = refuses(follower, signed.second, Reason.LOWER_SEQUENCE)
    assert "has the number 4; number 5 was seen before" in said
    evidence("security", "a statement with a lower number", said)


@pytest.mark.evidence(table="security", rows=("two statements with one number",))
def test_an_equal_number(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    signed.publish(signed.second, 5)
    said = refuses(follower, signed.second, Reason.LOWER_SEQUENCE)
    assert "another with that number" in said
    evidence("security", "two statements with one number", said)


@pytest.mark.evidence(table="faults", rows=("36",))
@pytest.mark.evidence(table="security", rows=("a withdrawn version is made live again",))
def test_a_withdrawn_version(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    """The second release was live, was rolled back, and its own statement still holds."""
    signed.publish(signed.second, 6)
    assert follower.follows().version == signed.second
    signed.publish(signed.first, 7, kind="rollback")
    assert follower.follows().version == signed.first
    signed.move(signed.second)
    said = refuses(follower, signed.second, Reason.LOWER_SEQUENCE)
    assert "lucid release rollback" in said
    evidence("security", "a withdrawn version is made live again", said)
    evidence("faults", "36", said)


@pytest.mark.evidence(table="security", rows=("an expired statement",))
def test_an_expired_statement(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    signed.publish(signed.second, 6, expires=NOON - HOUR / 2)
    said = refuses(follower, signed.second, Reason.EXPIRED)
    assert "lucid release renew --cluster small" in said
    evidence("security", "an expired statement", said)


@pytest.mark.evidence(table="security", rows=("signed by an unknown key",))
def test_an_unknown_key(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    signed.publish(signed.second, 6, STRANGER)
    said = refuses(follower, signed.second, Reason.UNKNOWN_KEY)
    assert STRANGER.id[:12] in said
    evidence("security", "signed by an unknown key", said)


@pytest.mark.evidence(table="security", rows=("signed by a revoked key",))
def test_a_revoked_key(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    follower.trust(Trust((trusted(JUDGE), trusted(PUBLISHER), trusted(SECOND, revoked=NOON))))
    signed.publish(signed.second, 6, SECOND)
    said = refuses(follower, signed.second, Reason.REVOKED_KEY)
    assert "was revoked" in said
    evidence("security", "signed by a revoked key", said)


@pytest.mark.evidence(table="security", rows=("signed by a key outside its validity",))
def test_a_key_outside_its_validity(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    late = trusted(SECOND, not_after=NOON - 2 * HOUR)
    follower.trust(Trust((trusted(JUDGE), trusted(PUBLISHER), late)))
    signed.publish(signed.second, 6, SECOND)
    said = refuses(follower, signed.second, Reason.KEY_OUTSIDE_VALIDITY)
    assert "it was used at" in said
    evidence("security", "signed by a key outside its validity", said)


@pytest.mark.evidence(table="security", rows=("signed by fewer keys than must sign",))
def test_fewer_keys_than_must_sign(signed: SignedReleases, tmp_path: Path, evidence: Evidence) -> None:
    follower = Follower(signed.uri, tmp_path)
    follower.trust(replace(TRUST, threshold={"judge": 1, "publisher": 2}))
    signed.publish(signed.first, 5, PUBLISHER, SECOND)
    assert follower.follows().version == signed.first
    # One key twice is one key.
    signed.publish(signed.second, 6, PUBLISHER, PUBLISHER)
    said = refuses(follower, signed.second, Reason.BELOW_THRESHOLD)
    assert "1 of the 2 publisher keys" in said
    evidence("security", "signed by fewer keys than must sign", said)


@pytest.mark.evidence(table="security", rows=("a statement from the future",))
def test_a_statement_from_the_future(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    skew = timedelta(seconds=TRUST.clock_skew_s)
    signed.publish(signed.second, 6, at=NOON + skew + timedelta(seconds=1))
    said = refuses(follower, signed.second, Reason.FROM_THE_FUTURE)
    evidence("security", "a statement from the future", said)
    signed.publish(signed.second, 6, at=NOON + skew)
    assert follower.follows().version == signed.second


@pytest.mark.parametrize("file", FILES)
@pytest.mark.evidence(table="security", rows=("one bit of a file is changed",))
def test_one_bit_of_a_file(signed: SignedReleases, follower: Follower, evidence: Evidence, file: str) -> None:
    signed.publish(signed.second, 6)
    path = signed.stored(signed.second, file)
    whole = path.read_bytes()
    middle = len(whole) // 2
    signed.overwrite(path, whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    said = refuses(follower, signed.second, Reason.FILE_CHANGED)
    assert f"The file {file}" in said
    if file == FILES[0]:
        evidence("security", "one bit of a file is changed", said)
    path.write_bytes(whole)
    assert follower.follows().version == signed.second


@pytest.mark.parametrize("part", ["payload", "payloadType", "sig"])
@pytest.mark.evidence(table="security", rows=("one bit of a statement is changed",))
def test_one_bit_of_a_statement(
    signed: SignedReleases, follower: Follower, evidence: Evidence, part: str
) -> None:
    signed.publish(signed.second, 6)
    document = json.loads(signed.said[signed.second, PUBLICATION_TAG])
    held = document["signatures"][0] if part == "sig" else document
    held[part] = held[part].replace(held[part][20], "A" if held[part][20] != "A" else "B", 1)
    signed.say(signed.second, PUBLICATION_TAG, json.dumps(document))
    reason = Reason.WRONG_ROLE if part == "payloadType" else Reason.BAD_SIGNATURE
    said = refuses(follower, signed.second, reason)
    if part == "payload":
        evidence("security", "one bit of a statement is changed", said)


@pytest.mark.evidence(table="security", rows=("the registry answers with an older truth",))
def test_an_older_truth(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    """A registry that was put back to last week's state, alias and statements, and stays there."""
    old = {tag: signed.said[signed.first, tag] for tag in (JUDGEMENT_TAG, PUBLICATION_TAG)}
    signed.publish(signed.first, 6, kind="renew", expires=NOON + 25 * HOUR)
    assert follower.follows().version == signed.first
    for tag, text in old.items():
        signed.say(signed.first, tag, text)
    said = refuses(follower, signed.first, Reason.LOWER_SEQUENCE)
    evidence("security", "the registry answers with an older truth", said)
    follower.now = NOON + 26 * HOUR
    follower.client.poll()
    assert follower.client.status().mode == "stale"


@pytest.mark.evidence(table="faults", rows=("36",))
@pytest.mark.evidence(table="security", rows=("the registry answers with the same truth for ever",))
def test_the_same_truth_for_ever(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    """Nothing that is published reaches this scheduler any more: seen when the last word expires."""
    before = follower.client.current
    follower.now = NOON + 22 * HOUR
    assert follower.client.poll() is before
    assert follower.client.status().mode == "following"
    follower.now = NOON + 24 * HOUR
    assert follower.client.poll() is before
    status = follower.client.status()
    assert (status.mode, status.expired, status.sequence) == ("stale", True, 5)
    assert status.problem is not None
    assert "lucid release renew --cluster small" in status.problem
    evidence("security", "the registry answers with the same truth for ever", f"stale: {status.problem}")
    evidence("faults", "36", f"stale: {status.problem}")
    # Started anew it is stale from the first moment; a clock that is set back makes the word hold no longer.
    assert follower.start().status().mode == "stale"
    follower.now = NOON
    for client in (follower.start(), follower.client):
        assert client.status().mode == "stale"
        client.poll()
        assert client.status().mode == "stale"
    follower.now = NOON + 24 * HOUR
    signed.publish(signed.first, 6, kind="renew", expires=NOON + 47 * HOUR)
    assert follower.follows().version == signed.first
    assert follower.client.status().problem is None


@pytest.mark.evidence(table="security", rows=("the copy on the scheduler's disk is changed",))
def test_a_copy_that_was_changed(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    pointer = follower.folder / "state" / "small" / "current-champion.json"
    document = json.loads(pointer.read_text())
    release = follower.folder / "state" / "small" / "releases" / document["folder"]
    for file in FILES:
        whole = (release / file).read_bytes()
        (release / file).write_bytes(whole.replace(b"1", b"3", 1))
        said = follower.start().current.describe()
        assert f"The file {file}" in said
        (release / file).write_bytes(whole)
    evidence("security", "the copy on the scheduler's disk is changed", said)
    assert document["statements"] == {
        "publication": signed.said[signed.first, PUBLICATION_TAG],
        "judgement": signed.said[signed.first, JUDGEMENT_TAG],
    }
    document["statements"]["publication"] = signed.said[signed.first, JUDGEMENT_TAG]
    pointer.write_text(json.dumps(document))
    assert "is of the type" in follower.start().current.describe()


@pytest.mark.evidence(table="security", rows=("the key that signed what is in use is revoked",))
def test_a_key_that_is_revoked_later(signed: SignedReleases, follower: Follower, evidence: Evidence) -> None:
    """What a revoked key signed counts for nothing: neither what is in use, nor the copy on the disk."""
    follower.trust(Trust((trusted(JUDGE), trusted(PUBLISHER, revoked=NOON), trusted(SECOND))))
    said = follower.client.poll().describe()
    assert "was revoked" in said
    assert follower.client.status().mode == "fallback"
    assert "was revoked" in follower.start().current.describe()
    evidence("security", "the key that signed what is in use is revoked", said)
    # The thief had signed the highest number there is: it is forgotten with the key.
    follower.trust(TRUST)
    signed.publish(signed.second, 2**53 - 1)
    assert follower.start().poll().describe().startswith(f"{SMALL} version {signed.second}")
    follower.trust(Trust((trusted(JUDGE), trusted(PUBLISHER, revoked=NOON), trusted(SECOND))))
    signed.publish(signed.first, 6, SECOND)
    assert follower.follows().version == signed.first


def test_what_is_asked_is_asked_of_each_statement_once(
    signed: SignedReleases, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucid_models.signing import verification

    verified: list[bytes] = []
    genuine = verification.is_signed_by
    monkeypatch.setattr(
        verification,
        "is_signed_by",
        lambda public, message, value: verified.append(message) or genuine(public, message, value),
    )
    follower.asked.clear()
    follower.follows()
    assert verified == []
    assert len(follower.asked) == 1
    # A renewal is believed without a file of it; what is kept on disk is renewed, too.
    held = follower.client.current
    follower.asked.clear()
    signed.publish(signed.first, 6, kind="renew", expires=NOON + 40 * HOUR)
    assert follower.follows() is held
    assert len(verified) == 2
    assert len(follower.asked) == 1
    status = follower.client.status()
    assert (status.sequence, status.expires) == (6, (NOON + 40 * HOUR).isoformat())
    follower.now = NOON + 30 * HOUR
    assert follower.start().status().mode != "stale"


def test_a_trust_file_that_cannot_be_read_stops_what_is_new_and_nothing_else(
    signed: SignedReleases, follower: Follower
) -> None:
    held = follower.client.current
    signed.publish(signed.second, 6)
    for payload in (b"", b"{}", TRUST.to_text().encode()[:-20]):
        follower.trust_file.write_bytes(payload)
        assert follower.client.poll() is held
        assert "cannot be used" in (follower.client.status().problem or "")
        assert follower.client.status().mode == "last known good"
    follower.trust_file.unlink()
    assert follower.client.poll() is held
    assert "There is no trust file" in (follower.client.status().problem or "")
    assert "There is no trust file" in follower.start().current.describe()
    follower.trust(TRUST)
    assert follower.follows().version == signed.second


def test_other_aliases_need_the_judge_alone_and_say_that_they_are_not_published(
    signed: SignedReleases, tmp_path: Path
) -> None:
    follower = Follower(signed.uri, tmp_path, alias="challenger")
    signed.move(signed.second, "challenger")
    follower.client.poll()
    assert follower.client.status().refused_code == Reason.UNSIGNED
    signed.judge(signed.second)
    assert follower.follows().describe().endswith("(challenger, cluster small, not published)")
    status = follower.client.status()
    assert (status.trust, status.published, status.sequence) == ("signed", False, None)
    signed.judge(signed.second, approved=False)
    follower.client.poll()
    assert follower.client.status().refused_code == Reason.NOT_APPROVED


def test_a_clock_that_went_back_is_said_and_costs_no_release(
    signed: SignedReleases, follower: Follower
) -> None:
    held = follower.client.current
    follower.now = NOON - 400 * 24 * HOUR  # a battery ran out
    assert follower.client.poll() is held
    assert follower.client.status().mode == "stale"
    assert "Set the clock right" in (follower.client.status().problem or "")
    assert follower.start().current.describe() == held.describe()
    assert follower.client.status().mode == "stale"
    follower.now = NOON
    assert follower.follows().version == signed.first


def test_a_number_that_cannot_be_kept_is_not_used(signed: SignedReleases, follower: Follower) -> None:
    held = follower.client.current
    newest = follower.folder / "state" / "small" / "newest-publication.json"
    assert json.loads(newest.read_text())["sequence"] == 5
    whole = newest.read_text()
    newest.write_text("{")
    signed.publish(signed.second, 6)
    assert follower.client.poll() is held
    assert "it is not known which publication was the newest" in (follower.client.status().problem or "")
    newest.unlink()
    newest.mkdir()
    assert follower.client.poll() is held
    newest.rmdir()
    newest.write_text(whole)
    assert follower.follows().version == signed.second


def test_a_copy_that_an_older_version_kept_is_used_unsigned_only(
    signed: SignedReleases, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointer = follower.folder / "state" / "small" / "current-champion.json"
    document: dict[str, Any] = json.loads(pointer.read_text())
    del document["statements"]
    pointer.write_text(json.dumps(document))
    assert "is not signed" in follower.start().current.describe()
    monkeypatch.setenv("LUCID_TRUST", "unsigned")
    current = follower.client.current
    client = ReleaseClient(signed.uri, "champion", follower.folder / "state", cluster="small")
    assert client.current.describe().endswith("(champion, cluster small, not signed)")
    assert client.status().trust == "unsigned releases are believed"
    assert isinstance(current, FallbackRelease)
