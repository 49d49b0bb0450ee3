"""Every workload of the zoo trains, here on the CPU and with tiny batches."""

from functools import partial

import pytest

from foundation.errors import BadInputError
from profiler_jobs.workloads import RECENT, ZOO, JobType
from profiler_jobs.zoo.catalogue import load_build

torch = pytest.importorskip("torch")

from profiler_jobs.zoo.llama import LlamaSize  # noqa: E402
from profiler_jobs.zoo.mixed_precision import start_momentum_at_zero  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.thorough("PyTorch")]

MODELS = {model.name: model for model in ZOO + RECENT}
CPU = torch.device("cpu")
BATCH_SIZE = 2  # the least that batch normalisation can do with
# What takes a GPU even so is built in another size, through its build's own arguments.
SMALLER = {
    "BERT": {"layers": 2},
    "Llama": {
        "size": LlamaSize(
            layers=2, width=128, heads=4, key_heads=2, feed_forward=256, vocabulary=1000, tokens=64
        )
    },
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def full_build(name):
    model = MODELS[name]
    return load_build(JobType(model, model.batch_sizes[0], model.amp_choices[0]))


def small_build(name):
    return partial(full_build(name), batch_size=BATCH_SIZE, device=CPU, **SMALLER.get(name, {}))


def parameters(training):
    return [parameter.detach().clone() for parameter in training.export_view().module.parameters()]


def same(ones, others):
    return all(torch.equal(one, other) for one, other in zip(ones, others, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_a_workload_trains_and_the_seed_decides_everything(name):
    build = partial(small_build(name), amp=MODELS[name].amp_choices[0], seed=3)
    training = build()
    before = parameters(training)
    losses = [training.step()]
    after = parameters(training)
    losses.append(training.step())
    assert all(torch.isfinite(loss) for loss in losses)
    assert losses[0] != losses[1]  # another batch, another loss
    changed = [not torch.equal(one, other) for one, other in zip(before, after, strict=True)]
    trained = [parameter.requires_grad for parameter in training.export_view().module.parameters()]
    assert any(changed)
    assert not any(moved and not learns for moved, learns in zip(changed, trained, strict=True))

    again = build()
    assert same(before, parameters(again))
    assert again.step() == losses[0]
    assert same(after, parameters(again))


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if True in model.amp_choices])
def test_a_workload_trains_with_mixed_precision(name):
    training = small_build(name)(amp=True, seed=3)
    before = parameters(training)
    assert torch.isfinite(training.step())
    assert not same(before, parameters(training))


@pytest.mark.parametrize(
    ("name", "amp"),
    [(name, amp) for name, model in MODELS.items() for amp in (False, True) if amp not in model.amp_choices],
)
def test_a_variant_that_is_not_offered_is_refused(name, amp):
    with pytest.raises(BadInputError, match=f"{name} is trained only with"):
        small_build(name)(amp=amp, seed=0)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("PPO", "TD3", "Llama")])
def test_a_step_neither_waits_for_its_device_nor_mixes_devices(name):
    """The meta device holds no values: reading one back raises, and so does a tensor left on the host.

    PPO and TD3 wait for their actions by nature; autocast, which Llama needs, knows no meta device.
    """
    training = full_build(name)(batch_size=BATCH_SIZE, amp=False, device=torch.device("meta"), seed=0)
    assert training.step().device.type == "meta"
    training.step()


@pytest.mark.parametrize("name", MODELS)
def test_an_example_is_one_of_the_batch_or_a_step_of_the_environment(name):
    training = small_build(name)(amp=MODELS[name].amp_choices[0], seed=0)
    flown = {"PPO": 4 * BATCH_SIZE, "TD3": 2}
    assert training.examples_per_step == flown.get(name, BATCH_SIZE)


def test_a_first_step_that_overflows_leaves_no_rubbish_in_the_momentum():
    # A fused SGD takes memory as it is for the momentum of a step that its scaler skips; here that is NaN.
    training = load_build(JobType(MODELS["VGG"], 32, False))(batch_size=2, amp=False, device=CPU, seed=0)
    parameters = list(training.export_view().module.parameters())
    torch.use_deterministic_algorithms(True)
    try:
        fused = torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)
        start_momentum_at_zero(fused)
        scaler = torch.amp.GradScaler("cpu")
        for factor in (float("inf"), 1.0):
            fused.zero_grad()
            scaler.scale(sum(each.sum() for each in parameters) * factor).backward()
            scaler.step(fused)
            scaler.update()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.isfinite(each).all() for each in parameters)
