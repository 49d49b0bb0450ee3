"""The zoo's graphs as ONNX: complete in shapes, exact in parameters, small, and the same every time."""

import math
from collections import Counter

import pytest

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from experiments.profiling.onnx_export import WEIGHTS_FILE, export_workload, export_zoo  # noqa: E402
from profiler_jobs.workloads import find_job_type  # noqa: E402

pytestmark = pytest.mark.slow


def read(path):
    return onnx.load(path, load_external_data=False)


def metadata(model):
    return {entry.key: entry.value for entry in model.metadata_props}


@pytest.fixture(scope="module")
def resnet18(tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "resnet18.onnx"
    export_workload(find_job_type("ResNet18/CIFAR-10/32/1"), path)
    return path


def test_the_graph_holds_what_training_computes(resnet18):
    operators = Counter(node.op_type for node in read(resnet18).graph.node)
    assert operators["Conv"] == operators["BatchNormalization"] == 20  # not folded into each other
    assert operators["Relu"] == 17
    assert operators["Gemm"] == 1


def test_every_tensor_has_its_shape(resnet18):
    model = read(resnet18)
    (images,) = model.graph.input
    assert [side.dim_value for side in images.type.tensor_type.shape.dim] == [32, 3, 32, 32]
    known = {
        value.name
        for value in [*model.graph.value_info, *model.graph.output]
        if all(side.dim_value > 0 for side in value.type.tensor_type.shape.dim)
    }
    assert {output for node in model.graph.node for output in node.output} <= known
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


def test_weights_have_shapes_but_take_no_room(resnet18):
    weights = [tensor for tensor in read(resnet18).graph.initializer if len(tensor.dims) > 1]
    assert sum(math.prod(tensor.dims) for tensor in weights) == pytest.approx(11_173_962, rel=0.01)
    assert resnet18.stat().st_size < 200_000
    hole = resnet18.with_name(WEIGHTS_FILE).stat()
    assert hole.st_size == 512 * 512 * 3 * 3 * 4  # the largest weight
    onnx.checker.check_model(resnet18, full_check=True)
    onnx.load(resnet18)  # zeros, for a reader that wants values


def test_metadata_say_what_the_graph_cannot(resnet18):
    assert metadata(read(resnet18)) == {
        "job_type": "ResNet18/CIFAR-10/32/1",
        "model": "ResNet18",
        "dataset": "CIFAR-10",
        "task": "image classification",
        "batch_size": "32",
        "amp": "1",
        "parameters": "11173962",
        "trained_parameters": "11173962",
    }


def test_a_folder_gets_one_file_a_configuration(tmp_path):
    names = ("NeuMF/MovieLens/64/0", "NeuMF/MovieLens/64/1", "NeuMF/MovieLens/128/0", "PPO/LunarLander/32/0")
    told = []
    paths = export_zoo(
        [find_job_type(name) for name in names], tmp_path / "new", lambda *said: told.append(said[:2])
    )
    assert [path.name for path in paths] == [
        "NeuMF_64_0.onnx",
        "NeuMF_64_1.onnx",
        "NeuMF_128_0.onnx",
        "PPO_32_0.onnx",
    ]
    models = [read(path) for path in paths]
    assert [metadata(model)["job_type"] for model in models] == list(names)
    assert models[0].graph.node == models[1].graph.node  # AMP changes types, not the graph
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    for path in paths:
        onnx.checker.check_model(path, full_check=True)


def test_the_same_configuration_gives_the_same_file(tmp_path):
    job_type = find_job_type("TD3/BipedalWalker/64/0")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        export_workload(job_type, tmp_path / name / "graph.onnx")
    first, second = ((tmp_path / name / "graph.onnx").read_bytes() for name in ("one", "other"))
    assert first == second
    assert b".py" not in first  # nor where the source of a node lies on this machine
