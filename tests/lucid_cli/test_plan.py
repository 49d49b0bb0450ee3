"""`lucid plan` from a shell: its JSON, and that every row is what its command says."""

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from tests.command_line import Lucid
from tests.fixtures import small_jobs

NAMES = ("<script>alert(1)</script>", '=HYPERLINK("x")', "../../etc/passwd")


def write_log(folder: Path) -> tuple[str, ...]:
    """A log whose virtual clusters have nasty names, and its nodes; returns the options that name them."""
    frame = small_jobs(300)
    first = frame["submit_time"].min()
    with (folder / "jobs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ("job_id", "virtual_cluster", "gpus", "submit_time", "duration_s", "estimated_duration_s")
        )
        for i, job in enumerate(frame.itertuples()):
            submit_s = (job.submit_time - first).total_seconds()
            rows.writerow((i, NAMES[i % 3], job.gpus, submit_s, job.duration_s, job.duration_s))
    with (folder / "nodes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("virtual_cluster", "nodes"), *((name, 9) for name in NAMES)])
    return ("--jobs", "jobs.csv", "--format", "reference-csv")


@pytest.fixture(scope="module")
def mlflow_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What MLflow keeps is kept in one file, whose tables take seconds to make."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


def repeated(lucid: Lucid, row: dict[str, Any]) -> dict[str, Any]:
    words = shlex.split(row["command"])
    assert words[:2] == ["lucid", "simulate"]
    said = lucid(*words[1:], "--json")
    assert said.code == 0, said.err
    (summary,) = said.json
    return dict(summary)


@pytest.mark.parametrize(
    ("size", "more"),
    [
        (("--nodes", "nodes.csv"), ("--workers", "2")),
        (("--gpus", "160"), ("--policy", "sjf")),
    ],
)
def test_each_row_of_the_front_is_what_its_command_gives(
    lucid: Lucid,
    tmp_path: Path,
    size: tuple[str, ...],
    more: tuple[str, ...],
) -> None:
    check_front(lucid, tmp_path, *size, *more)


def check_front(lucid: Lucid, tmp_path: Path, *options: str) -> None:
    """Plan a log, and repeat rows of the front and the first answer by their commands."""
    asked = (*write_log(tmp_path), *options, "--limit-s", "300", "--points", "3", "--out", "plan")
    said = lucid("plan", *asked, "--json")
    assert said.code == 0, said.err
    document = said.json
    assert document["metric"] == "p95"
    assert {"nodes", "p95_wait_s", "low", "high", "kwh", "command"} <= document["front"][0].keys()
    for row in (*document["front"][::6], document["questions"][0]):
        summary = repeated(lucid, row)
        assert summary["p95_queuing_delay_s"] == row["p95_wait_s"]
        if "mean_wait_s" in row:
            assert summary["mean_queuing_delay_s"] == row["mean_wait_s"]
    fewer = document["questions"][0]["fewer"]
    assert repeated(lucid, fewer)["p95_queuing_delay_s"] == fewer["p95_wait_s"] > 300
    page = (tmp_path / "plan" / "index.html").read_text()
    assert "var(--series-1)" in page
    assert NAMES[0] not in page
    assert "\n=HYPER" not in (tmp_path / "plan" / "questions.csv").read_text().replace(",=HYPER", "\n=HYPER")
    with (tmp_path / "plan" / "front.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(document["front"])
    assert json.loads((tmp_path / "plan" / "plan.json").read_text())["front"] == document["front"]


def test_a_cluster_of_the_lake(lucid: Lucid, tmp_path: Path, mlflow_file: str) -> None:
    import pandas as pd

    lake = Lake(str(tmp_path / "lake"))
    lake.write_jobs("tiny", small_jobs(200))
    nodes = {"virtual_cluster": ["vc"], "nodes": [3], "gpus_per_node": [8], "date": [None]}
    lake.write_nodes("tiny", pd.DataFrame(nodes))
    kept = ("--tracking-uri", mlflow_file)
    said = lucid("plan", "--cluster", "tiny", "--lake", "lake", *kept, "--points", "2", "--json")
    assert said.code == 0, said.err
    assert said.json["policy"] == "fifo"  # there is no release
    first = said.json["questions"][0]
    assert repeated(lucid, first)["p95_queuing_delay_s"] == first["p95_wait_s"]


def test_people_see_answers_and_the_front(lucid: Lucid, tmp_path: Path) -> None:
    said = lucid("plan", *write_log(tmp_path), "--nodes", "nodes.csv", "--points", "2", "--cluster-only")
    assert said.code == 0, said.err
    for words in ("nodes of the cluster keep the P95 wait at 600 s", "The front", "lucid simulate"):
        assert words in said.out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--nodes", "nodes.csv", "--metric", "p42"), "metric of waits 'p42'"),
        (("--nodes", "nodes.csv", "--policy", "best"), "'best'"),
        (("--nodes", "nodes.csv", "--setting", "lucid.gss=2"), "but the plan runs 'fifo'"),
        (("--nodes", "nodes.csv", "--start", "2050-01-01"), "No job was submitted"),
        (("--nodes", "none.csv"), "is not a file"),
        ((), "size is not clear"),
    ],
)
def test_bad_input_is_one_line(lucid: Lucid, tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    said = lucid("plan", *write_log(tmp_path), *options, "--out", "plan")
    assert (said.code, said.out) == (1, "")
    assert why in said.err.splitlines()[-1]
