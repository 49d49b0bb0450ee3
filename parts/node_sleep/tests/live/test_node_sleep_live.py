from pathlib import Path

import pytest

from foundation.errors import BadInputError
from live_scheduler.adapters import AdapterKind, OpenedCluster
from live_scheduler.live_settings import LiveSettings
from live_scheduler.settings_file import settings_from
from parts.node_sleep.live.settings import NodeSleepSettings


class Plain(AdapterKind):
    """A cluster that orders jobs and does nothing else."""

    def open(self, settings: LiveSettings, folder: Path) -> OpenedCluster:
        raise NotImplementedError


def test_an_adapter_that_cannot_is_refused() -> None:
    with pytest.raises(BadInputError, match="cannot put nodes to sleep"):
        Plain().check(LiveSettings("c", adapter="plain", tables={"node_sleep": NodeSleepSettings()}))


def test_settings_of_an_earlier_version_are_read() -> None:
    assert settings_from({"cluster": "c", "node_sleep": {"mode": "observe"}}).tables == {
        "node_sleep": NodeSleepSettings()
    }
