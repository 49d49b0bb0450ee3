"""On a machine with a GPU, every workload trains there in its smallest batch and never waits for it."""

import pytest

from profiler_jobs.workloads import RECENT, ZOO, JobType
from profiler_jobs.zoo.catalogue import load_build

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.thorough("PyTorch"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"),
]

SMALLEST = [JobType(model, model.batch_sizes[0], amp) for model in ZOO + RECENT for amp in model.amp_choices]
WAITS_FOR_ACTIONS = ("PPO", "TD3")


@pytest.mark.parametrize("job_type", SMALLEST, ids=lambda job_type: job_type.name)
def test_a_workload_trains_on_the_gpu(job_type):
    device = torch.device("cuda")
    training = load_build(job_type)(batch_size=job_type.batch_size, amp=job_type.amp, device=device, seed=0)
    parameters = list(training.export_view().module.parameters())
    before = [parameter.detach().clone() for parameter in parameters]
    training.step()  # libraries set themselves up
    torch.cuda.set_sync_debug_mode("default" if job_type.model.name in WAITS_FOR_ACTIONS else "error")
    try:
        losses = [training.step() for _ in range(10)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert {parameter.device.type for parameter in parameters} == {"cuda"}
    assert all(torch.isfinite(loss) for loss in losses)
    assert not all(torch.equal(one, other) for one, other in zip(before, parameters, strict=True))
