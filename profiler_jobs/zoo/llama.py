"""A small language model of today, fine-tuned on instructions: adapters on 362 million frozen parameters.

The decoder is of the Llama family (RMSNorm, rotary positions, SwiGLU, grouped-query attention, tied
embeddings) in the published size of SmolLM2-360M, frozen in bfloat16. Every linear layer of the decoder has
an adapter of rank 16 (LoRA: Hu et al., ICLR '22), in single precision, trained with AdamW under autocast to
bfloat16. Examples are sequences of 512 tokens, packed without padding.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import Precision, require_amp
from profiler_jobs.zoo.supervised import SupervisedTraining
from profiler_jobs.zoo.training_step import TrainingStep

_ADAPTER_RANK = 16
_ADAPTER_SCALE = 2.0  # alpha / rank
_ADAPTER_DROPOUT = 0.05


@dataclass(frozen=True)
class LlamaSize:
    """How large the decoder and its input are."""

    layers: int
    width: int
    heads: int
    key_heads: int  # shared by heads / key_heads query heads each
    feed_forward: int
    vocabulary: int
    tokens: int
    rotary_base: float = 100_000.0

    @property
    def head_width(self) -> int:
        """Return the width of one head."""
        return self.width // self.heads


SMOL_360M = LlamaSize(
    layers=32, width=960, heads=15, key_heads=5, feed_forward=2560, vocabulary=49_152, tokens=512
)


class AdaptedLinear(nn.Module):
    """A frozen linear layer without bias, plus a trained product of two thin matrices that starts at zero."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.base = nn.Linear(width_in, width_out, bias=False, dtype=torch.bfloat16).requires_grad_(False)
        self.down = nn.Linear(width_in, _ADAPTER_RANK, bias=False)
        self.up = nn.Linear(_ADAPTER_RANK, width_out, bias=False)
        self.dropout = nn.Dropout(_ADAPTER_DROPOUT)
        nn.init.normal_(self.base.weight, std=0.02)
        nn.init.zeros_(self.up.weight)

    def forward(self, features: Tensor) -> Tensor:
        """Map (..., width_in) to (..., width_out)."""
        adapted = self.up(self.down(self.dropout(features)))
        return self.base(features) + adapted * _ADAPTER_SCALE


class Attention(nn.Module):
    """Causal self-attention with rotary positions, in which groups of query heads share keys and values."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.head_width = size.head_width
        shared = size.key_heads * size.head_width
        self.query = AdaptedLinear(size.width, size.width)
        self.key = AdaptedLinear(size.width, shared)
        self.value = AdaptedLinear(size.width, shared)
        self.output = AdaptedLinear(size.width, size.width)

    def forward(self, features: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Map (batch, tokens, width) to the same shape."""
        queries, keys, values = (
            project(features).unflatten(2, (-1, self.head_width)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(
            _rotated(queries, cosines, sines),
            _rotated(keys, cosines, sines),
            values,
            is_causal=True,
            enable_gqa=True,
        )
        return self.output(attended.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """SwiGLU (Shazeer, 2020)."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.gate = AdaptedLinear(size.width, size.feed_forward)
        self.up = AdaptedLinear(size.width, size.feed_forward)
        self.down = AdaptedLinear(size.feed_forward, size.width)

    def forward(self, features: Tensor) -> Tensor:
        """Map (batch, tokens, width) to the same shape."""
        return self.down(functional.silu(self.gate(features)) * self.up(features))


class DecoderLayer(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.before_attention = _norm(size.width)
        self.attention = Attention(size)
        self.before_feed_forward = _norm(size.width)
        self.feed_forward = FeedForward(size)

    def forward(self, features: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Map (batch, tokens, width) to the same shape."""
        features = features + self.attention(self.before_attention(features), cosines, sines)
        return features + self.feed_forward(self.before_feed_forward(features))


class Llama(nn.Module):
    """The decoder, which scores every token as the next one by the embeddings that it starts from."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width, dtype=torch.bfloat16).requires_grad_(False)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layers = nn.ModuleList(DecoderLayer(size) for _ in range(size.layers))
        self.norm = _norm(size.width)
        rates = size.rotary_base ** (-torch.arange(0, size.head_width, 2) / size.head_width)
        angles = (torch.arange(size.tokens)[:, None] * rates).tile(2)  # (tokens, head width)
        self.register_buffer("cosines", angles.cos().bfloat16(), persistent=False)
        self.register_buffer("sines", angles.sin().bfloat16(), persistent=False)
        self.cosines: Tensor
        self.sines: Tensor

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (batch, tokens) to (batch, tokens, vocabulary)."""
        features = self.words(tokens)
        for layer in self.layers:
            features = layer(features, self.cosines, self.sines)
        return functional.linear(self.norm(features), self.words.weight)


def _norm(width: int) -> nn.RMSNorm:
    return nn.RMSNorm(width, eps=1e-5, dtype=torch.bfloat16).requires_grad_(False)


def _rotated(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate (batch, heads, tokens, head width) by the tokens' positions (Su et al., 2021)."""
    first, second = heads.chunk(2, dim=3)
    return heads * cosines + torch.cat((-second, first), dim=3) * sines


def _loss(scores: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1).float(), following.flatten())


def build(
    *, batch_size: int, amp: bool, device: torch.device, seed: int, size: LlamaSize = SMOL_360M
) -> TrainingStep:
    """Build the workload; an example is a sequence of `size.tokens` tokens.

    It has no variant without AMP, because the base is bfloat16. Another `size` is no workload of the zoo.
    """
    require_amp("Llama", amp=amp, offered=True)

    def make_batch(source: torch.Generator) -> Batch:
        tokens = torch.randint(size.vocabulary, (batch_size, size.tokens + 1), generator=source)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    torch.manual_seed(seed)
    network = Llama(size).to(device)
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    precision = Precision(device, torch.bfloat16)
    batches = BatchPool(make_batch, device, seed)
    return SupervisedTraining(network, _loss, batches, optimizer, precision, examples_per_step=batch_size)
