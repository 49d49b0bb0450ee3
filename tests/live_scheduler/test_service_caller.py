"""How commands find the daemon that they ask."""

import json
from pathlib import Path

import httpx
import pytest

from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from live_scheduler.service.asking import ServiceCaller, open_caller
from live_scheduler.service.state_files import ENDPOINT_FILE, read_endpoint
from tests.live_scheduler.live_answers import STATE, Live
from tests.live_scheduler.pushing import pushed_cluster


def test_the_caller_finds_the_daemon_by_its_state_folder(standing: Live, tmp_path: Path) -> None:
    with open_caller(tmp_path.parent, folder=standing.folder) as caller:
        assert caller.status().cluster == "small"
        assert caller.explain("7_3").job_id == "7"
        with pytest.raises(NotFoundError, match="99"):
            caller.explain("99")
        assert [place.job_id for place in caller.decide(pushed_cluster(STATE)).ranked] == ["3", "7", "4", "2"]
    with open_caller(standing.folder.parent, cluster=standing.folder.name) as caller:
        assert caller.queue("vc1").queues[0].pool == "vc1"
    with ServiceCaller(standing.url, "x" * 40) as caller, pytest.raises(BadInputError, match="token"):
        caller.status()


def test_without_a_name_the_only_cluster_is_meant(tmp_path: Path) -> None:
    one, other = Live(tmp_path / "one"), Live(tmp_path / "other")
    with one:
        with open_caller(tmp_path) as caller:
            assert caller.url == one.url
        with other, pytest.raises(BadInputError, match=r"several clusters: one, other.*--cluster"):
            open_caller(tmp_path)


def test_a_daemon_that_has_ended_is_told_with_the_remedy(live: Live, tmp_path: Path) -> None:
    endpoint = json.loads((live.folder / ENDPOINT_FILE).read_text())
    endpoint["started_after_boot_s"] -= 5.0  # another process had this id
    (live.folder / ENDPOINT_FILE).write_text(json.dumps(endpoint))
    with pytest.raises(ServiceUnavailableError, match=r"does not run any more.*lucid live slurm"):
        read_endpoint(live.folder)
    for damage in ("", "{}", "[]", '{"pid": "x"}'):
        (live.folder / ENDPOINT_FILE).write_text(damage)
        with pytest.raises(ServiceUnavailableError, match="cannot be read"):
            read_endpoint(live.folder)
    with pytest.raises(ServiceUnavailableError, match="No daemon runs"):
        open_caller(tmp_path / "nothing")


def test_the_endpoint_goes_with_the_service(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with live:
        assert read_endpoint(tmp_path).http == live.url
    assert not (tmp_path / ENDPOINT_FILE).exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{live.url}/healthz", trust_env=False)
