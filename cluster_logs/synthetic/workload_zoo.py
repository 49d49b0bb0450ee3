"""The training workloads of Lucid's evaluation and what each asks of a GPU.

The list of models, data sets, batch sizes and mixed precision (AMP) is Table 1 of Lucid (ASPLOS '23). What a
workload asks of a GPU is a small model of one training step, with a handful of parameters per model:

    host_ms   = host_ms_per_step + host_ms_per_sample x batch        (input pipeline, kernel launches)
    device_ms = device_ms_per_step + device_ms_per_sample x batch    (kernels on the GPU)
    step_ms   = (host_ms^4 + device_ms^4)^(1/4)                      (they overlap; the longer dominates)
    GPU utilisation    = device_ms / step_ms
    memory utilisation = GPU utilisation x the share of kernel time that moves memory (grows with the batch)
    memory             = fixed_mib + mib_per_sample x batch

The parameters are round numbers chosen so that a 24-GiB card of the RTX 3090's class shows the utilisation,
speed and memory that public measurements of these models show; they are not measurements.
"""

from dataclasses import dataclass
from functools import cached_property

# Mixed precision: tensor cores shorten the kernels, casts and loss scaling lengthen the host's part, and
# activations are kept in half the bytes while weights stay whole.
_AMP_DEVICE_PER_SAMPLE = 0.62
_AMP_HOST_PER_STEP = 1.2
_AMP_DEVICE_PER_STEP = 1.1
_AMP_MIB_PER_SAMPLE = 0.56
# How sharply the longer of host and device time dominates a step.
OVERLAP_NORM = 4.0
# Batch size at which kernels reach half of their memory traffic.
_HALF_TRAFFIC_BATCH = 24.0


@dataclass(frozen=True)
class TrainingModel:
    """One row of Table 1: a model on a data set, and the cost of its training step in fp32 (ms, MiB)."""

    name: str
    dataset: str
    task: str
    batch_sizes: tuple[int, ...]
    amp_choices: tuple[bool, ...]
    host_ms_per_step: float
    host_ms_per_sample: float
    device_ms_per_step: float
    device_ms_per_sample: float
    memory_traffic: float  # share of kernel time that reads or writes memory, for a large batch
    fixed_mib: float  # CUDA context, weights, gradients, optimizer state, workspaces
    mib_per_sample: float  # activations


@dataclass(frozen=True)
class JobType:
    """One configuration that can be run: a model with a batch size, with or without AMP."""

    model: TrainingModel
    batch_size: int
    amp: bool

    @cached_property
    def name(self) -> str:
        """Return `model/dataset/batch_size/amp`, e.g. `ResNet50/ImageNet/64/1`."""
        return f"{self.model.name}/{self.model.dataset}/{self.batch_size}/{int(self.amp)}"

    @property
    def host_ms(self) -> float:
        """Return the host's part of a step in milliseconds."""
        per_step = self.model.host_ms_per_step * (_AMP_HOST_PER_STEP if self.amp else 1.0)
        return per_step + self.model.host_ms_per_sample * self.batch_size

    @property
    def device_ms(self) -> float:
        """Return the GPU's part of a step in milliseconds, when the job has the GPU for itself."""
        per_step = self.model.device_ms_per_step * (_AMP_DEVICE_PER_STEP if self.amp else 1.0)
        per_sample = self.model.device_ms_per_sample * (_AMP_DEVICE_PER_SAMPLE if self.amp else 1.0)
        return per_step + per_sample * self.batch_size

    @property
    def step_ms(self) -> float:
        """Return the time of one step in milliseconds, alone on the GPU."""
        return step_time_ms(self.host_ms, self.device_ms)

    @property
    def speed(self) -> float:
        """Return samples per second, alone on the GPU."""
        return 1000.0 * self.batch_size / self.step_ms

    @property
    def gpu_util_pct(self) -> float:
        """Return the share of time in which a kernel runs, in percent."""
        return 100.0 * self.device_ms / self.step_ms

    @property
    def gpu_mem_util_pct(self) -> float:
        """Return the share of time in which memory is read or written, in percent."""
        return self.gpu_util_pct * self.memory_traffic

    @property
    def memory_traffic(self) -> float:
        """Return the share of kernel time that moves memory, in [0, 1]."""
        return self.model.memory_traffic * self.batch_size / (self.batch_size + _HALF_TRAFFIC_BATCH)

    @property
    def gpu_mem_mib(self) -> float:
        """Return the memory footprint in MiB."""
        per_sample = self.model.mib_per_sample * (_AMP_MIB_PER_SAMPLE if self.amp else 1.0)
        return self.model.fixed_mib + per_sample * self.batch_size


