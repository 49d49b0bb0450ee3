"""The catalogue of the zoo can be read without PyTorch, and says what is missing when a workload trains."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from foundation.errors import UnknownNameError
from profiler_jobs.workloads import (
    RECENT,
    ZOO,
    JobType,
    TrainingModel,
    all_job_types,
    find_job_type,
    list_job_types,
)
from profiler_jobs.zoo.catalogue import MODULES, load_build


def test_every_model_has_a_module():
    assert set(MODULES) == {model.name for model in ZOO + RECENT}
    assert len(set(MODULES.values())) == len(MODULES)
    assert all(find_spec(f"profiler_jobs.zoo.{module}") for module in MODULES.values())


def test_todays_workloads_stand_beside_table_1():
    assert all_job_types()[:66] == list_job_types()
    assert [job_type.name for job_type in all_job_types()[66:]] == [
        "Llama/Instructions/4/1",
        "Llama/Instructions/8/1",
    ]
    assert find_job_type("Llama/Instructions/8/1").batch_size == 8


def test_an_unknown_model_is_named_with_those_that_are_known():
    model = TrainingModel("GPT", "Web", "", (1,), (True,), 1, 1, 1, 1, 1, 1, 1)
    with pytest.raises(UnknownNameError, match=r"'GPT'.*NeuMF"):
        load_build(JobType(model, 1, True))


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_reading_the_catalogue_imports_no_pytorch():
    done = run("import sys, profiler_jobs.zoo.catalogue; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_training_without_pytorch_says_what_to_install():
    done = run(
        "import sys; sys.modules['torch'] = None\n"
        "from profiler_jobs.workloads import find_job_type\n"
        "from profiler_jobs.zoo.catalogue import load_build\n"
        "load_build(find_job_type('VGG/CIFAR-10/32/0'))"
    )
    assert "BadInputError: Training a workload needs PyTorch, which is not installed." in done.stderr
