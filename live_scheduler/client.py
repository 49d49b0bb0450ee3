"""Follows one alias of a cluster's releases: pull, verify, hot-swap, and go on when everything else is gone.

    client = ReleaseClient("http://127.0.0.1:5000", "champion", Path("/var/lib/lucid"), cluster="venus")
    release = client.poll()          # every few seconds; one small GET when nothing changed
    rank_queue(queue, release)

Needs NumPy and httpx, and `cryptography` (`pip install 'lucid-mlops[verify]'`) unless it is set to believe
unsigned releases. A release is used when judge and publisher signed that it is live (`beliefs.py`), its
verdict approves exactly it (`releases/approval.py`), it is of this cluster, its manifest, digests, sizes and
formats hold, all three models load and each scores a probe; else the one before stays, and `status()` says
what was refused and why.
"""

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from foundation.deadlines import within
from foundation.errors import BadInputError, LucidError, ReleaseRefusedError, ServiceUnavailableError
from live_scheduler.beliefs import Backing, Clock, belief_of, trust_of
from live_scheduler.release import (
    SIGNED_TRUST,
    UNSIGNED_TRUST,
    ClientStatus,
    FallbackRelease,
    LiveRelease,
    Release,
)
from live_scheduler.release_server import AliasTarget, ReleaseServer
from live_scheduler.release_store import ReleaseStore, verify_release
from lucid_models.releases.approval import APPROVED, ReleaseIdentity, identify
from lucid_models.releases.manifest import VERDICT_FILE, ReleaseManifest, cluster_of, release_name
from lucid_models.releases.only_cluster import the_only

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MB = 1e6


@dataclass
class ReleaseFetch:
    """One fetch under way; written by the thread that fetches, read by any (each field in one step).

    `files` and `total_bytes` are not known before the manifest has come.
    """

    version: int
    began_s: float = field(default_factory=time.monotonic)
    file: str = ""
    begun_files: int = 0
    files: int | None = None
    done_bytes: int = 0
    file_bytes: int = 0
    total_bytes: int | None = None

    def begin(self, file: str) -> None:
        """The next file is asked for; the one before has come."""
        self.done_bytes += self.file_bytes
        self.file, self.file_bytes = file, 0
        self.begun_files += 1

    def received(self, file_bytes: int) -> None:
        """So much of the present file has come."""
        self.file_bytes = file_bytes

    def expect(self, manifest: ReleaseManifest) -> None:
        """The manifest, which has just come, says what is still to come."""
        pins = manifest.models.values()
        self.total_bytes = self.done_bytes + self.file_bytes + sum(pin.bytes for pin in pins)
        self.files = self.begun_files + len(pins)

    def describe(self) -> str:
        """Say it: "release 7: file 3 of 5, 12 of 40 MB, 31 s"."""
        come = (self.done_bytes + self.file_bytes) / _MB
        seconds = time.monotonic() - self.began_s
        if self.files is None or self.total_bytes is None:
            return f"release {self.version}: {self.file}, {come:,.2f} MB, {seconds:,.0f} s"
        files = f"file {self.begun_files} of {self.files}"
        size = f"{come:,.2f} of {self.total_bytes / _MB:,.2f} MB"
        return f"release {self.version}: {files}, {size}, {seconds:,.0f} s"


@dataclass(frozen=True)
class PollLimits:
    """What a client takes of its server.

    `silence_s` is the server's longest silence, `poll_s` the longest that a poll may take as a whole, with
    all files of a new release (40 MB at 1.1 Mbit/s). A refused release is tried again after
    `retry_refused_s`: the fault may have been on the way. After `stale_after_polls` polls in a row without
    a word from the server, what is in use counts as stale.
    """

    silence_s: float = 5.0
    poll_s: float = 300.0
    retry_refused_s: float = 300.0
    stale_after_polls: int = 6


@dataclass(frozen=True)
class _Refused:
    """What was refused last: why, in a sentence and in a word, and when (monotonic clock)."""

    target: AliasTarget
    reason: str
    code: str | None
    at_s: float = field(default_factory=time.monotonic)

    def age_s(self) -> float:
        """Time since then."""
        return time.monotonic() - self.at_s


