"""Follows one alias of a cluster's releases: pull, verify, hot-swap, and go on when everything else is gone.

    client = ReleaseClient("http://127.0.0.1:5000", "champion", Path("/var/lib/lucid"), cluster="venus")
    release = client.poll()          # every few seconds; one small GET when nothing changed
    rank_queue(queue, release)

Needs NumPy and httpx only. A release is used when it is of this cluster, its manifest, digests, sizes and
formats hold, all three models load and each scores a probe; else the one before stays, and `status()` says
what was refused and why.
"""

import hashlib
import re
import threading
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from cluster_logs.errors import BadInputError, LucidError, ReleaseRefusedError
from live_scheduler.release import FallbackRelease, LiveRelease, Release
from live_scheduler.release_server import AliasTarget, ReleaseServer
from live_scheduler.release_store import ReleaseStore
from lucid_models.releases.files import check_size, load_release_scorers
from lucid_models.releases.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, parse_manifest, release_name

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
# A refused release is tried again after this long: the fault may have been on the way.
RETRY_REFUSED_S = 300.0
# After so many polls in a row without a word from the server, what is in use counts as stale.
STALE_AFTER_POLLS = 6


@dataclass(frozen=True)
class ClientStatus:
    """What a client does and why; times are ISO, None: never.

    `mode`: "following" the alias, on the "last known good" release while the server is away or the newer one
    is refused, "stale" when the server was away for too many polls, or on the "fallback". `problem` is what
    stands in the way now, `refused_*` the last refused release.
    """

    alias: str
    mode: str
    release: str
    version: int | None
    verdict: str | None
    last_poll: str | None
    last_contact: str | None
    problem: str | None
    refused_version: int | None
    refused_reason: str | None


