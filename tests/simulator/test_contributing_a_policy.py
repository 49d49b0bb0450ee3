"""A newcomer who follows CONTRIBUTING.md, "Add a policy", to the letter gets a policy that conforms."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from simulator.conformance import ConformanceError, audited, check_in_between, sample_workload
from simulator.policy import Policy
from simulator.scenario.scenario import Scenario

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION, AGEING = TEXT.split("## Add a policy\n")[1].split("\n## ")[0].split("\n### A policy that ages\n")


def block(language: str) -> str:
    (found,) = re.findall(rf"^ *```{language}\n(.*?)^ *```$", SECTION, re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture
def package(tmp_path):
    """The page's file and entry point, as an installed package leaves them."""
    code = "".join(map(dedent, re.findall(r"^ *```python\n(.*?)^ *```$", SECTION, re.DOTALL | re.MULTILINE)))
    (tmp_path / "widest_first.py").write_text(code, encoding="utf-8")
    header, line = (part.strip() for part in block("toml").strip().splitlines())
    assert header == '[project.entry-points."lucid.parts"]'
    info = tmp_path / "widest_first-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: widest-first\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[lucid.parts]\n{line.replace(chr(34), '')}\n")
    return tmp_path


def python(package: Path, *args: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(package), str(ROOT)])
    return subprocess.run(
        [sys.executable, *args],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_the_policy_of_the_page_conforms_from_a_package_of_its_own(package):
    command = re.search(r"`python (-m simulator\.conformance \w+)`", SECTION).group(1)
    done = python(package, *command.split())
    assert done.returncode == 0, done.stderr
    assert "capacity, gangs, conservation" in done.stdout
    assert "no knowledge of the future" in done.stdout


def test_a_check_that_fails_is_one_sentence(package):
    done = python(package, "-m", "simulator.conformance", "widest")
    assert done.returncode == 1
    assert done.stdout.startswith("widest  FAILED: Unknown policy 'widest'.")
    assert done.stderr == ""
    assert python(package, "-m", "simulator.conformance").returncode == 2


def test_it_does_what_it_says(package):
    script = """
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload
jobs = tuple(Job(f"j{i}", "vc", None, gpus, float(i), 10.0, None, i) for i, gpus in enumerate((8, 1, 4, 8)))
result = simulate(Scenario(Workload(jobs, {}), ClusterSpec({"vc": 1})), "widest_first")
print(result.jobs["first_start_time_s"].tolist())
"""
    done = python(package, "-c", script)
    assert done.stdout.strip() == "[0.0, 20.0, 20.0, 10.0]", done.stderr


@pytest.fixture
def ageing() -> type[Policy]:
    (code,) = re.findall(r"^```python\n(.*?)^```$", AGEING, re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(code, names)
    policy = names["ResponseRatio"]
    assert isinstance(policy, type)
    assert issubclass(policy, Policy)
    return policy


def test_a_policy_that_ages_says_when_its_order_changes(ageing):
    scenario = Scenario(*sample_workload("gangs", seed=1))
    schedule = audited(scenario, ageing(), name="response_ratio").jobs
    check_in_between(scenario, ageing, schedule, name="response_ratio")


def test_one_that_does_not_say_is_found_out(ageing):
    silent = type("Silent", (ageing,), {"round_s": None, "next_change_s": Policy.next_change_s})
    scenario = Scenario(*sample_workload("gangs", seed=1))
    schedule = audited(scenario, silent(), name="silent").jobs
    with pytest.raises(ConformanceError, match="asked in between"):
        check_in_between(scenario, silent, schedule, name="silent")
