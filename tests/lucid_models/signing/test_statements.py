"""Signed statements: what is believed, and each reason for which one is not."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError, ReleaseRefusedError
from lucid_models.releases.approval import identify
from lucid_models.signing.ed25519 import generate_private_key
from lucid_models.signing.envelope import MOST_BYTES, parse_envelope, pre_authentication_encoding
from lucid_models.signing.refusals import Reason, StatementRefusedError
from lucid_models.signing.signers import Signer, local_signer, seal
from lucid_models.signing.statements import (
    JUDGEMENT_TYPE,
    PUBLICATION_TYPE,
    Judgement,
    Publication,
    parse_publication,
)
from lucid_models.signing.trust import Role, Trust, TrustedKey, parse_trust
from lucid_models.signing.verification import (
    BelievedPublication,
    SeenStatement,
    believe_judgement,
    believe_publication,
    check_file,
)

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
RELEASE = identify("venus", 3, "a" * 64)
VERDICT = "c" * 64


def signer(role: Role) -> Signer:
    return local_signer(role, generate_private_key(), source="a new key")


JUDGE, PUBLISHER, SECOND, STRANGER = (
    signer("judge"),
    signer("publisher"),
    signer("publisher"),
    signer("publisher"),
)


def key(of: Signer) -> TrustedKey:
    return TrustedKey(of.public, of.role, NOW - timedelta(days=30))


TRUST = Trust((key(JUDGE), key(PUBLISHER)))
PUBLICATION = Publication(
    RELEASE,
    "publish",
    5,
    NOW - timedelta(hours=1),
    NOW + timedelta(hours=23),
    {"manifest.json": "a" * 64},
    VERDICT,
    "d" * 64,
    "mia",
    "noor",
    "shorter queues",
    2,
    None,
)


def sealed(publication: Publication = PUBLICATION, *signers: Signer) -> str:
    return seal(PUBLICATION_TYPE, publication.to_bytes(), list(signers or (PUBLISHER,)))


def believed(
    text: str | None = None, trust: Trust = TRUST, seen: SeenStatement | None = None, **said: object
) -> BelievedPublication:
    return believe_publication(
        sealed() if text is None else text,
        release=RELEASE,
        verdict_sha256=VERDICT,
        trust=trust,
        now=NOW,
        seen=seen,
        **said,  # type: ignore[arg-type]
    )


def test_what_the_publisher_signed_is_believed_as_it_was_said() -> None:
    found = believed()
    assert found.publication == PUBLICATION
    assert not found.is_stale(NOW)
    assert found.is_stale(NOW + timedelta(days=1))
    assert believed(seen=found.seen) == found
    assert believed(seen=SeenStatement(4, "0" * 64)) == found


def refuse(why: Reason, do: Callable[[], object], *words: str) -> str:
    with pytest.raises(StatementRefusedError) as refused:
        do()
    assert refused.value.reason == why
    for word in words:
        assert word in str(refused.value)
    return str(refused.value)


def with_key(changed: TrustedKey) -> Trust:
    return Trust(tuple(changed if each.id == changed.id else each for each in TRUST.keys))


def test_each_reason_to_refuse_a_publication_has_its_sentence() -> None:
    other = identify("saturn", 3, "a" * 64)
    newer = identify("venus", 4, "b" * 64)
    late = replace(PUBLICATION, at=NOW + timedelta(minutes=6), expires=NOW + timedelta(hours=3))
    over = replace(PUBLICATION, at=NOW - timedelta(hours=25), expires=NOW - timedelta(hours=1))
    publisher = key(PUBLISHER)
    refused = [
        refuse(
            Reason.UNSIGNED,
            lambda: believe_publication(None, release=RELEASE, verdict_sha256=VERDICT, trust=TRUST, now=NOW),
            "LUCID_TRUST=unsigned",
        ),
        refuse(Reason.UNKNOWN_KEY, lambda: believed(sealed(PUBLICATION, STRANGER)), STRANGER.id[:12]),
        refuse(Reason.WRONG_ROLE, lambda: believed(sealed(PUBLICATION, JUDGE)), "is a judge's"),
        refuse(
            Reason.REVOKED_KEY, lambda: believed(trust=with_key(replace(publisher, revoked=NOW))), "revoked"
        ),
        refuse(
            Reason.KEY_OUTSIDE_VALIDITY,
            lambda: believed(trust=with_key(replace(publisher, not_after=NOW - timedelta(hours=2)))),
            "valid from",
        ),
        refuse(
            Reason.KEY_OUTSIDE_VALIDITY, lambda: believed(trust=with_key(replace(publisher, not_before=NOW)))
        ),
        refuse(
            Reason.BELOW_THRESHOLD,
            lambda: believed(trust=Trust((*TRUST.keys, key(SECOND)), threshold={"judge": 1, "publisher": 2})),
            "1 of the 2",
        ),
        refuse(Reason.OTHER_CLUSTER, lambda: believed(sealed(replace(PUBLICATION, release=other))), "saturn"),
        refuse(
            Reason.OTHER_RELEASE, lambda: believed(sealed(replace(PUBLICATION, release=newer))), "version 4"
        ),
        refuse(Reason.OTHER_RELEASE, lambda: believed(sealed(replace(PUBLICATION, verdict_sha256="e" * 64)))),
        refuse(Reason.FROM_THE_FUTURE, lambda: believed(sealed(late)), "ahead of this machine's clock"),
        refuse(Reason.EXPIRED, lambda: believed(sealed(over)), "renew"),
        refuse(Reason.LOWER_SEQUENCE, lambda: believed(seen=SeenStatement(6, "0" * 64)), "number 6"),
        refuse(Reason.LOWER_SEQUENCE, lambda: believed(seen=SeenStatement(5, "0" * 64)), "another"),
    ]
    assert all(sentence.count("\n") == 0 for sentence in refused)


def test_two_keys_reach_a_threshold_of_two_and_one_key_twice_does_not() -> None:
    two = Trust((*TRUST.keys, key(SECOND)), threshold={"judge": 1, "publisher": 2})
    assert believed(sealed(PUBLICATION, PUBLISHER, SECOND), two).publication == PUBLICATION
    refuse(Reason.BELOW_THRESHOLD, lambda: believed(sealed(PUBLICATION, PUBLISHER, PUBLISHER), two))


def test_a_copy_that_was_believed_is_used_on_after_it_expired() -> None:
    over = replace(PUBLICATION, at=NOW - timedelta(hours=25), expires=NOW - timedelta(hours=1))
    found = believed(sealed(over), may_be_expired=True)
    assert found.is_stale(NOW)


def test_a_judgement_counts_for_its_release_and_verdict_alone() -> None:
    judgement = Judgement(RELEASE, VERDICT, approved=True, at=NOW)

    def judged(said: Judgement = judgement, by: Signer = JUDGE, verdict: str = VERDICT) -> Judgement:
        text = seal(JUDGEMENT_TYPE, said.to_bytes(), [by])
        return believe_judgement(text, release=RELEASE, verdict_sha256=verdict, trust=TRUST)

    assert judged() == judgement
    refuse(Reason.WRONG_ROLE, lambda: judged(by=PUBLISHER))
    refuse(Reason.NOT_APPROVED, lambda: judged(replace(judgement, approved=False)))
    refuse(Reason.OTHER_RELEASE, lambda: judged(verdict="e" * 64))
    refuse(Reason.OTHER_CLUSTER, lambda: judged(replace(judgement, release=identify("saturn", 3, "a" * 64))))
    # What one role signed is no word of the other, by either key.
    refuse(
        Reason.WRONG_ROLE,
        lambda: believed(seal(JUDGEMENT_TYPE, judgement.to_bytes(), [PUBLISHER])),
    )


@given(st.data())
def test_one_bit_changed_anywhere_is_refused(data: st.DataObject) -> None:
    document = json.loads(sealed())
    place = data.draw(st.sampled_from(["payload", "sig"]))
    holder = document if place == "payload" else document["signatures"][0]
    raw = bytearray(base64.b64decode(holder[place]))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    holder[place] = base64.b64encode(raw).decode()
    refuse(Reason.BAD_SIGNATURE, lambda: believed(json.dumps(document)))


def test_a_file_that_was_changed_or_is_not_of_the_release_is_refused() -> None:
    publication = replace(PUBLICATION, files={"a.json": hashlib.sha256(b"def").hexdigest()})
    check_file(publication, "a.json", b"def")
    refuse(Reason.FILE_CHANGED, lambda: check_file(publication, "a.json", b"deg"))
    refuse(Reason.FILE_CHANGED, lambda: check_file(publication, "b.json", b"def"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "envelope"),
        ("[]", "envelope"),
        ('{"payload": "", "payload": "", "payloadType": "", "signatures": []}', "twice"),
        ('{"payload": "?", "payloadType": "", "signatures": []}', "base64"),
        ('{"payload": "", "payloadType": "é", "signatures": []}', "ASCII"),
        ('{"payload": "", "payloadType": "", "signatures": [{"keyid": "", "sig": ""}]}', "key"),
        ('{"payload": "", "payloadType": "", "signatures": [], "more": 1}', "members"),
        (" " * (MOST_BYTES + 1), "at most"),
    ],
)
def test_what_is_no_envelope_is_refused(text: str, word: str) -> None:
    with pytest.raises(ReleaseRefusedError, match=word):
        parse_envelope(text, source="The tag")


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 0},
        {"sequence": True},
        {"sequence": 1.0},
        {"kind": "burn"},
        {"expires": "2027-11-27T00:00:00+00:00"},
        {"at": "2026-11-27T11:00:00"},
        {"at": "9999-12-30T00:00:00+00:00", "expires": "2027-11-27T00:00:00+00:00"},
        {"at": "0001-01-01T00:00:00+14:00"},
        {"verdict_sha256": "C" * 64},
        {"files": {"a": 1}},
        {"because": "x" * 201},
        {"more": 1},
        {"release": {"name": "x", "version": 3, "cluster": "venus", "manifest_sha256": "a" * 64}},
    ],
    ids=str,
)
def test_a_signed_publication_is_read_strictly(change: dict[str, object]) -> None:
    document = json.loads(PUBLICATION.to_bytes()) | change
    with pytest.raises(ReleaseRefusedError):
        parse_publication(json.dumps(document).encode())


def test_the_pre_authentication_encoding_counts_bytes() -> None:
    """The example of the protocol's text: DSSEv1 29 http://example.com/HelloWorld 11 hello world."""
    assert (
        pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_a_trust_file_is_what_was_written() -> None:
    assert parse_trust(TRUST.to_text().encode(), source="it") == TRUST


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format_version": 2}, "format version"),
        ({"threshold": {"judge": 1}}, "threshold"),
        ({"threshold": {"judge": 0, "publisher": 1}}, "from 1 on"),
        ({"clock_skew_s": -1}, "clock_skew_s"),
        ({"keys": [key(JUDGE).to_data()] * 2}, "twice"),
        ({"keys": [key(JUDGE).to_data() | {"id": "0" * 64}]}, "not the one of this id"),
        ({"keys": [key(JUDGE).to_data() | {"role": "root"}]}, "role"),
        ({"keys": [key(JUDGE).to_data() | {"public": "00"}]}, "1 bytes"),
        ({"keys": [key(JUDGE).to_data() | {"not_before": "2026-11-27"}]}, "offset"),
        ({"keys": [key(JUDGE).to_data() | {"not_before": "0001-01-01T00:00:00+14:00"}]}, "out of range"),
        ({"keys": ["x"]}, "not an object"),
        ({"threshold": [1]}, "no object"),
    ],
)
def test_a_trust_file_that_cannot_be_used_says_why(change: dict[str, object], word: str) -> None:
    document = json.loads(TRUST.to_text()) | change
    with pytest.raises(BadInputError, match=word):
        parse_trust(json.dumps(document).encode(), source="The trust file t")


def test_a_trust_file_that_lacks_a_member_says_which() -> None:
    with pytest.raises(BadInputError, match="it has no 'format_version'"):
        parse_trust(b"{}", source="The trust file t")
