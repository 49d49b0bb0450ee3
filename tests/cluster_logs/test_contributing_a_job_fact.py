"""Whoever follows CONTRIBUTING.md, "Add a job fact", to the letter gets a fact that all parts know."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.thorough("a copy of the tree is changed as CONTRIBUTING says")]

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Add a job fact\n")[1]
SECTION = SECTION.split("\n## ")[0]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages in which the page's steps were taken: entries in two lists."""
    copy = tmp_path_factory.mktemp("tree")
    for package in (file.parent for file in ROOT.glob("*/__init__.py")):
        shutil.copytree(package, copy / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    (facts,) = re.findall(r"^ *\.\.\.,\n(.*?)^ *\.\.\.,$", SECTION, re.DOTALL | re.MULTILINE)
    entry(copy, "cluster_logs/job_facts.py", r"^    JobFact\(\n        \"gpus\"", textwrap.dedent(facts))
    path, table = "lucid_models/duration/job_columns.py", "PLAIN_FACTS"
    assert f"`{table}` of `{path}`" in SECTION
    (line,) = re.findall(r'`("log_think_time": [^`]+)`', SECTION)
    entry(copy, path, rf"(?<={table} = {{\n)", f"{line}\n", last=True)
    return copy


def entry(copy: Path, path: str, before: str, text: str, *, last: bool = False) -> None:
    """Put lines before the pattern, or at the end of the mapping that begins there."""
    file = copy / path
    code = file.read_text(encoding="utf-8")
    found = re.search(before, code, re.MULTILINE)
    assert found, path
    at = code.index("\n}\n", found.start()) + 1 if last else found.start()
    file.write_text(code[:at] + textwrap.indent(text, "    ") + code[at:], encoding="utf-8")


def run(tree: Path, script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readers_the_lake_and_the_live_side_know_it(tree: Path) -> None:
    script = """
from pathlib import Path
from cluster_logs.ingest import ingest_log, read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.slurm_words import DEFAULT_FIELDS
from live_scheduler.ranking import check_queue
from live_scheduler.service.live_messages import live_job
from live_scheduler.service.schema import Job
from live_scheduler.slurm.ended_jobs import _FIELDS
from live_scheduler.slurm.queue_reading import QUEUE_FIELDS

Path("log.txt").write_text(
    "JobIDRaw|Partition|State|Submit|Start|End|AllocTRES|Reservation\\n"
    "1|vc1|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|gres/gpu=2|night\\n"
)
ingest_log(source_format="sacct", input_uri="log.txt", cluster="c", lake_uri="lake")
assert Lake("lake").read_jobs("c")["reservation"].tolist() == ["night"]
Path("log.swf").write_text(
    "1 0 0 60 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 2048\\n2 0 0 60 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -7\\n"
)
jobs, report = read_jobs_file("log.swf", "swf")
assert jobs["think_time_s"].fillna(-1).tolist() == [2048.0, -1]
assert report.reasons == {} and report.unknown_values == {"think_time_s": 1}

assert DEFAULT_FIELDS[-1] == "reservation" and "reservation" in _FIELDS and "Reservation" in QUEUE_FIELDS
(job,) = check_queue([{"job_id": 1, "gpus": 1, "submit_time": 0, "reservation": "night", "think_time_s": 5}])
assert (job["reservation"], job["think_time_s"]) == ("night", 5)
told = {"reservation": "night", "think_time_s": "5.0"}
pushed = Job(job_id="1", virtual_cluster="vc1", gpus=1, submit_time_s=1e9, facts=told)
assert live_job(pushed).other_facts == {"reservation": "night", "think_time_s": 5.0}
assert {name: str(fact) for name, fact in live_job(pushed).other_facts.items()} == told
"""
    run(tree, script)


def test_digests_of_jobs_without_it_stay_as_they_were(tree: Path) -> None:
    script = """
from pathlib import Path
from cluster_logs.ingest import read_jobs_file
from cluster_logs.job_table import to_digest
from foundation.run_manifest import frame_sha256

Path("plain.swf").write_text("1 0 0 60 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1\\n")
print(frame_sha256(to_digest(read_jobs_file("plain.swf", "swf")[0])))
"""
    assert run(tree, script) == run(ROOT, script.replace("plain.swf", str(tree / "plain.swf")))


def test_the_duration_model_reads_it(tree: Path) -> None:
    script = """
import numpy as np
from cluster_logs.synthetic.generator import synthesize
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel, job_mappings
from lucid_models.duration.reasons import _describe
from lucid_models.duration.scorer import DurationScorer
from lucid_models.explanation.axes import feature_axis
from lucid_models.serving_frames import DURATION
from pipeline.monitoring.drift import LEVELS, NUMBERS

jobs = synthesize("helios-venus", days=2, seed=1).jobs.iloc[:400].reset_index(drop=True)
nights = np.random.default_rng(0).random(400) < 0.5
jobs["reservation"] = np.where(nights, "night", "day")
jobs["duration_s"] = np.where(nights, 9_000.0, 30.0)
jobs["end_time"] = jobs["start_time"] + np.where(nights, np.timedelta64(9_000, "s"), np.timedelta64(30, "s"))
jobs["think_time_s"] = np.arange(400.0)
model = WorkloadEstimateModel(DurationSettings()).fit(jobs)
names = model.scorer.state.names
assert "reservation:mean" in names and "log_think_time" in names
assert DURATION.inputs["reservation"] == ("string", False)
assert DURATION.inputs["think_time_s"] == ("double", False)
assert "reservation" in LEVELS and "think_time_s" in NUMBERS
assert feature_axis("log_think_time").label == "think time"
words, _ = _describe("log_think_time", {"log_think_time": np.log1p(2048.0)})
assert words == "its think time (2,048 s)"
twin = DurationScorer.from_data(model.scorer.to_data())
queue = job_mappings(jobs.iloc[:5])
assert np.array_equal(twin.predict(queue), model.scorer.predict(queue))
"""
    run(tree, script)
