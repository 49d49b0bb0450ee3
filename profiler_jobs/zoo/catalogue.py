"""Which module holds a model's workload. They are imported when somebody trains: they need PyTorch."""

from importlib import import_module
from typing import cast

from cluster_logs.errors import BadInputError, UnknownNameError
from profiler_jobs.workloads import JobType
from profiler_jobs.zoo.training_step import Build

MODULES = {
    "ResNet50": "resnet50",
    "MobileNetV3": "mobilenetv3",
    "ResNet18": "resnet18",
    "MobileNetV2": "mobilenetv2",
    "EfficientNet": "efficientnet",
    "VGG": "vgg",
    "DCGAN": "dcgan",
    "PointNet": "pointnet",
    "BERT": "bert",
    "LSTM": "lstm",
    "Transformer": "transformer",
    "PPO": "ppo",
    "TD3": "td3",
    "NeuMF": "neumf",
    "Llama": "llama",
}


def load_build(job_type: JobType) -> Build:
    """Return what builds the job type's model.

    Raises UnknownNameError for a model without a module, BadInputError when PyTorch is not installed.
    """
    try:
        module = MODULES[job_type.model.name]
    except KeyError:
        raise UnknownNameError("workload", job_type.model.name, MODULES) from None
    try:
        return cast(Build, import_module(f"profiler_jobs.zoo.{module}").build)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise BadInputError(
            "Training a workload needs PyTorch, which is not installed.",
            remedy="Install a build for this machine's GPU, or `make install-zoo` for the CPU.",
        ) from error
