"""Reads the features of a computation graph from an ONNX file.

The onnx library parses the file, inlines its functions and infers the shape of every value; nothing is
executed, no weight is looked at, and no file besides the one that was named is opened. What is left is to sum
up: multiply-accumulates of the few operators that have them, outputs, and classes of operators. (onnx-tool
counts too; docs/decisions/0017-utilisation-from-graphs.md says why it does not here; a test compares both.)
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from parts.horus.graph_features import LARGEST, GraphFeatures

# A protobuf message cannot be larger; weights of larger networks lie in files beside it, which are not read.
MAX_FILE_BYTES = 2**31 - 1
MAX_OPERATORS = 200_000
_STANDARD = ("", "ai.onnx")
_FLOATS = (1, 10, 11, 16, 17, 18, 19, 20)  # FLOAT, FLOAT16, DOUBLE, BFLOAT16, and the FLOAT8 kinds
# Initializers beyond this are weights: their values say nothing about shapes.
_SHAPE_VALUES = 4_096

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "DeformConv"})
MATRIX_PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum", "Attention"})
RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
NORMALISATIONS = frozenset(
    {
        "BatchNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "LpNormalization",
        "LRN",
    }
)
# They hand a tensor on, whole or in part, or turn it: no memory of its own, no kernel worth counting.
VIEWS = frozenset(
    {
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Identity",
        "Transpose",
        "Slice",
        "Split",
        "Expand",
        "Constant",
        "ConstantOfShape",
        "Shape",
    }
)

BATCH_SIZE = "batch_size"  # key of the file's metadata

Shape = tuple[int | None, ...]  # None: a size that is not known


def read_graph_features(
    path: str | Path, *, dimensions: Mapping[str, int] | None = None, batch_size: int | None = None
) -> GraphFeatures:
    """Return what the graph in an ONNX file asks for.

    `dimensions` gives the symbolic dimensions of the inputs their sizes. The batch is what the file's
    metadata calls `batch_size`, else the first dimension of the first input. `batch_size` fills it where it
    is symbolic; otherwise the features are scaled to it. Raises NotFoundError without a file, BadInputError
    for what is no ONNX graph, is too large, or leaves a size open (naming it), ServiceUnavailableError
    where the onnx library is not installed.
    """
    onnx = _library()
    source = Path(path)
    model = _load(onnx, source)
    sizes = dict(dimensions or {})
    first = _first_dimension(model)
    if isinstance(first, str) and batch_size is not None:
        sizes.setdefault(first, batch_size)
    _set_dimensions(model, sizes, source)
    model = _infer(onnx, model, source)
    features = _Count(model, source).features()
    return features if batch_size is None else features.at_batch(batch_size)


def _library() -> Any:
    try:
        import onnx
        import onnx.inliner
        import onnx.shape_inference
    except ImportError as error:
        raise ServiceUnavailableError(
            f"Computation graphs cannot be read: {error}.", remedy="Install the package `onnx`."
        ) from error
    return onnx


def _load(onnx: Any, source: Path) -> Any:
    if not source.is_file():
        raise NotFoundError(f"There is no ONNX file {str(source)!r}.", remedy="Check the path.")
    size = source.stat().st_size
    if size > MAX_FILE_BYTES:
        raise BadInputError(
            f"{source} holds {size} bytes; an ONNX file holds at most {MAX_FILE_BYTES}.",
            remedy="Export the weights as external data; they are not needed here.",
        )
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model(source, load_external_data=False)
    except (DecodeError, OSError, ValueError) as error:
        raise BadInputError(
            f"{source} is no ONNX file: {error}.", remedy="Export the network, e.g. with torch.onnx.export."
        ) from error
    if not model.ir_version or not model.graph.node:
        raise BadInputError(f"{source} holds no graph.", remedy="Export the network to ONNX again.")
    if len(model.graph.node) > MAX_OPERATORS:
        raise BadInputError(
            f"{source} has {len(model.graph.node)} operators, more than {MAX_OPERATORS}.",
            remedy="Export the network without unrolling its loops.",
        )
    for weight in model.graph.initializer:
        if prod(weight.dims) > _SHAPE_VALUES:
            for values in ("raw_data", "float_data", "double_data", "int32_data", "int64_data"):
                weight.ClearField(values)
    return model


def _first_dimension(model: Any) -> str | int | None:
    for _, value in _inputs(model):
        for dimension in value.type.tensor_type.shape.dim:
            return dimension.dim_param or int(dimension.dim_value)
        return None
    return None


def _stated_batch_size(model: Any) -> int | None:
    """Return the batch size that the exporter wrote into the file: inputs need not begin with it."""
    for entry in model.metadata_props:
        if entry.key == BATCH_SIZE and entry.value.isdecimal() and 0 < len(entry.value) <= 9:
            return int(entry.value) or None
    return None


def _inputs(model: Any) -> Iterator[tuple[str, Any]]:
    weights = {weight.name for weight in model.graph.initializer}
    return ((value.name, value) for value in model.graph.input if value.name not in weights)


def _set_dimensions(model: Any, sizes: Mapping[str, int], source: Path) -> None:
    """Give symbolic dimensions their sizes, everywhere they stand; refuse inputs that stay open."""
    for name, size in sizes.items():
        if not 1 <= size <= LARGEST:
            raise BadInputError(f"Dimension {name!r} is {size}.", remedy="Use 1 or more.")
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in sizes:
                dimension.dim_value = sizes[dimension.dim_param]
    for name, value in _inputs(model):
        for position, dimension in enumerate(value.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value") or dimension.dim_value < 1:
                dimension_name = dimension.dim_param or "without a name"
                raise BadInputError(
                    f"{source}: dimension {position} ({dimension_name}) of input {name!r} has no size.",
                    remedy="Give --batch-size for the first one, --dimension NAME=SIZE for others, or export "
                    "with fixed sizes.",
                )


def _infer(onnx: Any, model: Any, source: Path) -> Any:
    try:
        if len(model.functions):
            model = onnx.inliner.inline_local_functions(model)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise BadInputError(
            f"{source}: the shapes of the graph do not fit together: {str(error)[:300]}.",
            remedy="Check the file with onnx.checker, and export the network again.",
        ) from error


class _Count:
    """Sums up a graph with inferred shapes."""

    def __init__(self, model: Any, source: Path) -> None:
        self._batch_size = _stated_batch_size(model)
        self._graph = model.graph
        self._source = source
        self._shapes: dict[str, Shape] = {}
        self._floats: set[str] = set()
        self._typed: set[str] = set()
        self._constants: set[str] = set()
        self._parameters = 0.0
        self._elements: Counter[str] = Counter()
        self._operators: Counter[str] = Counter()
        self._macs: Counter[str] = Counter()
        self._steps = 0.0
        self._learn_shapes(model.graph)

    def features(self) -> GraphFeatures:
        """Return the sums."""
        for node in _nodes(self._graph):
            self._count(node)
        weights = {weight.name for weight in self._graph.initializer}
        inputs = (value.name for value in self._graph.input if value.name not in weights)
        shapes = [self._shapes[name] for name in inputs if name in self._shapes]
        return GraphFeatures(
            batch_size=self._batch_size or (shapes[0][0] if shapes and shapes[0] else None) or 1,
            input_elements=float(sum(prod(size or 0 for size in shape) for shape in shapes)),
            parameters=self._parameters,
            dense_macs=float(self._macs["dense"]),
            depthwise_macs=float(self._macs["depthwise"]),
            activation_elements=float(sum(self._elements.values())),
            elementwise_elements=float(self._elements["other"]),
            convolutions=self._operators["convolutions"],
            depthwise_convolutions=self._operators["depthwise"],
            matrix_products=self._operators["matrix_products"],
            normalisations=self._operators["normalisations"],
            recurrent=self._operators["recurrent"],
            elementwise=self._operators["elementwise"],
            recurrent_steps=self._steps,
        )

    def _learn_shapes(self, graph: Any) -> None:
        for value in (*graph.input, *graph.output, *graph.value_info):
            tensor = value.type.tensor_type
            if value.type.WhichOneof("value") is not None:
                self._typed.add(value.name)
            if tensor.elem_type in _FLOATS:
                self._floats.add(value.name)
            if tensor.HasField("shape"):
                self._shapes[value.name] = tuple(
                    int(dimension.dim_value) if dimension.HasField("dim_value") else None
                    for dimension in tensor.shape.dim
                )
        used = {name for node in graph.node for name in node.input}
        for weight in graph.initializer:
            self._constants.add(weight.name)
            self._shapes[weight.name] = tuple(int(size) for size in weight.dims)
            if weight.data_type in _FLOATS:
                self._floats.add(weight.name)
                # A number that stands alone is a constant of the formula, not a parameter.
                if weight.name in used and len(weight.dims):
                    self._parameters += prod(weight.dims)
        for node in graph.node:
            for inner in _subgraphs(node):
                self._learn_shapes(inner)

    def _count(self, node: Any) -> None:
        if not node.output:
            return
        inputs = [name for name in node.input if name]
        if (inputs or node.op_type == "Constant") and all(name in self._constants for name in inputs):
            # How an exporter rearranges weights; nothing of it happens in a training step.
            self._constants.update(node.output)
            return
        if node.op_type in VIEWS:
            return
        if node.output[0] not in self._typed:
            raise BadInputError(
                f"{self._source}: operator {node.name or node.op_type!r} ({node.domain or 'ai.onnx'}:"
                f"{node.op_type}) is none of the standard ones, so its output is unknown.",
                remedy="Export the network with standard operators.",
            )
        if node.output[0] not in self._floats:
            return
        # Further outputs are states and masks that the first one's step leaves behind.
        elements = self._elements_of(node.output[0], node)
        try:
            kind, macs = self._work(node)
        except (IndexError, UnicodeDecodeError):
            raise BadInputError(
                f"{self._source}: operator {node.name or node.op_type!r} ({node.op_type}) lacks inputs.",
                remedy="Check the file with onnx.checker, and export the network again.",
            ) from None
        if macs is None and elements <= 1:
            return  # a factor or an epsilon that an exporter computes, no kernel worth its launch
        self._operators[kind] += 1
        if macs is None:
            self._elements["other"] += elements
            return
        self._macs["depthwise" if kind == "depthwise" else "dense"] += macs
        self._elements[kind] += elements

    def _work(self, node: Any) -> tuple[str, int | None]:
        """Return the operator's class and its multiply-accumulates, None where it has none."""
        op = node.op_type if node.domain in _STANDARD else ""
        if op in CONVOLUTIONS:
            weight = self._sizes(node.input[1], node)
            # Each output (of a transposed one: each input) meets a filter's worth of weights.
            met = node.input[0] if op == "ConvTranspose" else node.output[0]
            group = _attribute(node, "group", 1)
            kind = "depthwise" if 1 < group == self._size(node.input[0], 1, node) else "convolutions"
            return kind, self._elements_of(met, node) * prod(weight[1:])
        if op in RECURRENT:
            first, second = (self._size(node.input[0], axis, node) for axis in (0, 1))
            self._steps += second if _attribute(node, "layout", 0) else first
            weights = sum(self._elements_of(name, node) for name in node.input[1:3])
            return "recurrent", first * second * weights
        if op in MATRIX_PRODUCTS:
            return "matrix_products", self._products(node, op)
        return ("normalisations" if op in NORMALISATIONS else "elementwise"), None

    def _products(self, node: Any, op: str) -> int:
        if op == "Einsum":
            return self._einsum(node)
        out = self._elements_of(node.output[0], node)
        if op == "Attention":  # queries x keys, and their weights x values
            return self._size(node.input[1], -2, node) * (self._elements_of(node.input[0], node) + out)
        along = 0 if op == "Gemm" and _attribute(node, "transA", 0) else -1
        return out * self._size(node.input[0], along, node)

    def _einsum(self, node: Any) -> int:
        """Return the number of index combinations, ellipses as leading dimensions."""
        terms = str(_attribute(node, "equation", b"").decode()).replace(" ", "").split("->")[0].split(",")
        sizes: dict[str, int] = {}
        for term, name in zip(terms, node.input, strict=False):
            shape = self._sizes(name, node)
            letters = term.replace("...", "")
            leading = len(shape) - len(letters)
            at = term.find("...")
            named = [*letters]
            if at >= 0:
                named[at:at] = [f".{i}" for i in range(leading)]
            for letter, size in zip(named, shape, strict=False):
                sizes[letter] = max(size, sizes.get(letter, 1))
        return prod(sizes.values())

    def _elements_of(self, name: str, node: Any) -> int:
        return prod(self._sizes(name, node))

    def _sizes(self, name: str, node: Any) -> tuple[int, ...]:
        shape = self._shapes.get(name, (None,))
        return tuple(self._size(name, axis, node) for axis in range(len(shape)))

    def _size(self, name: str, axis: int, node: Any) -> int:
        shape = self._shapes.get(name, ())
        size = shape[axis] if -len(shape) <= axis < len(shape) else None
        if size is None:
            raise BadInputError(
                f"{self._source}: the shape of {name!r} at operator {node.name or node.op_type!r} "
                f"({node.op_type}) cannot be told.",
                remedy="Export the network with fixed sizes and standard operators, e.g. by "
                "torch.onnx.export(..., dynamo=True), which optimises shapes away.",
            )
        return size


def _nodes(graph: Any) -> Iterator[Any]:
    """Return the operators: those of a loop's body once, of a choice's branches those of the larger one."""
    for node in graph.node:
        inner = _subgraphs(node)
        if inner:
            yield from _nodes(max(inner, key=lambda each: len(each.node)))
        else:
            yield node


def _subgraphs(node: Any) -> Sequence[Any]:
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _attribute(node: Any, name: str, default: Any) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return attribute.s if attribute.HasField("s") else attribute.i
    return default
