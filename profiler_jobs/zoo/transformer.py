"""The base Transformer on Multi30k (Vaswani et al., NIPS '17): captions of 32 tokens, 60 million parameters.

From English to German, by 6 + 6 layers, 512 wide, with 8 heads: 44 million parameters besides the embeddings,
as in the paper, and vocabularies of 10,000 word pieces each. Captions have 8 to 32 tokens and are padded to
32. An example is a pair of them.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import choose_precision, require_amp
from profiler_jobs.zoo.supervised import SupervisedTraining
from profiler_jobs.zoo.training_step import TrainingStep

TOKENS = 32
VOCABULARY = 10_000
_SHORTEST = 8
_WIDTH = 512
_PADDING = 0


class Translator(nn.Module):
    """Scores every word of the target language as the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.source_words = nn.Embedding(VOCABULARY, _WIDTH, padding_idx=_PADDING)
        self.target_words = nn.Embedding(VOCABULARY, _WIDTH, padding_idx=_PADDING)
        self.dropout = nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(_WIDTH, nhead=8, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 6, nn.LayerNorm(_WIDTH), enable_nested_tensor=False)
        self.transformer = nn.Transformer(_WIDTH, custom_encoder=encoder, batch_first=True)
        self.scores = nn.Linear(_WIDTH, VOCABULARY)
        causal = torch.ones((TOKENS, TOKENS), dtype=torch.bool).triu(1)
        self.register_buffer("causal", causal, persistent=False)
        self.register_buffer("positions", _sinusoids(), persistent=False)
        self.causal: Tensor
        self.positions: Tensor

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Map two (batch, tokens) to (batch, tokens, vocabulary)."""
        unread = source == _PADDING
        decoded = self.transformer(
            self._embed(self.source_words, source),
            self._embed(self.target_words, target),
            tgt_mask=self.causal,
            src_key_padding_mask=unread,
            tgt_key_padding_mask=target == _PADDING,
            memory_key_padding_mask=unread,
            src_is_causal=False,
            tgt_is_causal=True,  # said, or the layer would compare the mask and wait for the device
        )
        return self.scores(decoded)

    def _embed(self, words: nn.Embedding, tokens: Tensor) -> Tensor:
        return self.dropout(words(tokens) * math.sqrt(_WIDTH) + self.positions)


def _sinusoids() -> Tensor:
    """Return the paper's positional encoding, (tokens, width)."""
    rates = torch.exp(torch.arange(0, _WIDTH, 2) * (-math.log(10_000.0) / _WIDTH))
    angles = torch.arange(TOKENS)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)


def _loss(scores: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(
        scores.flatten(0, 1), following.flatten(), ignore_index=_PADDING, label_smoothing=0.1
    )


def build(*, batch_size: int, amp: bool, device: torch.device, seed: int) -> TrainingStep:
    """Build the workload; an example is a pair of captions."""
    require_amp("Transformer", amp=amp, offered=False)

    def captions(source: torch.Generator, tokens: int) -> Tensor:
        lengths = torch.randint(_SHORTEST, tokens + 1, (batch_size, 1), generator=source)
        words = torch.randint(1, VOCABULARY, (batch_size, tokens), generator=source)
        return words.masked_fill(torch.arange(tokens) >= lengths, _PADDING)

    def make_batch(source: torch.Generator) -> Batch:
        german = captions(source, TOKENS + 1)
        return captions(source, TOKENS), german[:, :-1].contiguous(), german[:, 1:].contiguous()

    torch.manual_seed(seed)
    network = Translator().to(device)
    precision = choose_precision(device, amp=amp)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    batches = BatchPool(make_batch, device, seed)
    return SupervisedTraining(network, _loss, batches, optimizer, precision, examples_per_step=batch_size)
