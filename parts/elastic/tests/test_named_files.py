"""A configuration is read of files only, and only from where a worker may read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foundation.errors import BadInputError, LucidError
from foundation.outside_names import InputRoots, reading_only_from
from parts.elastic.configurations import load_configuration
from parts.elastic.pareto.compare import read_configurations

READERS: dict[str, Callable[[Path], Any]] = {
    "front.json": read_configurations,
    "front.csv": read_configurations,
    "wfq.json": lambda path: load_configuration(str(path)),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises((LucidError, OSError), match=r"a pipe, not a file|cannot be read"):
        READERS[name](path)


def test_a_configuration_is_read_from_where_a_worker_may_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    with (
        reading_only_from(lambda: InputRoots((str(tmp_path / "data"),))),
        pytest.raises(BadInputError, match="LUCID_INPUT_ROOTS"),
    ):
        load_configuration(str(secret))
