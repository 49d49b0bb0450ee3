"""Write the zoo's forward passes as ONNX files: `python -m experiments.profiling.onnx_export --out DIR`.

One file a configuration, `<model>_<batch>_<amp>.onnx`, holds the graph of one batch with the shapes of all
tensors, in inference mode and single precision (AMP changes types, not the graph). Weights have names, shapes
and types, and no values: all of them point into `zeros.bin` beside the files, a hole on the disk. What the
graph cannot tell stands in the model's metadata: `job_type`, `model`, `dataset`, `task`, `batch_size`, `amp`,
`parameters` and `trained_parameters`.
"""

import argparse
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import onnx
import onnx_ir
import torch
from onnx_ir.passes import Sequential, common
from onnxscript import optimizer

from foundation.progress import Progress, Work, reporting, silent
from profiler_jobs.workloads import JobType, all_job_types
from profiler_jobs.zoo.catalogue import load_build

WEIGHTS_FILE = "zeros.bin"
_LARGEST_STORED_BYTES = 1024  # a constant up to this size may decide about shapes


def export_workload(job_type: JobType, path: Path) -> None:
    """Write the configuration's forward pass to `path`; `zeros.bin` beside it grows as needed.

    Raises UnknownNameError for a model without a workload, BadInputError when PyTorch is not installed.
    """
    _write(job_type, _trace(job_type), path)


def export_zoo(job_types: Sequence[JobType], folder: Path, progress: Progress = silent) -> list[Path]:
    """Write the configurations, one file each, into the folder; return the files in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / file_name(job_type) for job_type in job_types]
    done = 0
    # Both AMP variants of a batch size stand together and share one graph.
    for _, variants in groupby(
        zip(job_types, paths, strict=True), key=lambda pair: (pair[0].model, pair[0].batch_size)
    ):
        graph: onnx_ir.Model | None = None
        for job_type, path in variants:
            progress(done, len(paths), Work(f"exporting {job_type.model.name}", "files"))
            graph = graph or _trace(job_type)
            _write(job_type, graph, path)
            done += 1
    progress(done, len(paths), Work("exporting", "files"))
    return paths


def file_name(job_type: JobType) -> str:
    """Return the name of a configuration's file."""
    return f"{job_type.model.name}_{job_type.batch_size}_{int(job_type.amp)}.onnx"


def _trace(job_type: JobType) -> onnx_ir.Model:
    """Return the graph of the forward pass, without anything that only the exporter needs."""
    training = load_build(job_type)(
        batch_size=job_type.batch_size, amp=job_type.amp, device=torch.device("cpu"), seed=0
    )
    view = training.export_view()
    network: torch.nn.Module = view.module.eval().float()
    with _quiet():
        # Not its own optimisation: that folds the normalisations, which training computes, into convolutions.
        program = torch.onnx.export(network, view.inputs, dynamo=True, optimize=False, verbose=False)
        if program is None:
            raise RuntimeError("torch.onnx.export returned nothing")
        graph: onnx_ir.Model = program.model
        common.InlinePass()(graph)
        optimizer.fold_constants(graph)
        Sequential(
            common.IdentityEliminationPass(),
            common.RemoveUnusedNodesPass(),
            common.RemoveUnusedFunctionsPass(),
            common.RemoveUnusedOpsetsPass(),
            common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
            common.CommonSubexpressionEliminationPass(),
            common.ClearMetadataAndDocStringPass(),  # where each node comes from in the source
        )(graph)
    parameters = list(network.parameters())
    graph.metadata_props["parameters"] = str(sum(each.numel() for each in parameters))
    graph.metadata_props["trained_parameters"] = str(
        sum(each.numel() for each in parameters if each.requires_grad)
    )
    return graph


def _write(job_type: JobType, graph: onnx_ir.Model, path: Path) -> None:
    graph.producer_name, graph.producer_version = "lucid-mlops", ""
    graph.graph.name = job_type.name
    graph.metadata_props.update(
        job_type=job_type.name,
        model=job_type.model.name,
        dataset=job_type.model.dataset,
        task=job_type.model.task,
        batch_size=str(job_type.batch_size),
        amp=str(int(job_type.amp)),
    )
    largest_bytes = 0
    for value in graph.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or tensor.nbytes <= _LARGEST_STORED_BYTES:
            continue
        largest_bytes = max(largest_bytes, tensor.nbytes)
        value.const_value = onnx_ir.ExternalTensor(
            WEIGHTS_FILE,
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=tensor.shape,
            name=tensor.name or "",
            base_dir=path.parent,
        )
    weights = path.parent / WEIGHTS_FILE
    with weights.open("ab") as zeros:
        if zeros.tell() < largest_bytes:
            zeros.truncate(largest_bytes)
    onnx.save(onnx_ir.to_proto(graph), path)
    onnx.checker.check_model(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's remarks about optional packages and its own deprecated calls to itself."""
    levels = {logger: logger.level for logger in map(logging.getLogger, ("torch.onnx", "onnxscript"))}
    for logger in levels:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def main() -> None:
    """Export the whole zoo, with progress on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.profiling.onnx_export",
        description="Write the forward pass of every configuration of the zoo as an ONNX file.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the files")
    folder: Path = parser.parse_args().out
    with reporting(sys.stderr) as progress:
        paths = export_zoo(all_job_types(), folder, progress)
    print(f"{len(paths)} files in {folder}")


if __name__ == "__main__":
    main()
