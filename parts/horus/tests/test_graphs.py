"""Graphs made by hand, with the features that one counts on paper."""

import random
from pathlib import Path

import numpy as np
import pytest

from foundation.errors import BadInputError, NotFoundError
from parts.horus import onnx_graph
from parts.horus.graph_features import FEATURE_NAMES, GraphFeatures
from parts.horus.onnx_graph import read_graph_features

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def weight(name: str, *shape: int):
    return numpy_helper.from_array(np.zeros(shape, dtype=np.float32), name)


def model_of(nodes, inputs, outputs, weights=(), **extra):
    def values(named):
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in named.items()
        ]

    graph = helper.make_graph(nodes, "graph", values(inputs), values(outputs), list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9, **extra)


def saved(folder: Path, model) -> Path:
    file = folder / "model.onnx"
    file.write_bytes(model.SerializeToString())
    return file


def small_network(batch: int | str = 4):
    """Conv 3->8 (3x3, same), batch norm, relu, depth-wise 3x3 (stride 2), pooling, a linear layer to 10."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "g", "h", "m", "v"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], strides=[2, 2], group=8),
        node("GlobalAveragePool", ["c2"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 8, 1, 3, 3)]
    weights += [weight(name, 8) for name in "ghmv"] + [weight("w3", 10, 8), weight("b3", 10)]
    return model_of(nodes, {"x": [batch, 3, 16, 16]}, {"y": [batch, 10]}, weights)


def test_a_small_network_counts_as_on_paper(tmp_path: Path) -> None:
    found = read_graph_features(saved(tmp_path, small_network()))
    first, second = 4 * 8 * 16 * 16, 4 * 8 * 8 * 8
    assert found == GraphFeatures(
        batch_size=4,
        input_elements=4 * 3 * 16 * 16,
        parameters=8 * 27 + 8 + 8 * 9 + 4 * 8 + 80 + 10,
        dense_macs=first * 27 + 4 * 10 * 8,
        depthwise_macs=second * 9,
        activation_elements=3 * first + second + 4 * 8 + 40,
        elementwise_elements=2 * first + 4 * 8,
        convolutions=1,
        depthwise_convolutions=1,
        matrix_products=1,
        normalisations=1,
        recurrent=0,
        elementwise=2,
        recurrent_steps=0,
    )
    assert found.operators == 6
    assert found.flops == 2 * found.macs + found.elementwise_elements


def one_operator(folder, node, inputs, outputs, weights=()) -> GraphFeatures:
    return read_graph_features(saved(folder, model_of([node], inputs, outputs, weights)))


@pytest.mark.parametrize(
    ("node", "inputs", "output", "weights", "macs"),
    [
        (("MatMul", ["a", "b"]), {"a": [2, 3, 5], "b": [2, 5, 7]}, [2, 3, 7], {}, 2 * 3 * 5 * 7),
        (("Gemm", ["a", "w"]), {"a": [5, 3]}, [3, 7], {"w": (5, 7), "attributes": {"transA": 1}}, 3 * 5 * 7),
        (
            ("Einsum", ["a", "b"]),
            {"a": [2, 3, 4, 5], "b": [2, 6, 4, 5]},
            [2, 3, 6, 4],
            {"attributes": {"equation": "...ihd, ...jhd -> ...ijh"}},
            2 * 3 * 6 * 4 * 5,
        ),
        (
            ("ConvTranspose", ["a", "w"]),
            {"a": [2, 6, 4, 4]},
            [2, 5, 8, 8],
            {"w": (6, 5, 4, 4), "attributes": {"strides": [2, 2], "pads": [1, 1, 1, 1]}},
            2 * 6 * 4 * 4 * 5 * 4 * 4,
        ),
        (
            ("Conv", ["a", "w"]),
            {"a": [2, 6, 9]},
            [2, 4, 9],
            {"w": (4, 3, 1), "attributes": {"group": 2}},
            2 * 4 * 9 * 3,
        ),
    ],
)
def test_products_count_as_on_paper(tmp_path: Path, node, inputs, output, weights, macs) -> None:
    attributes = weights.pop("attributes", {}) if weights else {}
    made = helper.make_node(*node, ["y"], **attributes)
    found = one_operator(
        tmp_path, made, inputs, {"y": output}, [weight(name, *shape) for name, shape in weights.items()]
    )
    assert (found.dense_macs, found.depthwise_macs) == (macs, 0)
    assert found.activation_elements == np.prod(output)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_operators_count_every_time_step(tmp_path: Path, op: str, gates: int) -> None:
    seq, batch, width, hidden = 7, 3, 5, 6
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=hidden, direction="bidirectional")
    weights = [weight("w", 2, gates * hidden, width), weight("r", 2, gates * hidden, hidden)]
    found = one_operator(tmp_path, node, {"x": [seq, batch, width]}, {"y": [seq, 2, batch, hidden]}, weights)
    assert found.dense_macs == seq * batch * 2 * gates * hidden * (width + hidden)
    assert (found.recurrent, found.recurrent_steps) == (1, seq)


def test_views_and_shapes_are_no_work(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Reshape", ["x", "s"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[1, 0]),
        node("Relu", ["t"], ["y"]),
    ]
    found = read_graph_features(saved(tmp_path, model_of(nodes, {"x": [4, 6]}, {"y": [6, 4]})))
    assert (found.operators, found.activation_elements, found.macs) == (1, 24, 0)


def test_single_numbers_that_an_exporter_computes_are_no_work(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("ReduceMax", ["x"], ["s"], keepdims=0),
        node("Sqrt", ["s"], ["r"]),
        node("Mul", ["x", "r"], ["y"]),
    ]
    found = read_graph_features(saved(tmp_path, model_of(nodes, {"x": [4, 6]}, {"y": [4, 6]})))
    assert (found.operators, found.activation_elements) == (1, 24)


def test_order_and_names_do_not_matter(tmp_path: Path) -> None:
    model = small_network()
    before = read_graph_features(saved(tmp_path, model))
    used = {name for node in model.graph.node for name in (*node.input, *node.output)}
    renamed = {name: f"v{i}" for i, name in enumerate(sorted(used, reverse=True))}
    for node in model.graph.node:
        node.name = f"n{len(node.output[0])}"
        for names in (node.input, node.output):
            names[:] = [renamed[name] for name in names]
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.name = renamed[value.name]
    weights = list(model.graph.initializer)
    random.Random(0).shuffle(weights)
    del model.graph.initializer[:]
    model.graph.initializer.extend(weights)
    assert read_graph_features(saved(tmp_path, model)) == before


@pytest.mark.parametrize("batch", ["N", 4])
@pytest.mark.parametrize("asked", [1, 3, 64])
def test_a_batch_size_may_be_asked_for(tmp_path: Path, batch: int | str, asked: int) -> None:
    file = saved(tmp_path, small_network(batch))
    found = read_graph_features(file, batch_size=asked)
    other = tmp_path / "other"
    other.mkdir()
    assert found == read_graph_features(saved(other, small_network(asked)))


def test_a_file_may_say_its_batch_size(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [35, 4, 2]}, {"y": [35, 4, 2]})
    assert read_graph_features(saved(tmp_path, model)).batch_size == 35
    for said, batch in (("4", 4), ("-1", 35), ("9" * 40, 35), ("four", 35), ("0", 35)):
        del model.metadata_props[:]
        helper.set_model_props(model, {"batch_size": said})
        assert read_graph_features(saved(tmp_path, model)).batch_size == batch
    helper.set_model_props(model, {"batch_size": "4"})
    assert read_graph_features(saved(tmp_path, model), batch_size=8).activation_elements == 2 * 35 * 4 * 2


def test_an_open_dimension_is_named(tmp_path: Path) -> None:
    file = saved(tmp_path, model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", "T"]}, {"y": None}))
    with pytest.raises(BadInputError, match=r"dimension 1 \(T\) of input 'x'"):
        read_graph_features(file, batch_size=2)
    assert read_graph_features(file, batch_size=2, dimensions={"T": 5}).activation_elements == 10


def test_functions_are_looked_into(tmp_path: Path) -> None:
    body = helper.make_function(
        "ours",
        "Twice",
        ["a"],
        ["c"],
        [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["c"])],
        [helper.make_opsetid("", 20)],
    )
    nodes = [helper.make_node("Twice", ["x"], ["y"], domain="ours")]
    model = model_of(nodes, {"x": [2, 3]}, {"y": [2, 3]}, functions=[body])
    model.opset_import.append(helper.make_opsetid("ours", 1))
    assert read_graph_features(saved(tmp_path, model)).elementwise == 2


def test_branches_and_loops_count_once(tmp_path: Path) -> None:
    node = helper.make_node
    branch = helper.make_graph(
        [node("Relu", ["x"], ["inner"])],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [2, 3])],
    )
    nodes = [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    model = model_of(nodes, {"x": [2, 3]}, {"y": [2, 3]})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    assert read_graph_features(saved(tmp_path, model)).elementwise == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"not a graph at all", b"\x08\x09", b"\x80\x02\x95.", bytes(range(256)) * 64],
    ids=["empty", "text", "no graph", "pickle", "bytes"],
)
def test_what_is_no_graph_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(BadInputError, match=r"model\.onnx"):
        read_graph_features(file)


def test_a_damaged_file_is_refused_or_read_but_never_crashes(tmp_path: Path) -> None:
    whole = small_network().SerializeToString()
    random_of = random.Random(1)
    file = tmp_path / "model.onnx"
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole[: random_of.randrange(1, len(whole) + 1)])
        for _ in range(random_of.randrange(4)):
            damaged[random_of.randrange(len(damaged))] = random_of.randrange(256)
        file.write_bytes(bytes(damaged))
        try:
            read_graph_features(file)
        except BadInputError:
            refused += 1
    assert refused > 200


def test_a_missing_file_and_a_huge_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="no ONNX file"):
        read_graph_features(tmp_path / "none.onnx")
    file = saved(tmp_path, small_network())
    monkeypatch.setattr(onnx_graph, "MAX_FILE_BYTES", 100)
    with pytest.raises(BadInputError, match="at most 100"):
        read_graph_features(file)


def test_too_many_operators_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "MAX_OPERATORS", 3)
    with pytest.raises(BadInputError, match="7 operators"):
        read_graph_features(saved(tmp_path, small_network()))


def test_a_graph_that_claims_terabytes_is_refused_without_taking_them(tmp_path: Path) -> None:
    size = numpy_helper.from_array(np.array([1 << 31, 1 << 31], dtype=np.int64), "size")
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["c"]),
        helper.make_node("Add", ["c", "x"], ["y"]),
    ]
    model = model_of(nodes, {"x": [1]}, {"y": None}, [size])
    with pytest.raises(BadInputError, match="which no network has"):
        read_graph_features(saved(tmp_path, model))


def test_weights_outside_the_file_are_never_opened(tmp_path: Path) -> None:
    model = small_network()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "../../../etc/passwd", "offset": "0", "length": "864"}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    plain = tmp_path / "plain"
    plain.mkdir()
    assert read_graph_features(saved(tmp_path, model)) == read_graph_features(saved(plain, small_network()))


def test_a_foreign_operator_is_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Secret", ["x"], ["h"], domain="elsewhere"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    model = model_of(nodes, {"x": [2, 3]}, {"y": None})
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))
    with pytest.raises(BadInputError, match="elsewhere:Secret"):
        read_graph_features(saved(tmp_path, model))


def test_features_are_data_and_refuse_what_no_network_has(tmp_path: Path) -> None:
    features = read_graph_features(saved(tmp_path, small_network()))
    data = features.to_data()
    assert set(data) == set(FEATURE_NAMES)
    assert GraphFeatures.from_data({name: str(value) for name, value in data.items()}) == features
    assert features.at_batch(8).at_batch(4) == features
    for bad in ({"parameters": -1}, {"dense_macs": float("nan")}, {"convolutions": 1.5}, {"batch_size": 0}):
        with pytest.raises(BadInputError):
            GraphFeatures.from_data({**data, **bad})
    with pytest.raises(BadInputError, match="parameters"):
        GraphFeatures.from_data({name: value for name, value in data.items() if name != "parameters"})


@pytest.mark.parametrize("batch", [1, 2, 5, 32])
def test_work_grows_with_the_batch_and_parameters_do_not(tmp_path: Path, batch: int) -> None:
    features = read_graph_features(saved(tmp_path, small_network()))
    one, two = features.at_batch(batch), features.at_batch(batch + 1)
    assert two.flops > one.flops
    assert two.activation_elements > one.activation_elements
    assert two.flops_per_operator > one.flops_per_operator
    assert (two.parameters, two.operators) == (one.parameters, one.operators)


def test_multiply_accumulates_agree_with_another_library(tmp_path: Path) -> None:
    tool = pytest.importorskip("onnx_tool", reason="onnx-tool is not installed (make install-test-all)")
    model = small_network()
    ours = read_graph_features(saved(tmp_path, model))
    graph = tool.Model(model).graph
    graph.shape_infer()
    graph.profile()
    products = [node for node in graph.nodemap.values() if node.op_type in ("Conv", "Gemm")]
    # Its figures count a bias as one more multiply-accumulate an output.
    biases = 4 * 8 * 16 * 16 + 4 * 10
    assert sum(node.macs[0] for node in products) in (ours.macs, ours.macs + biases)
