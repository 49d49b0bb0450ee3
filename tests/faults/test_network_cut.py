"""The network between a scheduler and MLflow is cut at any moment, and heals."""

from pathlib import Path
from typing import Any

import pytest

from live_scheduler.client import PollLimits, ReleaseClient
from live_scheduler.release import LiveRelease
from lucid_models.releases.lifecycle import publish_release
from tests.evidence import Evidence
from tests.faults.tcp_proxy import network


@pytest.mark.evidence(table="faults", rows=("49",))
@pytest.mark.parametrize("mode", ["refused", "silent"])
def test_a_network_that_is_cut_and_heals(shop: Any, tmp_path: Path, mode: str, evidence: Evidence) -> None:
    first, second = shop.approved(1), shop.approved(2)
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    with network(shop.server.port) as between:
        limits = PollLimits(silence_s=1.0, stale_after_polls=3)
        client = ReleaseClient(between.uri, "champion", tmp_path, cluster="small", limits=limits)
        held = client.poll()
        assert isinstance(held, LiveRelease)
        publish_release(tracking_uri=shop.uri, cluster="small", version=second)  # which it cannot hear of
        between.cut(mode)
        modes = []
        for _ in range(3):
            assert client.poll() is held
            modes.append(client.status().mode)
        assert modes == ["last known good", "last known good", "stale"]
        assert "did not answer" in (client.status().problem or "")
        between.heal()
        assert client.poll().version == second
        status = client.status()
        assert (status.mode, status.problem) == ("following", None)
    how = "refuses connections" if mode == "refused" else "swallows packets"
    evidence(
        "faults",
        "49",
        f"While it {how} the release in use orders on, mode `{modes[0]}`, then `{modes[-1]}`;"
        " the first look after it heals follows what was published meanwhile.",
    )


@pytest.mark.evidence(table="faults", rows=("49",))
def test_a_network_that_is_cut_in_the_middle_of_a_release(
    shop: Any, tmp_path: Path, evidence: Evidence
) -> None:
    first, second = shop.approved(1), shop.approved(2)
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    with network(shop.server.port) as between:
        limits = PollLimits(silence_s=1.0, retry_refused_s=0.0)
        client = ReleaseClient(between.uri, "champion", tmp_path, cluster="small", limits=limits)
        held = client.poll()
        publish_release(tracking_uri=shop.uri, cluster="small", version=second)
        files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
        cuts = (500, 5_000, 50_000, 150_000)  # within the answer, the manifest, the files
        for after_bytes in cuts:
            between.passes_bytes = after_bytes
            assert client.poll() is held
            assert client.status().version == first
            assert isinstance(
                ReleaseClient(between.uri, "champion", tmp_path, cluster="small").current, LiveRelease
            )
            between.heal()
        assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == files, "nothing half is kept"
        assert client.poll().version == second
    evidence(
        "faults",
        "49",
        "Cut within the files of a release, nothing of it is used or kept; the next look fetches all of it.",
    )
