"""A prediction from a graph in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from lucid_models.utilisation.graph_features import GraphFeatures

_BEYOND = {
    "operators": "operators",
    "parameters": "parameters",
    "macs_per_operator": "arithmetic an operator",
    "activation_elements": "activations",
}
_SHARES = {
    "launches": "launching its kernels alone keeps the GPU busy {:.0f} % of the time",
    "arithmetic": "arithmetic adds {:+.0f}",
    "memory_traffic": "moving activations {:+.0f}",
    "mixed_precision": "mixed precision {:+.0f}",
    "care": "care {:+.0f}",
}


def prediction_reason(
    graph: GraphFeatures,
    amp: bool,
    figures: Mapping[str, float],
    account: Mapping[str, Any],
    beyond: Sequence[str],
) -> str:
    """Return why a job is predicted to ask for so much; `account` is the scorer's explanation."""
    points = {term["term"]: term["contribution"] for term in account["terms"]}
    shares = [text.format(points[name]) for name, text in _SHARES.items() if name != "mixed_precision" or amp]
    memory = account["memory_mib"]
    least, most = figures["gpu_util_low_pct"], figures["gpu_util_high_pct"]
    sentences = [
        (
            f"GPU utilisation {figures['gpu_util_pct']:.0f} % (unseen models: {least:.0f} to {most:.0f} %): "
            f"{graph.operators:,} operators with {amount(graph.macs)} multiply-accumulates a batch of "
            f"{graph.batch_size:,}; {', '.join(shares)}."
        ),
        (
            f"Memory {figures['gpu_mem_mib']:,.0f} MiB: {memory['overhead']:,.0f} to begin with, "
            f"{memory['parameters']:,.0f} for {amount(graph.parameters)} parameters and their optimizer, "
            f"{memory['batch']:,.0f} for the batch, {memory['margin']:+,.0f} for care."
        ),
    ]
    if beyond:
        named = ", ".join(_BEYOND[name] for name in beyond)
        sentences.append(f"Unlike anything that was measured in {named}: take this as a guess.")
    return " ".join(sentences)


def amount(number: float) -> str:
    """Return a large number in words, e.g. `4.1 billion`."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:.3g}"
