"""Which module holds a model's workload. They are imported for a training only: they need PyTorch."""

import ast
from importlib import import_module
from pathlib import Path
from typing import cast

from foundation.errors import BadInputError, UnknownNameError
from profiler_jobs.workloads import RECENT, ZOO, JobType
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


def zoo_table() -> str:
    """Return the zoo as a Markdown table: what each workload is, by its module's own first sentence."""
    rows = ["| model/data set | batch sizes | AMP | what it is |", "| --- | --- | --- | --- |"]
    for model in ZOO + RECENT:
        source = Path(__file__).with_name(f"{MODULES[model.name]}.py").read_text(encoding="utf-8")
        first = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].rstrip(".")
        sizes = ", ".join(map(str, model.batch_sizes))
        amp = "/".join({False: "no", True: "yes"}[choice] for choice in model.amp_choices)
        rows.append(f"| {model.name}/{model.dataset} | {sizes} | {amp} | {first} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(zoo_table())
