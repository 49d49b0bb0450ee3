"""The manifest: what one release consists of, pinned so that a scheduler can never run a mixture.

    {"format_version": 3, "name": "lucid-release-venus", "created": "2020-09-01T00:00:00+00:00",
     "cluster": "venus",
     "models": {"packing": {"name": "lucid-packing-venus", "version": 3, "file": "packing.json",
                            "sha256": "...", "bytes": 812},
                "throughput": {...}, "duration": {...}},
     "policy": "lucid", "settings": {...}, "choice": {...} or null,
     "training": {"until": ISO time or null, "datasets": {name: digest}},
     "provenance": {"simulated_profiles": false, "synthetic_logs": false}}

`name` is the registered model that holds the releases of this cluster (`release_name`). `policy` is what the
release runs, `settings` are its settings, and `choice` says how they were chosen where a person picked them
from a search (which search and point, what was preferred, what was expected).

Beside these a manifest has a field with the settings of each part of a checkout (null: it says nothing of
it), and may pin the model that they go by (`optional_parts.py`; `foundation.parts.KNOWN` says which version
first had which). A release is written in the oldest version that has all of its parts (3: none), so that
schedulers without a part still read the releases that do without it, and refuse the others by the part's
name (docs/decisions/0056, 0064, 0072).

Reading is strict: a field that is missing, mistyped, out of bounds or unknown is an error, because a
scheduler that ignored a field could run something else than what was proven.

How to break the format: raise `FORMAT_VERSION` by one and keep a reader for every older version in
`_UPGRADES` (version n -> function from the document of version n to that of version n + 1), with a test on a
saved manifest of that version. Any change of the fields is a new version. A newer version is refused by
older schedulers.

This module needs the standard library only: the light client reads manifests with it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation import strict_json
from foundation.equal_numbers import with_equal_numbers
from foundation.errors import BadInputError, ReleaseRefusedError
from foundation.outside_names import check_cluster_name
from foundation.parts import lacking, manifest_fields
from foundation.strict_json import StrictJsonError
from lucid_models.format_upgrades import Document, Upgrades, upgrade_document
from lucid_models.releases.manifest_fields import CorruptManifestError as CorruptManifestError
from lucid_models.releases.manifest_fields import misfit, object_of, positive_of, text_of, time_of
from lucid_models.releases.optional_parts import PartSettings, check_part, optional_kinds, optional_parts

FORMAT_VERSION = 6
_WITHOUT_PARTS = 3  # the version of a release without any optional part
RELEASE_PREFIX = "lucid-release-"
DEFAULT_POLICY = "lucid"
MODEL_KINDS = ("packing", "throughput", "duration")
MANIFEST_FILE = "manifest.json"
VERDICT_FILE = "verdict.json"  # lies beside it where a scheduler keeps a release
MAX_MANIFEST_BYTES = 1024 * 1024

SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_FIELDS = (
    *("format_version", "name", "created", "cluster", "models", "policy", "settings", "choice"),
    *("training", "provenance"),
)
_POLICY = re.compile(r"[a-z][a-z0-9_]{0,49}")


def _with_parts(version: int) -> Callable[[Document], Document]:
    """To a version that has more settings of parts: no release before said anything of them."""
    fields = {field: None for field, since in manifest_fields().items() if since == version}
    return lambda document: {**document, "format_version": version, **fields}


_UPGRADES: Upgrades = {version: _with_parts(version + 1) for version in range(_WITHOUT_PARTS, FORMAT_VERSION)}


def release_name(cluster: str) -> str:
    """The registered model that holds a cluster's releases; raises BadInputError for what names no cluster.

    MLflow takes every such name as it is, and the cluster can be read back from it (`cluster_of`).
    """
    return f"{RELEASE_PREFIX}{check_cluster_name(cluster)}"


def cluster_of(name: str) -> str | None:
    """The cluster of the releases that a registered model holds; None for a model that holds none."""
    cluster = name.removeprefix(RELEASE_PREFIX)
    if cluster == name:
        return None
    try:
        return check_cluster_name(cluster)
    except BadInputError:
        return None


class ManifestVersionError(ReleaseRefusedError):
    """A manifest has a format version that this program does not read."""


@dataclass(frozen=True)
class ModelPin:
    """One model of a release: which registered version it is, and the file that holds it."""

    name: str
    version: int
    file: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Training:
    """Until when the models learned (ISO time; None: not stated), and the digest of each data set."""

    until: str | None
    datasets: Mapping[str, str]


@dataclass(frozen=True)
class Provenance:
    """What in a release was not measured on the real thing."""

    simulated_profiles: bool
    synthetic_logs: bool


def orders_only(settings: Mapping[str, Any]) -> bool:
    """Whether a release's settings let no job share GPUs (Lucid's `sharing`)."""
    return settings.get("sharing") == "none"


@dataclass(frozen=True)
class ReleaseManifest:
    """Everything that a release pins; `to_bytes` and `parse_manifest` are each other's inverse.

    `settings` are those of `policy`, by the names of its `Settings`, besides `allow_simulated_profiles`;
    `parts` are those of parts, by their fields.
    """

    name: str
    created: str
    cluster: str
    models: Mapping[str, ModelPin]
    settings: Mapping[str, Any]
    training: Training
    provenance: Provenance
    policy: str = DEFAULT_POLICY
    choice: Mapping[str, Any] | None = None
    parts: PartSettings = field(default_factory=dict)

    @property
    def orders_only(self) -> bool:
        """Whether no job shares GPUs by it, so that its packing model decides nothing."""
        return orders_only(self.settings)

    def to_data(self) -> dict[str, Any]:
        """The manifest as a JSON object."""
        formats = manifest_fields()
        version = max((formats.get(name, FORMAT_VERSION) for name in self.parts), default=_WITHOUT_PARTS)
        return {
            "format_version": version,
            "name": self.name,
            "created": self.created,
            "cluster": self.cluster,
            "models": {
                kind: dict(vars(self.models[kind]))
                for kind in (*MODEL_KINDS, *(kind for kind in self.models if kind not in MODEL_KINDS))
            },
            "policy": self.policy,
            "settings": dict(self.settings),
            "choice": None if self.choice is None else dict(self.choice),
            "training": {
                "until": self.training.until,
                "datasets": dict(sorted(self.training.datasets.items())),
            },
            "provenance": dict(vars(self.provenance)),
            **{name: None for name, since in formats.items() if since <= version},
            **{name: dict(settings) for name, settings in self.parts.items()},
        }

    def to_bytes(self) -> bytes:
        """The manifest as it is stored: equal manifests give equal bytes."""
        return canonical_json(self.to_data())

    def sha256(self) -> str:
        """SHA-256 of `to_bytes()`."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def content_sha256(self) -> str:
        """SHA-256 of everything but the time of creation: equal for releases that behave equally, whether a
        setting was written 60 or 60.0.
        """
        data = self.to_data()
        del data["created"]
        return hashlib.sha256(canonical_json(with_equal_numbers(data))).hexdigest()


