"""A publication and a rollback in MLflow reach a daemon that runs, at its next look at the alias."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from live_scheduler.client import ReleaseClient
from live_scheduler.daemon import Daemon
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.release import Release
from lucid_models.releases.lifecycle import publish_release, rollback_release
from tests.live_scheduler.memory_cluster import MemoryCluster
from tests.waiting import PATIENCE_S, wait_until


class CountedClient(ReleaseClient):
    """Counts its looks at the alias: those that were begun, and those that are over."""

    begun = over = 0

    def poll(self) -> Release:
        self.begun += 1
        try:
            return super().poll()
        finally:
            self.over += 1


@contextmanager
def running(daemon: Daemon) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=daemon.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def follows_at_its_next_look(daemon: Daemon, client: CountedClient, version: int) -> None:
    """The first look that begins from now on sees the alias as it is now."""
    next_look = client.begun + 1
    wait_until(lambda: client.over >= next_look, "a look")
    passes = daemon.view.counts["passes"]
    # One of them began after the look.
    wait_until(lambda: daemon.view.counts["passes"] >= passes + 2, "two passes")
    decision = daemon.view.decision
    assert decision is not None, daemon.view.problem
    assert (decision.release_version, daemon.view.release.version) == (version, version)


def test_publications_and_a_rollback_are_followed_and_what_was_learnt_is_kept(
    shop: Any, tmp_path: Path
) -> None:
    first, second = shop.approved(1), shop.approved(2)
    client = CountedClient(shop.uri, "champion", tmp_path / "releases", cluster="small")
    settings = LiveSettings(
        "small", mode=Mode.OBSERVE, pass_interval_s=0.05, release_interval_s=0.2, dead_after_s=5.0
    )
    cluster = MemoryCluster(at_s=1_900_000_000.0)
    for _ in range(3):
        cluster.submit()
    daemon = Daemon(cluster, client, settings, tmp_path / "state")
    try:
        with running(daemon):
            wait_until(lambda: "No release" in (daemon.view.problem or ""), "the problem")
            publish_release(tracking_uri=shop.uri, cluster="small", version=first)
            follows_at_its_next_look(daemon, client, first)
            cluster.start("1")
            wait_until(lambda: "1" not in daemon.view.decision.by_id, "a pass")  # type: ignore[union-attr]
            publish_release(tracking_uri=shop.uri, cluster="small", version=second)
            follows_at_its_next_look(daemon, client, second)
            state = daemon.online.scorer.state  # type: ignore[union-attr]
            assert {"1", "2", "3"} <= set(state.flights), "the new release knows what was submitted before it"
            assert daemon.view.decision.by_id.keys() == {"2", "3"}  # type: ignore[union-attr]
            rollback_release(tracking_uri=shop.uri, cluster="small")
            follows_at_its_next_look(daemon, client, first)
        assert daemon.view.counts["releases_followed"] == 3
        assert daemon.view.counts.get("passes_failed", 0) == 0
    finally:
        client.close()
