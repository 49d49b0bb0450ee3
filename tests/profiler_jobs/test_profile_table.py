"""Profile files: the published layout, our own, and what is wrong with a bad one."""

import gzip
from pathlib import Path

import pandas as pd
import pytest

from foundation.errors import BadInputError, NotFoundError
from profiler_jobs.campaign import measure_simulated_profiles
from profiler_jobs.profile_table import (
    PAIR_SCHEMA,
    PROFILE_SCHEMA,
    load_solo_profiles,
    read_pair_profiles,
    read_solo_profiles,
    write_profiles,
)
from tests.reference import ROOT

SOLO_HEADER = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label\n"
SOLO_ROW = "ResNet50,ImageNet,64,1,700.5,97.5,70.25,5400,2\n"
PAIR = (
    ",model1,dataset1,gpu_num1,batchsize1,amp1,speed1,model2,dataset2,gpu_num2,batchsize2,amp2,speed2,"
    "gpu_util,gmem_util,gmem\n0,PPO,LunarLander,1,32,0,0.99,VGG,CIFAR-10,1,64,1,1.03,64.5,29.5,5106\n"
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_published_solo_layout(tmp_path: Path) -> None:
    table = read_solo_profiles(write(tmp_path / "solo.csv", SOLO_HEADER + SOLO_ROW), device="card")
    assert table.columns.tolist() == PROFILE_SCHEMA.names
    row = table.iloc[0]
    assert row.job_type == "ResNet50/ImageNet/64/1"
    assert (row.speed, row.gpu_util_pct, row.gpu_mem_util_pct, row.gpu_mem_mib) == (
        700.5,
        97.5,
        70.25,
        5400.0,
    )
    assert (row.device, bool(row.simulated)) == ("card", False)


def test_published_pair_layout_in_gzip(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv.gz"
    path.write_bytes(gzip.compress(PAIR.encode()))
    table = read_pair_profiles(path)
    assert table.columns.tolist() == PAIR_SCHEMA.names
    row = table.iloc[0]
    assert (row.job_type_1, row.job_type_2) == ("PPO/LunarLander/32/0", "VGG/CIFAR-10/64/1")
    assert (row.speed_1, row.speed_2, row.gpu_mem_mib) == (0.99, 1.03, 5106.0)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (",ImageNet,64,1,700,97,70,5400,2\n", "model is missing"),
        ("A,B,64,1,,97,70,5400,2\n", "speed is ''"),
        ("A,B,64,1,nan,97,70,5400,2\n", "speed is 'nan'"),
        ("A,B,64,1,inf,97,70,5400,2\n", "speed is 'inf'"),
        ("A,B,64,1,-3,97,70,5400,2\n", "speed is '-3'"),
        ("A,B,64,1,700,101,70,5400,2\n", "gpu_util_pct is '101'"),
        ("A,B,64,1,700,97,-1,5400,2\n", "gpu_mem_util_pct is '-1'"),
        ("A,B,64,1,700,97,70,0,2\n", "gpu_mem_mib is '0'"),
        ("A,B,x,1,700,97,70,5400,2\n", "batch_size is 'x'"),
        ("A,B,64.5,1,700,97,70,5400,2\n", "batch_size is not a whole number"),
        ("A,B,64,yes,700,97,70,5400,2\n", "amp is neither 0 nor 1"),
        (SOLO_ROW, "configuration measured twice"),
    ],
)
def test_bad_row_is_named_and_accounted_for(tmp_path: Path, row: str, reason: str) -> None:
    path = write(tmp_path / "solo.csv", SOLO_HEADER + SOLO_ROW + row)
    with pytest.raises(BadInputError, match="1 of 2 rows cannot be used; the first is row 2") as error:
        read_solo_profiles(path)
    assert reason in str(error.value)
    reading = load_solo_profiles(path)
    assert reading.rows_in == len(reading.table) + len(reading.rejected) == 2
    assert reading.rejected.source_row.tolist() == [2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (SOLO_HEADER.encode(), "no rows"),
        ((SOLO_HEADER + SOLO_ROW).replace(",", ";").encode(), "delimiter"),
        (SOLO_HEADER.encode() + b"R\xff,ImageNet,64,1,700,97,70,5400,2\n", "not UTF-8"),
    ],
)
def test_unusable_file_is_a_clear_error(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "solo.csv"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=words):
        read_solo_profiles(path)


def test_truncated_gzip_and_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv.gz"
    path.write_bytes(gzip.compress((PAIR * 50).encode())[:-20])
    with pytest.raises(BadInputError, match="cannot be read"):
        read_pair_profiles(path)
    with pytest.raises(NotFoundError):
        read_pair_profiles(tmp_path / "nothing.csv")


@pytest.mark.slow
def test_own_layout_survives_the_round_trip(tmp_path: Path) -> None:
    profiles = measure_simulated_profiles(3)
    solo, pairs = write_profiles(profiles, tmp_path)
    pd.testing.assert_frame_equal(read_solo_profiles(solo), profiles.solo)
    pd.testing.assert_frame_equal(read_pair_profiles(pairs), profiles.pairs)


@pytest.mark.reference
def test_published_tables_are_read_whole() -> None:
    folder = ROOT / "data" / "packing"
    solo = read_solo_profiles(folder / "single_jobs_rtx3090.csv")
    pairs = read_pair_profiles(folder / "colocated_pairs_rtx3090.csv")
    assert (len(solo), len(pairs)) == (66, 1388)
    assert set(pairs.job_type_1) | set(pairs.job_type_2) <= set(solo.job_type)
