"""Whether a verdict approves exactly this release: document, tags and release have to agree."""

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from foundation.errors import BadInputError, ReleaseRefusedError
from lucid_models.releases.approval import (
    APPROVED,
    REFUSED,
    ReleaseIdentity,
    VerdictTags,
    check_approval,
    identify,
)
from tests.evidence import Evidence

RELEASE = identify("venus", 3, "a" * 64)


def judged(of: ReleaseIdentity = RELEASE, **changes: Any) -> bytes:
    document = {"approved": True, "sentence": "No loss.", "release": asdict(of), **changes}
    return json.dumps(document).encode()


def tags_of(document: bytes, word: str | None = APPROVED) -> VerdictTags:
    return VerdictTags(word, hashlib.sha256(document).hexdigest(), "run")


def test_the_gates_own_word_on_this_release_approves_it() -> None:
    check_approval(RELEASE, tags_of(judged()), judged())


OTHERS = [
    replace(RELEASE, version=2),
    replace(RELEASE, name="lucid-release"),
    replace(RELEASE, name="lucid-release-earth", cluster="earth"),
    replace(RELEASE, cluster="earth"),
    replace(RELEASE, manifest_sha256="b" * 64),
]


@pytest.mark.parametrize(
    ("document", "word", "said"),
    [
        (judged(approved=False, sentence="JCT rose."), REFUSED, "JCT rose"),
        # Somebody flips the tag, or the document and its digest: both have to say so.
        (judged(approved=False, sentence="JCT rose."), APPROVED, "JCT rose"),
        (judged(), REFUSED, "its tag says 'refused'"),
        (judged(), "Approved", "its tag says 'Approved'"),
        (judged(), "", "its tag says ''"),
        (judged(), None, "has no verdict"),
        *((judged(approved=almost), APPROVED, "refused release 3") for almost in (1, "true", None, [True])),
        *((judged(other), APPROVED, "was given on") for other in OTHERS),
        (judged(release=None), APPROVED, "was given on None"),
        (judged(release={**asdict(RELEASE), "more": 1}), APPROVED, "was given on"),
        (b"[]", APPROVED, "not a JSON object"),
        (b"{", APPROVED, "not JSON"),
        (b"[" * 100_000, APPROVED, "not JSON"),
    ],
)
def test_nothing_else_approves_it(document: bytes, word: str | None, said: str) -> None:
    with pytest.raises(ReleaseRefusedError, match=said):
        check_approval(RELEASE, tags_of(document, word), document)


@pytest.mark.evidence(table="security", rows=("a verdict says a key twice: readers may differ",))
def test_a_verdict_that_says_a_key_twice_approves_nothing(evidence: Evidence) -> None:
    document = judged().replace(b"{", b'{"approved": false,', 1)
    assert json.loads(document)["approved"] is True  # a lenient parser
    with pytest.raises(ReleaseRefusedError, match="the key 'approved' stands twice") as refused:
        check_approval(RELEASE, tags_of(document, APPROVED), document)
    evidence("security", "a verdict says a key twice: readers may differ", str(refused.value))


def test_a_document_that_the_tags_do_not_pin_approves_nothing() -> None:
    for sha256 in (None, "", "0" * 64, hashlib.sha256(judged()).hexdigest().upper()):
        with pytest.raises(ReleaseRefusedError, match="has the SHA-256"):
            check_approval(RELEASE, VerdictTags(APPROVED, sha256, "run"), judged())
    with pytest.raises(ReleaseRefusedError, match="has no verdict"):
        check_approval(RELEASE, tags_of(judged()), None)


def test_who_vouches_for_a_verdict_is_asked_last_and_may_refuse() -> None:
    asked = []

    def unsigned(release: ReleaseIdentity, document: bytes) -> None:
        asked.append(release)
        raise ReleaseRefusedError("It is not signed.")

    with pytest.raises(ReleaseRefusedError, match="was given on"):
        check_approval(RELEASE, tags_of(judged(OTHERS[0])), judged(OTHERS[0]), authenticate=unsigned)
    assert asked == []
    with pytest.raises(ReleaseRefusedError, match="not signed"):
        check_approval(RELEASE, tags_of(judged()), judged(), authenticate=unsigned)
    assert asked == [RELEASE]


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None])
def test_no_release_has_such_a_version(version: object) -> None:
    with pytest.raises(ReleaseRefusedError, match="no version of a release"):
        identify("venus", version, "a" * 64)


@pytest.mark.parametrize("digest", [None, "", "a" * 63, "A" * 64, 7])
def test_a_release_pins_its_manifest(digest: object) -> None:
    with pytest.raises(ReleaseRefusedError, match="does not pin its manifest"):
        identify("venus", 1, digest)
    with pytest.raises(BadInputError, match="cannot name a cluster"):
        identify("../venus", 1, "a" * 64)
