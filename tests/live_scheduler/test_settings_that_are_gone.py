"""Settings of earlier versions: an operator is told that they are gone, what a daemon left is read."""

from pathlib import Path

import pytest

from foundation.errors import BadInputError
from live_scheduler.settings_file import read_live_settings, settings_from


def test_the_port_of_grpc_is_gone_and_http_is_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "live.toml"
    path.write_text('cluster = "mine"\ngrpc_port = 0\n')
    with pytest.raises(BadInputError, match=r"The setting grpc_port .* is gone.*http_port"):
        read_live_settings(path)


def test_what_an_earlier_daemon_left_for_the_switch_is_read() -> None:
    assert settings_from({"cluster": "mine", "grpc_port": -1}) == settings_from({"cluster": "mine"})
