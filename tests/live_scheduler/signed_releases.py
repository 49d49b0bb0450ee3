"""Two releases on a real MLflow server, judged and signed with keys of these tests, and forgeries of them.

What a test changes in the registry the next one finds as it was: `SignedReleases.restore`.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from live_scheduler.client import PollLimits, ReleaseClient
from live_scheduler.release import LiveRelease
from lucid_models.registry import Registry
from lucid_models.releases.approval import ReleaseIdentity, identify
from lucid_models.releases.manifest import MANIFEST_FILE, VERDICT_FILE, release_name
from lucid_models.signing.signers import Signer, local_signer, seal
from lucid_models.signing.statements import (
    JUDGEMENT_TAG,
    JUDGEMENT_TYPE,
    PUBLICATION_TAG,
    PUBLICATION_TYPE,
    Judgement,
    Publication,
)
from lucid_models.signing.trust import Role, Trust, TrustedKey

SMALL = release_name("small")
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
FILES = ("manifest.json", "verdict.json", "packing.json", "throughput.json", "duration.json")


def fixed_signer(role: Role, seed: int) -> Signer:
    """A key that is the same in every run, so that what is said of it is, too."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return local_signer(role, pem, source="a key of a test")


JUDGE, PUBLISHER, SECOND, STRANGER = (
    fixed_signer("judge", 1),
    fixed_signer("publisher", 2),
    fixed_signer("publisher", 3),
    fixed_signer("publisher", 4),
)


def trusted(signer: Signer, **changed: Any) -> TrustedKey:
    return TrustedKey(signer.public, signer.role, NOON - timedelta(days=30), **changed)


TRUST = Trust((trusted(JUDGE), trusted(PUBLISHER), trusted(SECOND)))


@dataclass
class Follower:
    """A client of `champion` with a trust file and a clock of its own."""

    uri: str
    folder: Path
    alias: str = "champion"
    now: datetime = NOON
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        if not self.trust_file.exists():
            self.trust(TRUST)
        self.client = self.start()

    @property
    def trust_file(self) -> Path:
        return self.folder / "trust.json"

    def trust(self, trust: Trust) -> None:
        # As configuration management does it: another file in the place of the old one.
        scratch = self.folder / "trust.new"
        scratch.write_text(trust.to_text())
        scratch.replace(self.trust_file)

    def start(self) -> ReleaseClient:
        """Start (again) on what is on the disk."""
        self.client = ReleaseClient(
            self.uri,
            self.alias,
            self.folder / "state",
            cluster="small",
            trust=self.trust_file,
            clock=lambda: self.now,
            limits=PollLimits(retry_refused_s=0.0),
        )
        self.client._server._http.http.event_hooks = {
            "request": [lambda request: self.asked.append(request.url.path)]
        }
        return self.client

    def follows(self) -> LiveRelease:
        """Poll, and follow what the alias names."""
        release = self.client.poll()
        assert self.client.status().mode == "following", self.client.status()
        assert isinstance(release, LiveRelease)
        return release


@dataclass
class SignedReleases:
    """Versions `first` and `second`, both approved; nothing is published yet."""

    shop: Any
    first: int
    second: int

    def __post_init__(self) -> None:
        self.registry = Registry(self.shop.uri)
        self.tags = {each: self.registry.version(SMALL, each).tags for each in (self.first, self.second)}
        self.kept: dict[Path, bytes] = {}
        self.said: dict[tuple[int, str], str] = {}

    @property
    def uri(self) -> str:
        uri: str = self.shop.uri
        return uri

    def restore(self) -> None:
        for path, payload in self.kept.items():
            path.write_bytes(payload)
        self.kept.clear()
        for version, name in self.said:
            self.registry.delete_version_tag(SMALL, version, name)
        self.said.clear()

    def say(self, version: int, name: str, text: str) -> None:
        """Put a statement into a tag."""
        self.registry.set_version_tag(SMALL, version, name, text)
        self.said[version, name] = text

    def identity(self, version: int) -> ReleaseIdentity:
        return identify("small", version, self.tags[version]["manifest_sha256"])

    def judge(self, version: int, *signers: Signer, **changed: Any) -> None:
        """Put a judgement beside a version."""
        said = Judgement(
            self.identity(version), self.tags[version]["verdict_sha256"], True, NOON - timedelta(hours=2)
        )
        text = seal(JUDGEMENT_TYPE, replace(said, **changed).to_bytes(), list(signers or (JUDGE,)))
        self.say(version, JUDGEMENT_TAG, text)

    def publication(self, version: int, number: int, **changed: Any) -> Publication:
        """What an honest publisher would sign, and what a test changes in it."""
        identity, verdict = self.identity(version), self.tags[version]["verdict_sha256"]
        files = {MANIFEST_FILE: identity.manifest_sha256, VERDICT_FILE: verdict}
        files |= {pin["file"]: pin["sha256"] for pin in self.manifest(version)["models"].values()}
        said = Publication(
            release=identity,
            kind="publish",
            sequence=number,
            at=NOON - timedelta(hours=1) + timedelta(seconds=min(number, 60)),
            expires=NOON + timedelta(hours=23),
            files=files,
            verdict_sha256=verdict,
            gate_rules_sha256="d" * 64,
            asked_by="mia",
            approved_by="noor",
            because="shorter queues",
            replaces=None,
            previous_sha256=None,
        )
        return replace(said, **changed)

    def publish(self, version: int, number: int, *signers: Signer, **changed: Any) -> None:
        """Judge a version, sign that it is live, and move the alias."""
        self.judge(version)
        said = self.publication(version, number, **changed)
        text = seal(PUBLICATION_TYPE, said.to_bytes(), list(signers or (PUBLISHER,)))
        self.say(version, PUBLICATION_TAG, text)
        self.move(version)

    def move(self, version: int, alias: str = "champion") -> None:
        """What any writer of MLflow may do."""
        self.registry.set_alias(SMALL, alias, version)

    def manifest(self, version: int) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.stored(version, MANIFEST_FILE).read_bytes())
        return document

    def stored(self, version: int, file: str) -> Path:
        """A file of a version in the object store."""
        found = self.registry.version(SMALL, version)
        run_id = found.tags["verdict_run_id"] if file == VERDICT_FILE else found.run_id
        return next((self.shop.server.folder / "artifacts").rglob(f"{run_id}/artifacts/**/{file}"))

    def overwrite(self, path: Path, payload: bytes) -> None:
        """What any writer of the object store may do."""
        self.kept.setdefault(path, path.read_bytes())
        path.write_bytes(payload)