def canonical_json(document: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys and without NaN, so that equal documents give equal bytes."""
    text = json.dumps(document, allow_nan=False, sort_keys=True, indent=1, ensure_ascii=True)
    return (text + "\n").encode("ascii")


def parse_manifest(payload: bytes, *, source: str = "the manifest") -> ReleaseManifest:
    """Read a manifest from the bytes of its file.

    Raises ManifestVersionError when the format version is not one of ours, CorruptManifestError for anything
    else.
    """
    if len(payload) > MAX_MANIFEST_BYTES:
        raise CorruptManifestError(
            f"{source} holds {len(payload)} bytes; a manifest holds at most {MAX_MANIFEST_BYTES}."
        )
    try:
        document = strict_json.loads(payload)
    except StrictJsonError as error:
        raise CorruptManifestError(
            f"{source} is not JSON: {error}.", remedy="Build the release again."
        ) from error
    if not isinstance(document, dict):
        raise CorruptManifestError(f"{source} is not a JSON object.", remedy="Build the release again.")
    upgraded = upgrade_document(
        document, _UPGRADES, FORMAT_VERSION, source=source, error=ManifestVersionError
    )
    return _parse(upgraded, source)


def parse_pinned_manifest(
    payload: bytes, *, name: str, sha256: str | None, source: str = "The manifest"
) -> ReleaseManifest:
    """Read the manifest of a release that pins it by its digest, as a version of the registered model `name`.

    Raises as `parse_manifest`, ReleaseRefusedError when it was changed or is another cluster's.
    """
    digest = hashlib.sha256(payload).hexdigest()
    if digest != sha256:
        raise ReleaseRefusedError(
            f"{source} has the SHA-256 {digest}; {sha256} is pinned.",
            remedy="It was changed after it was built: build the release again.",
        )
    manifest = parse_manifest(payload, source=source)
    if manifest.name != name:
        raise ReleaseRefusedError(
            f"{source} of {name} is one of {manifest.name}.",
            remedy="It is another cluster's: build a release for this one.",
        )
    return manifest


def _parse(document: dict[str, Any], source: str) -> ReleaseManifest:
    parts, formats = optional_parts(), manifest_fields()
    top = object_of(document, (*_FIELDS, *formats), source, optional=tuple(parts))
    _check_installed(top, parts, source)
    models = object_of(top["models"], MODEL_KINDS, f"{source}: models", optional=optional_kinds())
    training = object_of(top["training"], ("until", "datasets"), f"{source}: training")
    provenance = object_of(
        top["provenance"], ("simulated_profiles", "synthetic_logs"), f"{source}: provenance"
    )
    datasets = training["datasets"]
    if not isinstance(datasets, dict) or any(not isinstance(digest, str) for digest in datasets.values()):
        raise misfit(source, "training.datasets", datasets, "an object of digests")
    if not isinstance(top["settings"], dict):
        raise misfit(source, "settings", top["settings"], "an object")
    if not isinstance(top["policy"], str) or not _POLICY.fullmatch(top["policy"]):
        raise misfit(source, "policy", top["policy"], "the name of a policy, such as lucid")
    for name, part in parts.items():
        check_part(part, top.get(name), models, source)
    if not isinstance(top["choice"], dict | None):
        raise misfit(source, "choice", top["choice"], "an object or null")
    for flag in ("simulated_profiles", "synthetic_logs"):
        if not isinstance(provenance[flag], bool):
            raise misfit(source, f"provenance.{flag}", provenance[flag], "true or false")
    name, cluster = text_of(top, "name", source), text_of(top, "cluster", source)
    if cluster_of(name) != cluster:
        raise misfit(source, "name", name, f"the registered model of the releases of cluster {cluster!r}")
    pins = {
        kind: _parse_pin(models[kind], f"{source}: models.{kind}")
        for kind in (*MODEL_KINDS, *optional_kinds())
        if kind in models
    }
    files = [pin.file for pin in pins.values()]
    if len({*files, MANIFEST_FILE, VERDICT_FILE}) != len(files) + 2:
        raise misfit(source, "models", files, "files of their own")
    return ReleaseManifest(
        name=name,
        created=time_of(top["created"], source, "created"),
        cluster=cluster,
        models=pins,
        settings=dict(top["settings"]),
        training=Training(
            until=None if training["until"] is None else time_of(training["until"], source, "training.until"),
            datasets=datasets,
        ),
        provenance=Provenance(provenance["simulated_profiles"], provenance["synthetic_logs"]),
        policy=top["policy"],
        choice=top["choice"],
        parts={name: top[name] for name in parts if top.get(name) is not None},
    )


def _check_installed(top: Mapping[str, Any], parts: Mapping[str, object], source: str) -> None:
    """Refuse settings and models of a part that is not installed, by its name."""
    missing = lacking()
    pinned = top["models"] if isinstance(top["models"], dict) else {}
    for what in (
        *(
            f"field {name} of releases"
            for name in manifest_fields()
            if name not in parts and top[name] is not None
        ),
        *(f"model {kind}" for kind in pinned),
    ):
        if what in missing:
            error = missing[what]
            raise ReleaseRefusedError(f"{source} needs more than is installed: {error}")


def _parse_pin(value: object, place: str) -> ModelPin:
    data = object_of(value, ("name", "version", "file", "sha256", "bytes"), place)
    if not isinstance(data["sha256"], str) or not SHA256.fullmatch(data["sha256"]):
        raise misfit(place, "sha256", data["sha256"], "64 lower-case hexadecimal digits")
    if not isinstance(data["file"], str) or not _FILE.fullmatch(data["file"]):
        # A name with a slash or dots first could write outside of the state directory.
        raise misfit(place, "file", data["file"], "a plain file name")
    return ModelPin(
        name=text_of(data, "name", place),
        version=positive_of(data, "version", place),
        file=data["file"],
        sha256=data["sha256"],
        bytes=positive_of(data, "bytes", place),
    )
