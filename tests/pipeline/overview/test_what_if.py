"""What the page What-if reads of a kept result, bounded, and by the rules that it states."""

import json
from pathlib import Path

import pytest

from foundation.csv_files import csv_text
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from pipeline.overview.what_if import (
    LISTED_JOBS,
    MOST_NUMBERS,
    SeenPart,
    read_csv_table,
    read_job,
    read_pictures,
    read_waits,
    read_what_ifs,
)
from tests.pipeline.what_if.what_if_results import HOSTILE, RUN_ID, keep_small_what_if


@pytest.fixture(scope="module")
def pages_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("what_if")
    keep_small_what_if(tmp_path_factory.mktemp("sweep"), folder)
    return folder


def test_past_what_ifs_say_who_asked_what(pages_dir: Path) -> None:
    (line,) = read_what_ifs(pages_dir)
    assert (line["run_id"], line["cluster"], line["asked_by"]) == (RUN_ID, "tiny", "ada")
    assert [variant["name"] for variant in line["variants"]][:2] == ["fifo", "fifo, nodes vc0 -1"]


def test_pictures_of_all_are_the_sum_of_those_of_each_virtual_cluster(pages_dir: Path) -> None:
    whole = read_pictures(pages_dir, RUN_ID, SeenPart(points=50))
    parts = [read_pictures(pages_dir, RUN_ID, SeenPart(name, points=50)) for name in ("vc0", "vc1")]
    assert len(whole["at_ms"]) == 50 <= MOST_NUMBERS
    for number, variant in enumerate(whole["variants"]):
        sums = [
            sum(values)
            for values in zip(
                *(part["variants"][number]["gpus_in_use"]["mean"] for part in parts), strict=True
            )
        ]
        assert variant["gpus_in_use"]["mean"] == pytest.approx(sums, abs=0.01)
        assert max(variant["gpus_in_use"]["most"]) <= 32
        assert variant["distribution"]["share"][-1] == 1


def test_a_part_of_the_time_is_seen_closer(pages_dir: Path) -> None:
    whole = read_pictures(pages_dir, RUN_ID, SeenPart(points=10))
    seconds = [(at - whole["origin_ms"]) / 1_000 for at in whole["at_ms"]]
    close = read_pictures(pages_dir, RUN_ID, SeenPart(from_s=seconds[2], until_s=seconds[3], points=10))
    assert close["at_ms"][0] == whole["at_ms"][2]
    wide, narrow = (each["variants"][0]["waiting_jobs"] for each in (whole, close))
    assert max(narrow["most"]) == wide["most"][2]
    assert min(narrow["least"]) == wide["least"][2]


@pytest.mark.parametrize("change", [{"points": 1}, {"points": 10**6}, {"from_s": 5.0, "until_s": 5.0}])
def test_a_part_that_cannot_be_drawn_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(BadInputError):
        SeenPart(**change)


def test_names_that_are_not_there_are_refused(pages_dir: Path) -> None:
    with pytest.raises(UnknownNameError, match="virtual cluster"):
        read_pictures(pages_dir, RUN_ID, SeenPart("nowhere"))
    with pytest.raises(UnknownNameError, match="variant"):
        read_waits(pages_dir, RUN_ID, "lifo")
    with pytest.raises(UnknownNameError, match="job"):
        read_job(pages_dir, RUN_ID, 10**9)
    with pytest.raises(UnknownNameError, match="table"):
        read_csv_table(pages_dir, RUN_ID, "passwords")
    with pytest.raises(NotFoundError, match="No result is kept"):
        read_pictures(pages_dir, "../../etc/passwd", SeenPart())


def test_the_longest_waits_and_why(pages_dir: Path) -> None:
    seen = read_waits(pages_dir, RUN_ID, "fifo, nodes vc0 -1", "vc0")
    waits = [job["wait_s"] for job in seen["jobs"]]
    assert len(waits) <= LISTED_JOBS
    assert waits == sorted(waits, reverse=True)
    assert max(job["wait_s"] for job in seen["spans"]) == waits[0]
    assert {job["virtual_cluster"] for job in seen["jobs"]} == {"vc0"}
    longest = seen["jobs"][0]
    told = read_job(pages_dir, RUN_ID, longest["row"])
    assert told["job"]["job_id"] == longest["job_id"]
    mine = next(each for each in told["variants"] if each["name"] == "fifo, nodes vc0 -1")
    assert mine["wait_s"] == longest["wait_s"]
    assert sum(mine["causes_s"].values()) == pytest.approx(mine["wait_s"])
    assert mine["sentences"][0].startswith(f"{longest['job_id']} (")
    assert mine["ran_gpus"] <= 8
    # Under FIFO no job overtakes: those waiting at its submission were ahead of it.
    assert any(f"{mine['waited_jobs']:,} job" in line for line in mine["sentences"])


def test_a_job_is_looked_for_by_its_id_or_user(pages_dir: Path) -> None:
    assert [job["user"] for job in read_waits(pages_dir, RUN_ID, "fifo", text=HOSTILE)["jobs"]] == [HOSTILE]
    assert read_waits(pages_dir, RUN_ID, "fifo", text=".*")["matching"] == 0


def test_tables_to_download_are_no_formulas(pages_dir: Path) -> None:
    jobs = csv_text(read_csv_table(pages_dir, RUN_ID, "jobs"))
    assert f"'{HOSTILE}" in jobs
    assert f",{HOSTILE}" not in jobs
    assert len(read_csv_table(pages_dir, RUN_ID, "variants")) == 4
    assert len(read_csv_table(pages_dir, RUN_ID, "virtual-clusters")) == 8


def test_what_is_read_is_json(pages_dir: Path) -> None:
    for seen in (
        read_pictures(pages_dir, RUN_ID, SeenPart()),
        read_waits(pages_dir, RUN_ID, "lucid"),
        read_job(pages_dir, RUN_ID, 7),
    ):
        json.dumps(seen, allow_nan=False)
