"""A lake on a local disk is its owner's and its group's, whichever part of it is written."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.ingest import ingest_log
from cluster_logs.lake import Lake
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT, store_site
from cluster_logs.synthetic import generator
from cluster_logs.validation import validate_lake
from foundation.errors import BadInputError

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
ROW = "1,u,vc,1,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 01:00:00,3600,0"


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def fill(root: Path, uri: str = "") -> None:
    """Everything that writes into a lake, one after another."""
    lake = uri or str(root)
    log = root.parent / "log.csv"
    log.write_text("\n".join([HEADER, ROW, ROW.replace("1,u", "bad,u").replace("2020", "x"), ""]))
    nodes = pd.DataFrame({"virtual_cluster": ["vc"], "nodes": [2], "gpus_per_node": [8]})
    ingest_log(source_format="helios", input_uri=str(log), cluster="venus", lake_uri=lake, nodes=nodes)
    store_site(FIRST_IN_FIRST_OUT, lake, "venus")
    generator.write_to_lake(generator.synthesize("philly", days=1, seed=0), Lake(lake), "made")


def modes(root: Path) -> tuple[set[int], set[int]]:
    """Of all files and of all folders below (and of the root itself)."""
    found = [root, *root.rglob("*")]
    files, folders = ([each for each in found if each.is_dir() is kind] for kind in (False, True))
    assert len(files) > 5
    return tuple({stat.S_IMODE(each.stat().st_mode) for each in group} for group in (files, folders))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("setting", "mask", "file_mode", "folder_mode"),
    [
        ("", 0o022, 0o640, 0o750),
        ("", 0o000, 0o640, 0o750),
        ("", 0o077, 0o600, 0o700),  # a umask may take more away
        ("0660", 0o022, 0o660, 0o770),  # the setting holds whatever the umask
        ("0600", 0o000, 0o600, 0o700),
    ],
)
def test_others_read_nothing_of_a_lake_unless_an_installation_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    umask: Callable[[int], int],
    setting: str,
    mask: int,
    file_mode: int,
    folder_mode: int,
) -> None:
    monkeypatch.setenv("LUCID_LAKE_MODE", setting)
    umask(mask)
    fill(tmp_path / "lake")
    assert modes(tmp_path / "lake") == ({file_mode}, {folder_mode})
    fill(tmp_path / "other", f"local://{tmp_path / 'other'}")  # fsspec's own local file system
    tables = list((tmp_path / "other").rglob("*.parquet"))
    assert {stat.S_IMODE(table.stat().st_mode) for table in tables} == {file_mode}


@pytest.mark.slow
def test_the_pages_of_a_validation_lie_behind_the_same_folder(
    tmp_path: Path, umask: Callable[[int], int]
) -> None:
    fill(tmp_path / "lake")
    validate_lake(lake_uri=str(tmp_path / "lake"), cluster="venus")
    for folder in ("validation", "validation/cluster=venus"):
        assert stat.S_IMODE((tmp_path / "lake" / folder).stat().st_mode) == 0o750


@pytest.mark.parametrize("setting", ["0444", "0777", "rw-r-----", "0o1640", "-1"])
def test_a_setting_that_is_no_mode_of_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("LUCID_LAKE_MODE", setting)
    with pytest.raises(BadInputError, match=f"LUCID_LAKE_MODE='{setting}' is no mode"):
        store_site(FIRST_IN_FIRST_OUT, str(tmp_path / "lake"), "venus")
