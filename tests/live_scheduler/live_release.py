"""A release that a client kept on disk while its server was there; now the server is away."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from live_scheduler.client import ReleaseClient
from live_scheduler.release import LiveRelease
from live_scheduler.release_store import ReleaseStore, verify_release
from lucid_models.releases.approval import APPROVED, ReleaseIdentity, VerdictTags, identify
from lucid_models.releases.manifest import (
    MANIFEST_FILE,
    VERDICT_FILE,
    ModelPin,
    Provenance,
    ReleaseManifest,
    Training,
    canonical_json,
    release_name,
)

AWAY = "http://127.0.0.1:1"


@contextmanager
def client_without_server(folder: Path, model_files: dict[str, list[Path]]) -> Iterator[ReleaseClient]:
    """A client with its last known good release; its server is away."""
    keep_release(folder, model_files)
    client = ReleaseClient(AWAY, "champion", folder, cluster="small")
    yield client
    client.close()


def keep_release(
    folder: Path,
    model_files: dict[str, list[Path]],
    *,
    version: int = 7,
    cluster: str = "small",
    loaning: Mapping[str, Any] | None = None,
    waits: Mapping[str, Any] | None = None,
) -> LiveRelease:
    """Leave a release in a client's state folder, as if it had been fetched from `AWAY`."""
    identity, tags, files = approved_release(
        model_files, version=version, cluster=cluster, loaning=loaning, waits=waits
    )
    release, _ = verify_release("champion", identity, tags, lambda file, most: files[file])
    ReleaseStore(folder).save(release, files, AWAY)
    return release


def approved_release(
    model_files: dict[str, list[Path]],
    *,
    version: int = 7,
    cluster: str = "small",
    loaning: Mapping[str, Any] | None = None,
    waits: Mapping[str, Any] | None = None,
) -> tuple[ReleaseIdentity, VerdictTags, dict[str, bytes]]:
    """A release as the gate leaves it: what its tags say, and its files."""
    paths = {kind: files[0] for kind, files in model_files.items()}
    manifest = ReleaseManifest(
        name=release_name(cluster),
        created="2020-04-12T00:00:00+00:00",
        cluster=cluster,
        models={
            kind: ModelPin(
                f"lucid-{kind}",
                1,
                path.name,
                hashlib.sha256(path.read_bytes()).hexdigest(),
                path.stat().st_size,
            )
            for kind, path in paths.items()
        },
        settings={"gss": 2},
        training=Training("2020-04-11T00:00:00+00:00", {}),
        provenance=Provenance(simulated_profiles=True, synthetic_logs=True),
        parts={
            name: settings
            for name, settings in (("loaning", loaning), ("waits", waits))
            if settings is not None
        },
    )
    identity = identify(cluster, version, manifest.sha256())
    verdict = canonical_json({"approved": True, "release": asdict(identity)})
    files = {MANIFEST_FILE: manifest.to_bytes(), VERDICT_FILE: verdict}
    files |= {path.name: path.read_bytes() for path in paths.values()}
    return identity, VerdictTags(APPROVED, hashlib.sha256(verdict).hexdigest(), None), files