class ReleaseClient:
    """One alias of one cluster's releases on one MLflow server; safe to use from several threads."""

    def __init__(
        self,
        tracking_uri: str,
        alias: str,
        state_dir: str | Path,
        *,
        cluster: str,
        limits: PollLimits = PollLimits(),
        unapproved: bool = False,
        trust: str | Path | None = None,
        clock: Clock = lambda: datetime.now(UTC),
    ) -> None:
        """Start with the last known good release on disk, if any; no request is made yet.

        `unapproved`: take a release without the gate's approval, to look at by hand; no signature is asked
        for, and nothing of it is kept on disk or read from there. `trust`: the trust file, or the word
        `unsigned`; default: LUCID_TRUST, else `trust.json` in `state_dir`. `clock`: tells the time (aware).
        Raises BadInputError for an alias, an address or a cluster that cannot be one.
        """
        if not _ALIAS.fullmatch(alias):
            raise BadInputError(f"{alias!r} is not an alias.", remedy="Use champion, challenger or previous.")
        self.alias, self.cluster, self._name = alias, cluster, release_name(cluster)
        self._server = ReleaseServer(tracking_uri, timeout_s=limits.silence_s)
        self._store = ReleaseStore(Path(state_dir))
        self._limits = limits
        self._unapproved = unapproved
        trust_file = None if unapproved else trust_of(trust, self._store.folder)
        self._trust = UNSIGNED_TRUST if trust_file is None else SIGNED_TRUST
        self._belief = belief_of(trust_file, self._store.folder / cluster, cluster, alias, clock)
        self._backing = Backing()
        self._expired: str | None = None
        self._trust_changed = False
        self._missed_polls = 0
        self._lock = threading.Lock()
        self._following = False
        self._verdict: str | None = None
        self._last_poll: str | None = None
        self._last_contact: str | None = None
        self._problem: str | None = None
        self._refused: _Refused | None = None
        self._believed: AliasTarget | None = None
        self._under_way: ReleaseFetch | None = None
        self._written: dict[str, object] | None = None
        self._current: Release = self._start()

    @property
    def current(self) -> Release:
        """The release in use; swapped in one step, so a caller always holds a whole one."""
        return self._current

    def poll(self) -> Release:
        """Look at the alias, take over a new release if it verifies, and return the one in use.

        Ends within the limit, but for what verifying takes. Never raises for trouble with the server, the
        network, a release or the disk: see `status()`.
        """
        with self._lock:
            self._last_poll = _now()
            self._missed_polls += 1
            try:
                with within(self._limits.poll_s, "a look for a release with all its files"):
                    self._look()
            except (LucidError, OSError) as error:
                self._following = False
                self._problem = str(error)
            except Exception as error:  # a scheduler outlives any fault of its model supply
                self._following = False
                self._problem = f"Unexpected: {error!r}"
            self._expired = self._see_expiry()
            if isinstance(self._current, FallbackRelease) and self._problem:
                self._current = FallbackRelease(self._problem)
            self._write_status()
            return self._current

    def status(self) -> ClientStatus:
        """What this client does and why."""
        current = self._current
        refused, under_way = self._refused, self._under_way
        published = self._backing.published.publication if self._backing.published else None
        is_signed = isinstance(current, LiveRelease) and bool(current.signed_by)
        return ClientStatus(
            alias=self.alias,
            mode=self._mode(),
            release=current.describe(),
            version=current.version if isinstance(current, LiveRelease) else None,
            verdict=self._verdict if self._following else None,
            last_poll=self._last_poll,
            last_contact=self._last_contact,
            problem=" ".join(filter(None, (self._problem, self._expired))) or None,
            refused_version=refused.target.version if refused else None,
            refused_reason=refused.reason if refused else None,
            fetching=under_way.describe() if under_way else None,
            refused_code=refused.code if refused else None,
            trust=self._trust,
            published=published is not None if is_signed else None,
            sequence=published.sequence if published else None,
            expires=published.expires.isoformat(timespec="seconds") if published else None,
            expired=self._expired is not None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _mode(self) -> str:
        if not isinstance(self._current, LiveRelease):
            return "fallback"
        if self._expired:
            return "stale"
        if self._following:
            return "following"
        return "stale" if self._missed_polls >= self._limits.stale_after_polls else "last known good"

    def _start(self) -> Release:
        try:
            if not self._unapproved:
                self._belief.refresh()
                kept = self._store.load(self.cluster, self.alias, self._server.uri, self._belief)
                if kept is not None:
                    release, self._backing = kept
                    self._expired = self._belief.expired(self._backing)
                    return release
        except Exception as error:  # whatever lies on the disk, a scheduler starts
            self._problem = f"The last known good release was not used: {error}"
            return FallbackRelease(self._problem)
        return FallbackRelease(
            f"no release of cluster {self.cluster!r} with the alias {self.alias!r} was ever fetched."
        )

    def _look(self) -> None:
        self._apply_trust()
        target = self._server.resolve(self._name, self.alias)
        self._last_contact, self._missed_polls = self._last_poll, 0
        if self._is_current(target) and target == self._believed:
            self._follow(target)
            return
        refused = self._refused
        if refused and refused.target == target and refused.age_s() < self._limits.retry_refused_s:
            self._following, self._problem = False, refused.reason
            return
        try:
            self._take_over(target)
        except ReleaseRefusedError as error:
            reason = f"Release {target.version} was refused: {error}"
            self._refused = _Refused(target, reason, getattr(error, "reason", None))
            self._following, self._problem = False, reason

    def _follow(self, target: AliasTarget) -> None:
        """What is in use is what the alias means."""
        self._following, self._problem, self._refused = True, None, None
        self._verdict, self._believed = target.verdict.word, target

    def _take_over(self, target: AliasTarget) -> None:
        """Use a target that is believed: fetched, or with newer statements on what is in use already.

        Raises ReleaseRefusedError, ServiceUnavailableError, OSError.
        """
        identity = identify(self.cluster, target.version, target.manifest_sha256)
        in_use = self._is_current(target)
        backing = self._belief.believe(identity, target.verdict.sha256, target.statements, in_use=in_use)
        release = self._current if in_use and backing.files == self._backing.files else None
        files: dict[str, bytes] = {}
        if not isinstance(release, LiveRelease):
            fetch = self._under_way = ReleaseFetch(target.version)
            try:
                release, files = self._fetch(identity, target, backing, fetch)
            finally:
                self._under_way = None
        unchanged = release is self._current and backing.statements == self._backing.statements
        self._current, self._backing = release, backing
        self._follow(target)
        if self._unapproved or unchanged:
            return
        try:
            if files:
                self._store.save(release, files, self._server.uri, target.statements)
            else:
                self._store.keep_statements(release, self._server.uri, target.statements)
        except OSError as error:
            self._problem = f"Release {release.version} is in use but could not be kept on disk: {error}"

    def _apply_trust(self) -> None:
        """When the trust file says something else than before, ask it about what is in use, too."""
        self._trust_changed |= self._belief.refresh()
        if not self._trust_changed:
            return
        self._refused = self._believed = None
        current = self._current
        if not isinstance(current, LiveRelease):
            self._current = self._start()  # the copy on disk may be believed now
            self._trust_changed = False
            return
        identity = identify(self.cluster, current.version, current.manifest_sha256)
        try:
            self._backing = self._belief.believe_kept(
                identity, current.verdict_sha256, self._backing.statements
            )
        except ReleaseRefusedError as error:
            self._backing = Backing()
            self._current = FallbackRelease(f"Release {current.version} is no longer believed: {error}")
        self._trust_changed = False

    def _see_expiry(self) -> str | None:
        """Why what is in use counts as stale, by its own statement; None: it holds."""
        if not isinstance(self._current, LiveRelease):
            return None
        return self._belief.expired(self._backing)

    def _fetch(
        self, release: ReleaseIdentity, target: AliasTarget, backing: Backing, fetch: ReleaseFetch
    ) -> tuple[LiveRelease, dict[str, bytes]]:
        """Download and verify a whole release; raises ReleaseRefusedError, ServiceUnavailableError."""
        verdict = None if self._unapproved else target.verdict

        def read(file: str, most: int) -> bytes:
            payload = fetched(file, most)
            backing.check(file, payload)
            return payload

        def fetched(file: str, most: int) -> bytes:
            fetch.begin(file)
            if file == VERDICT_FILE:
                if target.verdict.run_id is None:
                    raise ReleaseRefusedError("Its tags name no run that holds its verdict.")
                return self._server.fetch_of_run(target.verdict.run_id, file, most, fetch.received)
            return self._server.fetch(release.name, release.version, file, most, fetch.received)

        return verify_release(self.alias, release, verdict, read, fetch.expect, signed_by=backing.signed_by)

    def _is_current(self, target: AliasTarget) -> bool:
        """Whether what is in use is this target, by the very verdict that approved it."""
        current = self._current
        if not isinstance(current, LiveRelease):
            return False
        same = (current.version, current.manifest_sha256) == (target.version, target.manifest_sha256)
        approval = (APPROVED, current.verdict_sha256)
        return same and (self._unapproved or approval == (target.verdict.word, target.verdict.sha256))

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def followed_cluster(tracking_uri: str, alias: str, kept_in: Iterable[Path]) -> str:
    """The only cluster with a release on the server; while that is away, the only one with a kept release.

    `kept_in` are state folders of release clients. Raises BadInputError where several could be meant,
    NotFoundError where none could.
    """
    server = ReleaseServer(tracking_uri)
    try:
        clusters = sorted(filter(None, map(cluster_of, server.models_with(alias))))
        return the_only(clusters, where=server.uri)
    except ServiceUnavailableError as error:
        kept = {name for folder in kept_in for name in ReleaseStore(folder).clusters(alias, server.uri)}
        return the_only(sorted(kept), where=f"this machine ({error})")
    finally:
        server.close()
