"""A device by its name."""

import pytest

from foundation.errors import BadInputError, ServiceUnavailableError
from profiler_jobs.devices import opening
from profiler_jobs.devices.device import DeviceKind
from profiler_jobs.devices.opening import open_device


@pytest.mark.parametrize(("name", "seed"), [("simulated", 0), ("simulated:7", 7)])
def test_the_simulated_gpu_needs_nothing(name, seed):
    device = open_device(name)
    assert device.description.kind is DeviceKind.SIMULATED
    assert device.description.driver == f"simulation, seed {seed}"


@pytest.mark.thorough("PyTorch")
def test_the_processor_is_opened_with_pytorch():
    pytest.importorskip("torch")
    assert open_device("cpu").description.kind is DeviceKind.CPU


@pytest.mark.parametrize("name", ["gpu", "", "-1", "simulated:x", "cpu:1", "0,1"])
def test_other_names_are_refused_with_those_that_are_known(name):
    with pytest.raises(BadInputError, match=r"simulated:(SEED|7)"):
        open_device(name)


@pytest.mark.parametrize("name", ["cpu", "0", "GPU-00000000-0000-0000-0000-000000000000"])
def test_without_pytorch_the_remedy_is_named(name, monkeypatch):
    monkeypatch.setattr(opening, "find_spec", lambda _: None)
    with pytest.raises(ServiceUnavailableError, match="Install a build"):
        open_device(name)
