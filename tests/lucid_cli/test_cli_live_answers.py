"""`lucid live status`, `queue`, `explain` and `when`, as people use them: beside a daemon, and from afar."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.service.state_files import ENDPOINT_FILE, TOKEN_FILE
from tests.live_scheduler.live_answers import STATE, Live
from tests.live_scheduler.live_release import AWAY, client_without_server


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, small_model_files: dict[str, list[Path]]
) -> Iterator[ReleaseClient]:
    with client_without_server(tmp_path_factory.mktemp("releases"), small_model_files) as found:
        yield found


@pytest.fixture
def live(lucid: Any, tmp_path: Path, client: ReleaseClient) -> Iterator[Live]:
    """A daemon whose state lies where `lucid` looks for it."""
    found = Live(tmp_path / ".lucid" / "live" / "small", client)
    with found:
        found.see(STATE)
        yield found


def test_status_queue_and_explain_in_json(lucid: Any, live: Live) -> None:
    status = lucid("live", "status", "--json")
    assert status.code == 0, status.err
    assert (status.json["cluster"], status.json["in_charge"]) == ("small", True)
    assert {part["partition"] for part in status.json["partitions"]} == {"vc1", "prof"}
    queue = lucid("live", "queue", "--pool", "vc1", "--json")
    assert [job["job_id"] for job in queue.json["queues"][0]["jobs"]] == ["3", "7", "4", "2"]
    told = lucid("live", "explain", "7_2", "--cluster", "small", "--json")
    assert (told.json["job_id"], told.json["place"], told.json["queue_length"]) == ("7", 2, 4)
    assert told.err == ""


def test_people_read_sentences_and_tables(lucid: Any, live: Live) -> None:
    told = lucid("live", "explain", "4")
    assert told.code == 0, told.err
    for part in ("stands at place 3 of 4", "Estimated run time:", "What would move it:", "version 7"):
        assert part in told.out
    queue = lucid("live", "queue")
    for part in ("vc1", "train_u2", "it waits for Dependency", "7 (5 tasks)"):
        assert part in queue.out
    assert " note " not in queue.out, "there is nothing to note: no job starts, none is overdue"
    some = lucid("live", "queue", "--first", "1")
    assert "the first 1 of 4 jobs" in some.out
    assert "train_u2" not in some.out
    status = lucid("live", "status")
    for part in ("Live scheduler of small", "last known good", "in charge", "4 SetPriority", "vc1"):
        assert part in status.out


def test_when_is_told_to_people_and_programs(lucid: Any, live: Live) -> None:
    told = lucid("live", "when", "7_1", "--json")
    assert told.code == 0, told.err
    assert told.json["job_id"] == "7"
    assert told.json["at_s"] < told.json["start_p50_s"] <= told.json["start_p90_s"]
    people = lucid("live", "when", "7_1")
    for part in ("Job 7 starts about", "nine in ten", "This assumes:"):
        assert part in people.out


def test_an_unknown_job_is_an_error_with_the_remedy(lucid: Any, live: Live) -> None:
    told = lucid("live", "explain", "404")
    assert (told.code, told.out) == (1, "")
    assert "No job '404'" in told.err
    assert "lucid live queue" in told.err
    assert len(told.err.splitlines()) == 1


def test_from_afar_the_address_and_a_copy_of_the_token_serve(lucid: Any, live: Live, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_text(live.token)
    (live.folder / ENDPOINT_FILE).unlink()
    told = lucid("live", "status", "--url", live.url, "--token-file", copy, "--json")
    assert told.json["cluster"] == "small"
    assert "--token-file" in lucid("live", "status", "--url", live.url).err
    copy.write_text("x" * 43)
    refused = lucid("live", "status", "--url", live.url, "--token-file", copy)
    assert refused.code == 1
    assert "token" in refused.err


def test_a_state_folder_elsewhere(lucid: Any, tmp_path: Path, client: ReleaseClient) -> None:
    found = Live(tmp_path / "elsewhere", client)
    with found:
        found.see(STATE)
        assert lucid("live", "status", "--state", tmp_path / "elsewhere", "--json").json["ranked_jobs"] == 4


@pytest.mark.parametrize("command", [("status",), ("queue",), ("explain", "1"), ("when", "1")])
@pytest.mark.parametrize("options", [(), ("--cluster", "small"), ("--state", "nowhere")])
def test_without_a_daemon_the_error_says_how_to_start_one(
    lucid: Any, command: tuple[str, ...], options: tuple[str, ...]
) -> None:
    told = lucid("live", *command, *options)
    assert (told.code, told.out) == (1, "")
    assert "No daemon runs" in told.err
    assert "lucid live slurm" in told.err
    assert len(told.err.splitlines()) == 1


def test_a_daemon_that_was_killed_is_told_as_such(lucid: Any, tmp_path: Path, client: ReleaseClient) -> None:
    found = Live(tmp_path / ".lucid" / "live" / "small", client)
    with found:
        endpoint = json.loads((found.folder / ENDPOINT_FILE).read_text())
    endpoint["started_after_boot_s"] -= 5.0
    (found.folder / ENDPOINT_FILE).write_text(json.dumps(endpoint))
    told = lucid("live", "status")
    assert told.code == 1
    assert "does not run any more" in told.err


def test_an_address_that_is_none_or_of_somebody_else(lucid: Any, tmp_path: Path) -> None:
    token = tmp_path / TOKEN_FILE
    token.write_text("x" * 43)
    for address in ("nonsense", "ftp://localhost", "http://"):
        told = lucid("live", "status", "--url", address, "--token-file", token)
        assert (told.code, "is no address" in told.err) == (1, True)
    told = lucid("live", "status", "--url", AWAY, "--token-file", token)
    assert (told.code, "does not answer" in told.err) == (1, True)
