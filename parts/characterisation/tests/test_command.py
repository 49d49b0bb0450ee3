"""`lucid characterise`: what it says, writes and refuses."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import Lucid

HEADER = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)
HOSTILE = ("<script>alert(1)</script>", '=HYPERLINK("x")', "$\\frac{1}{2}$", "../../etc/passwd")


@pytest.fixture
def hostile_log(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(HEADER.split(","))
        for number, name in enumerate(HOSTILE):
            day = f"2020-0{4 + number % 2}-0{1 + number} "
            times = [day + clock for clock in ("00:00:00", "00:10:00", "01:00:00")]
            rows.writerow([number, name, name, "a", number, 4, 1, "COMPLETED", *times, 3_000, 600])
    return path


def test_a_log_of_hostile_names(lucid: Lucid, hostile_log: Path, tmp_path: Path) -> None:
    nodes, out = tmp_path / "nodes.csv", tmp_path / "out"
    with nodes.open("w", newline="") as file:
        csv.writer(file).writerows([("virtual_cluster", "nodes"), *((name, 1) for name in HOSTILE)])
    asked = ("--jobs", hostile_log, "--format", "helios", "--nodes", nodes, "--out", out)
    document = lucid("characterise", *asked, "--json").json
    assert set(document) >= {"figures", "tables", "implications", "dropped", "numbers", "summary"}
    assert {"fig1a", "fig1b", "fig2a", "fig2b", "fig3", "fig4", "fig5a", "fig5b", "fig6a", "fig6b"} <= set(
        document["figures"]
    )
    assert {"table1", "table2", "table3", "table4"} <= set(document["tables"])
    assert [each["number"] for each in document["implications"]] == [1, 2, 3, 4, 5, 6, 7]
    assert all(set(each) >= {"value", "rule", "holds"} for each in document["implications"])
    assert len(document["summary"]) == 10
    for sentence in document["summary"]:
        assert set(sentence["keys"]) <= set(document["numbers"])
    counts = ("submissions.gpu_jobs", "submissions.busiest_hour", "sizes.max_gpus")
    assert all(type(document["numbers"][name]) is int for name in counts)
    assert json.loads((out / "report.json").read_text())["figures"] == document["figures"]
    page = (out / "index.html").read_text()
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page)
    assert "prefers-color-scheme:dark" in page
    for name in [*document["figures"], *document["tables"]]:
        assert (out / f"{name}.csv").is_file()
    assert "'=HYPERLINK" in (out / "by_user.csv").read_text()
    light, dark = ((out / f"fig4{theme}.svg").read_text() for theme in ("", "-dark"))
    assert light != dark
    assert "var(" not in light + dark


@pytest.mark.thorough("a second process")
def test_the_same_log_gives_the_same_bytes(lucid: Lucid, hostile_log: Path, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    asked = ("characterise", "--jobs", hostile_log, "--format", "helios", "--out")
    lucid(*asked, folders[0])
    # A process of its own, in which sets have another order.
    command = [sys.executable, "-m", "lucid_cli", *map(str, asked), str(folders[1])]
    subprocess.run(command, env={**os.environ, "LUCID_TRACKING_URI": "", "PYTHONHASHSEED": "7"}, check=True)
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nothing to characterise"),
        (("--jobs", "jobs.csv"), "--format"),
        (("--cluster", "venus", "--jobs", "jobs.csv"), "--cluster reads the lake"),
        (("--sequence", "none.csv"), "not a file"),
    ],
)
def test_questions_that_cannot_be_answered(
    lucid: Lucid, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    said = lucid("characterise", *words, "--out", tmp_path / "out")
    assert said.code == 1
    assert says in said.err
    assert not (tmp_path / "out").exists()


def test_jobs_of_the_lake_without_starts_use_the_nodes_that_were_counted(
    lucid: Lucid, tmp_path: Path
) -> None:
    jobs, nodes, lake = tmp_path / "jobs.csv", tmp_path / "nodes.csv", tmp_path / "lake"
    rows = ["timestamp,duration,num_gpus,gpu_time,cluster", "2017-10-09 07:00:00,60.0,1,60.0,vc"]
    jobs.write_text("\n".join(rows) + "\n")
    minutes = [f"2017-10-09 {hour:02}:{minute:02}:00,5,20" for hour in range(24) for minute in range(60)]
    nodes.write_text("\n".join(["time,busy,total", *minutes]) + "\n")
    here = ("--cluster", "mine", "--lake", lake)
    lucid("ingest", "--format", "philly-csv", "--input", jobs, "--time-zone", "UTC", *here)
    asked = ("characterise", *here, "--out", tmp_path / "out", "--json")
    assert "utilisation.mean_pct" not in lucid(*asked).json["numbers"]
    lucid("ingest", "--format", "node-sequence", "--input", nodes, *here)
    assert lucid(*asked).json["numbers"]["utilisation.mean_pct"] == pytest.approx(25)