class ReleaseClient:
    """One alias of one cluster's releases on one MLflow server; safe to use from several threads."""

    def __init__(
        self,
        tracking_uri: str,
        alias: str,
        state_dir: str | Path,
        *,
        cluster: str,
        timeout_s: float = 5.0,
        retry_refused_s: float = RETRY_REFUSED_S,
        stale_after_polls: int = STALE_AFTER_POLLS,
    ) -> None:
        """Start with the last known good release on disk, if any; no request is made yet.

        `timeout_s` is the server's longest silence, `stale_after_polls` how many polls in a row may miss it.
        Raises BadInputError for an alias, an address or a cluster that cannot be one.
        """
        if not _ALIAS.fullmatch(alias):
            raise BadInputError(f"{alias!r} is not an alias.", remedy="Use champion, challenger or previous.")
        self.alias, self.cluster, self._name = alias, cluster, release_name(cluster)
        self._server = ReleaseServer(tracking_uri, timeout_s=timeout_s)
        self._store = ReleaseStore(Path(state_dir))
        self._retry_refused_s = retry_refused_s
        self._stale_after_polls = stale_after_polls
        self._missed_polls = 0
        self._lock = threading.Lock()
        self._following = False
        self._verdict: str | None = None
        self._last_poll: str | None = None
        self._last_contact: str | None = None
        self._problem: str | None = None
        self._refused: tuple[AliasTarget, str, float] | None = None
        self._written: dict[str, object] | None = None
        self._current: Release = self._start()

    @property
    def current(self) -> Release:
        """The release in use; swapped in one step, so a caller always holds a whole one."""
        return self._current

    def poll(self) -> Release:
        """Look at the alias, take over a new release if it verifies, and return the one in use.

        Never raises for trouble with the server, the network, a release or the disk: see `status()`.
        """
        with self._lock:
            self._last_poll = _now()
            self._missed_polls += 1
            try:
                self._look()
            except (LucidError, OSError) as error:
                self._following = False
                self._problem = str(error)
            except Exception as error:  # a scheduler outlives any fault of its model supply
                self._following = False
                self._problem = f"Unexpected: {error!r}"
            if isinstance(self._current, FallbackRelease) and self._problem:
                self._current = FallbackRelease(self._problem)
            self._write_status()
            return self._current

    def status(self) -> ClientStatus:
        """What this client does and why."""
        current = self._current
        refused = self._refused
        return ClientStatus(
            alias=self.alias,
            mode=self._mode(),
            release=current.describe(),
            version=current.version if isinstance(current, LiveRelease) else None,
            verdict=self._verdict if self._following else None,
            last_poll=self._last_poll,
            last_contact=self._last_contact,
            problem=self._problem,
            refused_version=refused[0].version if refused else None,
            refused_reason=refused[1] if refused else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _mode(self) -> str:
        if not isinstance(self._current, LiveRelease):
            return "fallback"
        if self._following:
            return "following"
        return "stale" if self._missed_polls >= self._stale_after_polls else "last known good"

    def _start(self) -> Release:
        try:
            kept = self._store.load(self.cluster, self.alias, self._server.uri)
        except Exception as error:  # whatever lies on the disk, a scheduler starts
            self._problem = f"The last known good release was not used: {error}"
            return FallbackRelease(self._problem)
        return kept or FallbackRelease(
            f"no release of cluster {self.cluster!r} with the alias {self.alias!r} was ever fetched."
        )

    def _look(self) -> None:
        target = self._server.resolve(self._name, self.alias)
        self._last_contact, self._missed_polls = self._last_poll, 0
        current = self._current
        if isinstance(current, LiveRelease) and _same(current, target):
            self._following, self._problem, self._verdict = True, None, target.verdict
            self._refused = None
            return
        if self._refused is not None:
            refused, reason, moment = self._refused
            # A verdict that changed makes no other release of it.
            same = (refused.version, refused.manifest_sha256) == (target.version, target.manifest_sha256)
            if same and time.monotonic() - moment < self._retry_refused_s:
                self._following, self._problem = False, reason
                return
        try:
            release, files = self._fetch(target)
        except ReleaseRefusedError as error:
            reason = f"Release {target.version} was refused: {error}"
            self._refused = (target, reason, time.monotonic())
            self._following, self._problem = False, reason
            return
        self._current = release
        self._following, self._problem, self._verdict, self._refused = True, None, target.verdict, None
        try:
            self._store.save(release, files, self._server.uri)
        except OSError as error:
            self._problem = f"Release {release.version} is in use but could not be kept on disk: {error}"

    def _fetch(self, target: AliasTarget) -> tuple[LiveRelease, dict[str, bytes]]:
        """Download and verify a whole release; raises ReleaseRefusedError, ServiceUnavailableError."""
        if target.manifest_sha256 is None:
            raise ReleaseRefusedError("it does not pin its manifest (tag manifest_sha256).")
        payload = self._server.fetch(self._name, target.version, MANIFEST_FILE, MAX_MANIFEST_BYTES)
        found = hashlib.sha256(payload).hexdigest()
        if found != target.manifest_sha256:
            raise ReleaseRefusedError(
                f"its manifest has the SHA-256 {found}; the registry pins {target.manifest_sha256}."
            )
        manifest = parse_manifest(payload, source=MANIFEST_FILE)
        if manifest.cluster != self.cluster:
            raise ReleaseRefusedError(
                f"its manifest is of cluster {manifest.cluster!r}, not {self.cluster!r}."
            )
        files = {MANIFEST_FILE: payload}
        for kind, pin in manifest.models.items():
            files[pin.file] = self._server.fetch(self._name, target.version, pin.file, pin.bytes)
            check_size(manifest, kind, len(files[pin.file]))
        scorers = load_release_scorers(manifest, files)
        return LiveRelease(self.alias, target.version, manifest, target.manifest_sha256, scorers), files

    def _write_status(self) -> None:
        """Keep the status file up to date; only changes other than the clock are written."""
        facts = asdict(self.status())
        lasting = {key: value for key, value in facts.items() if not key.startswith("last_")}
        if lasting == self._written:
            return
        try:
            self._store.write_status(self.cluster, self.alias, facts)
            self._written = lasting
        except OSError as error:
            self._problem = self._problem or f"The status could not be written: {error}"


def _same(current: LiveRelease, target: AliasTarget) -> bool:
    return (current.version, current.manifest_sha256) == (target.version, target.manifest_sha256)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