def step_time_ms(host_ms: float, device_ms: float) -> float:
    """Return the time of a step with host and device parts that overlap."""
    return float((host_ms**OVERLAP_NORM + device_ms**OVERLAP_NORM) ** (1.0 / OVERLAP_NORM))


_ALL = (32, 64, 128)
_BOTH = (False, True)
_FP32 = (False,)

# Table 1 of Lucid, in its order; names as the published profiles write them (VGG is VGG-11).
ZOO: tuple[TrainingModel, ...] = (
    TrainingModel(
        "ResNet50", "ImageNet", "image classification", _ALL, _BOTH, 30.0, 0.1, 8.0, 2.1, 0.98, 3000, 80
    ),
    TrainingModel(
        "MobileNetV3", "ImageNet", "image classification", _ALL, _BOTH, 25.0, 0.0, 2.5, 0.28, 0.75, 2100, 18
    ),
    TrainingModel(
        "ResNet18", "CIFAR-10", "image classification", _ALL, _BOTH, 16.0, 0.01, 5.0, 0.15, 0.80, 2150, 8
    ),
    TrainingModel(
        "MobileNetV2", "CIFAR-10", "image classification", _ALL, _BOTH, 28.0, 0.0, 4.5, 0.24, 0.75, 2000, 16
    ),
    TrainingModel(
        "EfficientNet", "CIFAR-10", "image classification", _ALL, _BOTH, 37.0, 0.0, 7.0, 0.075, 0.40, 2200, 3
    ),
    TrainingModel(
        "VGG", "CIFAR-10", "image classification", _ALL, _BOTH, 6.0, 0.09, 2.5, 0.05, 0.75, 3000, 6
    ),
    TrainingModel("DCGAN", "LSUN", "image generation", _ALL, _BOTH, 17.0, 0.03, 3.5, 0.17, 0.52, 2100, 7),
    TrainingModel(
        "PointNet",
        "ShapeNet",
        "point cloud classification",
        _ALL,
        _BOTH,
        18.0,
        7.0,
        5.0,
        0.55,
        0.98,
        1950,
        66,
    ),
    TrainingModel("BERT", "SQuAD", "question answering", (32,), _BOTH, 60.0, 0.3, 12.0, 11.2, 1.0, 7600, 390),
    TrainingModel(
        "LSTM", "Wikitext2", "language modeling", (64, 128), _BOTH, 6.0, 0.13, 3.0, 0.18, 0.98, 2150, 27
    ),
    TrainingModel(
        "Transformer", "Multi30k", "translation", (32, 64), _FP32, 62.0, 0.05, 18.0, 0.6, 0.55, 11600, 5
    ),
    TrainingModel(
        "PPO", "LunarLander", "reinforcement learning", _ALL, _FP32, 4000.0, 0.0, 480.0, 1.0, 0.01, 2050, 0.01
    ),
    TrainingModel(
        "TD3",
        "BipedalWalker",
        "reinforcement learning",
        _ALL,
        _FP32,
        1600.0,
        0.0,
        190.0,
        0.4,
        0.01,
        2055,
        0.02,
    ),
    TrainingModel(
        "NeuMF", "MovieLens", "recommendation", (64, 128), _BOTH, 4.1, 0.002, 0.42, 0.0003, 0.25, 2050, 0.01
    ),
)

# What Table 1 could not list yet. These can be measured; the synthetic cluster runs Table 1 only.
RECENT: tuple[TrainingModel, ...] = (
    TrainingModel(
        "Llama",
        "Instructions",
        "language model fine-tuning",
        (4, 8),
        (True,),
        55.0,
        0.0,
        10.0,
        22.0,
        0.90,
        3000,
        1800,
    ),
)


def list_job_types(models: tuple[TrainingModel, ...] = ZOO) -> tuple[JobType, ...]:
    """Return every configuration of the models: batch sizes x AMP (by default Table 1's 66)."""
    return tuple(
        JobType(model, batch_size, amp)
        for model in models
        for batch_size in model.batch_sizes
        for amp in model.amp_choices
    )
