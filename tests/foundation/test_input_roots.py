"""Where a worker may read from, whatever a form names."""

import os
from pathlib import Path

import pytest

from cluster_logs.readers.source import TextSource
from foundation.errors import BadInputError
from foundation.outside_names import InputRoots, admitted, reading_only_from
from foundation.storage import locate, open_located
from profiler_jobs.profile_table import read_solo_profiles


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root `data`, a state folder in it of which only `inbox` is open, and a secret beside them."""
    for name in ("data/log.csv", "data/state/secrets/key", "data/state/inbox/log.csv", "data/.env", "secret"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret words\n")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "data" / "way").symlink_to("/")
    (tmp_path / "data" / "inside").symlink_to(tmp_path / "data" / "log.csv")
    (tmp_path / "database").symlink_to(tmp_path / "data")
    return tmp_path


def roots(tree: Path) -> InputRoots:
    data = str(tree / "database")  # a root may be named by a link
    return InputRoots((data, f"{data}/state/inbox", "s3://logs/mine"), (f"{data}/state",))


@pytest.mark.parametrize(
    "name", ["log.csv", "inside", "no-such-file.gz", "state/inbox/log.csv", "", "a/../log.csv"]
)
def test_what_lies_in_a_root_is_admitted_and_resolved(tree: Path, name: str) -> None:
    place = f"{tree}/data/{name}"
    for uri in (place, f"file://{place}", f"{tree}/database/{name}"):
        assert roots(tree).admit(uri) == os.path.realpath(place)


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "file:///etc/passwd", "FILE:///etc/passwd", "file://host/etc/shadow", "~/.ssh/id"),
        *("{tree}/secret", "{tree}/data/link", "{tree}/data/way/etc/passwd", "{tree}/data/../secret"),
        *("file://{tree}/data/%2e%2e/secret", "{tree}/data/.env", "{tree}/data/state/secrets/key"),
        *("{tree}/database.csv", "{tree}/data\x00/log.csv", "{tree}/data/log\n.csv", "/proc/self/environ"),
        *("http://127.0.0.1/log", "ssh://host/etc/passwd", "github://a:b@/x", "memory://x", "data:,x"),
        *("s3://other/log", "s3://logs", "s3://logs/mine2/log", "s3://logs/mine/../other", "s3://logs/mine/%2e%2e/x"),
        *("s3://logs/mine/x?endpoint_override=evil", "s3://key:word@logs/mine/x", "s3://logs/mine/x::http://evil"),
        *("simplecache::http://127.0.0.1/x", "file:/etc/passwd", "//etc/passwd", "S3://logs/mine/log"),
    ],
)  # fmt: skip
def test_what_lies_elsewhere_is_refused_with_the_remedy(tree: Path, name: str) -> None:
    with pytest.raises(BadInputError, match=r"Field 'Log'.*(LUCID_INPUT_ROOTS|plain path)") as caught:
        roots(tree).admit(name.format(tree=tree), "Field 'Log':")
    assert "secret words" not in str(caught.value)


def test_uris_need_their_prefix_and_no_root_means_no_place(tree: Path) -> None:
    assert roots(tree).admit("s3://logs/mine/a.csv") == "s3://logs/mine/a.csv"
    assert InputRoots(("s3://",)).admit("s3://any/a.csv") == "s3://any/a.csv"
    with pytest.raises(BadInputError, match="none"):
        InputRoots(()).admit(str(tree / "data" / "log.csv"))


def test_readers_open_nothing_else_while_the_guard_stands(tree: Path) -> None:
    inside, outside = str(tree / "data" / "log.csv"), str(tree / "secret")
    with reading_only_from(lambda: roots(tree)):
        assert b"".join(TextSource(inside).blocks()) == b"secret words\n"
        for read in (
            lambda: list(TextSource(outside).blocks()),
            lambda: locate("http://127.0.0.1/log"),
            lambda: read_solo_profiles(outside),
        ):
            with pytest.raises(BadInputError, match="LUCID_INPUT_ROOTS"):
                read()
    assert admitted(outside) == outside  # a command line is not restricted


def test_a_link_that_is_moved_after_the_question_opens_nothing(tree: Path) -> None:
    folder = tree / "data" / "day"
    folder.mkdir()
    (folder / "secret").write_text("harmless\n")
    with reading_only_from(lambda: roots(tree)):
        fs, path = locate(str(folder / "secret"))
        with open_located(fs, path) as file:
            assert file.read() == b"harmless\n"
        folder.rename(tree / "data" / "away")
        folder.symlink_to(tree)
        with pytest.raises(BadInputError, match="LUCID_INPUT_ROOTS"):
            open_located(fs, path)
