"""Uploads are kept under names of ours, bounded, and for some days."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from pipeline.overview import uploads
from pipeline.overview.uploads import KEPT_DAYS, Upload, receiving


def send(folder: Path, name: str, *pieces: bytes) -> Upload:
    with receiving(folder, name) as incoming:
        for piece in pieces:
            incoming.write(piece)
        return incoming.keep()


@given(name=st.text(max_size=300))
def test_a_name_is_never_a_path(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("uploads")
    kept = Path(send(folder, name, b"a,b\n", b"1,2\n").path)
    assert kept.parent == folder
    assert kept.read_bytes() == b"a,b\n1,2\n"
    assert [each.name for each in folder.iterdir()] == [kept.name]
    assert kept.name.isascii()
    assert not kept.name.startswith(".")


def test_the_same_file_twice_is_one_file_and_another_is_another(tmp_path: Path) -> None:
    first, again = send(tmp_path, "../log.csv", b"same"), send(tmp_path, "../log.csv", b"sa", b"me")
    other = send(tmp_path, "../log.csv", b"other")
    assert first.path == again.path != other.path
    assert Path(first.path).stat().st_mode & 0o077 == 0


def test_a_file_that_is_too_large_or_empty_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES", 100)
    with pytest.raises(BadInputError, match="can be uploaded"):
        send(tmp_path, "log.csv", b"x" * 60, b"x" * 60)
    with pytest.raises(BadInputError, match="empty"):
        send(tmp_path, "log.csv")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(uploads, "MOST_BYTES_TOGETHER", 150)
    send(tmp_path, "log.csv", b"x" * 90)
    with pytest.raises(BadInputError, match="of the last 14 days"):
        send(tmp_path, "log.csv", b"y" * 90)
    assert len(list(tmp_path.iterdir())) == 1


def test_old_uploads_and_half_sent_ones_are_removed(tmp_path: Path) -> None:
    old, young = send(tmp_path, "old.csv", b"old"), send(tmp_path, "young.csv", b"young")
    half = tmp_path / ".unfinished-1-ab"
    half.write_bytes(b"half")
    before = time.time() - KEPT_DAYS * 86_400 - 60
    for path in (old.path, half):
        os.utime(path, (before, before))
    with receiving(tmp_path, "new.csv"):
        assert not Path(old.path).exists()
        assert not half.exists()
        assert Path(young.path).exists()
