"""A live scheduler that answers over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from live_scheduler.client import ReleaseClient
from tests.live_scheduler.live_answers import STATE, Live
from tests.live_scheduler.live_release import client_without_server


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, small_model_files: dict[str, list[Path]]
) -> Iterator[ReleaseClient]:
    with client_without_server(tmp_path_factory.mktemp("releases"), small_model_files) as found:
        yield found


@pytest.fixture
def live(tmp_path: Path, client: ReleaseClient) -> Iterator[Live]:
    found = Live(tmp_path, client)
    with found:
        yield found


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, client: ReleaseClient) -> Iterator[Live]:
    """For tests that change nothing."""
    found = Live(tmp_path_factory.mktemp("standing"), client)
    with found:
        found.see(STATE)
        yield found
