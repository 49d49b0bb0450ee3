"""Every policy still schedules a small workload as it did when its result was blessed (`make golden`)."""

import json

import pytest

from tests.golden import bless


@pytest.mark.parametrize(("policy", "rules"), bless.cases())
def test_schedule_is_the_blessed_one(policy, rules):
    path = bless.path_of(policy, rules)
    assert path.exists(), f"{path.name} is not blessed yet: make golden"
    blessed = json.loads(path.read_text(encoding="utf-8"))
    now = json.loads(bless.dumped(bless.golden(policy, rules)))
    assert now["summary"] == pytest.approx(blessed["summary"])
    moved = {
        job: (row, now["jobs"].get(job))
        for job, row in blessed["jobs"].items()
        if now["jobs"].get(job) != row
    }
    assert not moved, f"{len(moved)} jobs moved, (blessed, now): {dict(list(moved.items())[:5])}"


@pytest.mark.parametrize("path", bless.beside_policies(), ids=lambda path: path.stem)
def test_a_case_of_a_part_goes_as_blessed(path):
    blessed = json.loads(path.read_text(encoding="utf-8"))
    now = json.loads(bless.dumped(bless.beside_policies()[path]()))
    assert now["summary"] == pytest.approx(blessed["summary"])
    assert now["jobs"] == blessed["jobs"]


def test_the_blessed_cases_exercise_the_mechanisms():
    summaries = {
        (policy, rules): json.loads(bless.path_of(policy, rules).read_text())["summary"]
        for policy, rules in bless.cases()
    }
    assert summaries["srtf", "default"]["preemptions"] > 0
    assert summaries["tiresias", "lucid-artifact"]["preemptions"] > 0
    assert summaries["lucid", "default"]["colocated_jobs"] > 0
    assert summaries["lucid", "default"]["profiled_jobs"] > 0
    assert summaries["qssf", "default"] != summaries["fifo", "default"]
