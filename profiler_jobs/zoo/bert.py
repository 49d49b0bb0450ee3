"""BERT-base on SQuAD (Devlin et al., NAACL '19): answers in texts of 384 tokens, 109 million parameters.

12 layers, 768 wide, 12 heads, the uncased vocabulary; it scores where the answer starts and where it ends.
Questions and their paragraphs are padded to 384 tokens and the padding is masked, as fine-tuning scripts do.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler_jobs.zoo.batches import Batch, BatchPool
from profiler_jobs.zoo.mixed_precision import choose_precision
from profiler_jobs.zoo.supervised import SupervisedTraining
from profiler_jobs.zoo.training_step import TrainingStep

TOKENS = 384
LAYERS = 12
_VOCABULARY = 30_522
_WIDTH = 768
_SHORTEST = 64  # tokens of a question with its paragraph


class Bert(nn.Module):
    """The encoder and a linear layer that scores each token as start and as end of the answer."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(_VOCABULARY, _WIDTH, padding_idx=0)
        self.positions = nn.Embedding(512, _WIDTH)
        self.segments = nn.Embedding(2, _WIDTH)
        self.embedded = nn.Sequential(nn.LayerNorm(_WIDTH, eps=1e-12), nn.Dropout(0.1))
        layer = nn.TransformerEncoderLayer(
            _WIDTH, nhead=12, dim_feedforward=3072, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=layers, enable_nested_tensor=False)
        self.answer = nn.Linear(_WIDTH, 2)
        self.apply(_initialise)

    def forward(self, words: Tensor, segments: Tensor, padding: Tensor) -> Tensor:
        """Map three (batch, tokens), `padding` true where there is none, to (batch, tokens, 2)."""
        positions = torch.arange(words.shape[1], device=words.device)
        embedded = self.words(words) + self.segments(segments) + self.positions(positions)
        encoded = self.encoder(self.embedded(embedded), src_key_padding_mask=padding)
        return self.answer(encoded)


def _initialise(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear | nn.Embedding):
        nn.init.normal_(layer.weight, std=0.02)


def _loss(scores: Tensor, bounds: Tensor) -> Tensor:
    """Return the mean cross-entropy of the start and of the end, (batch, 2), over the tokens."""
    return functional.cross_entropy(scores, bounds)


def build(
    *, batch_size: int, amp: bool, device: torch.device, seed: int, layers: int = LAYERS
) -> TrainingStep:
    """Build the workload; an example is a question with its paragraph.

    Another number of `layers` is no workload of the zoo.
    """

    def make_batch(source: torch.Generator) -> Batch:
        shape = (batch_size, TOKENS)
        lengths = torch.randint(_SHORTEST, TOKENS + 1, (batch_size, 1), generator=source)
        places = torch.arange(TOKENS).expand(shape)
        padding = places >= lengths
        words = torch.randint(1, _VOCABULARY, shape, generator=source).masked_fill(padding, 0)
        segments = ((places >= lengths // 8) & ~padding).long()  # the question is the shorter first part
        bounds = (torch.rand((batch_size, 2), generator=source) * lengths).long().sort(dim=1).values
        return words, segments, padding, bounds

    torch.manual_seed(seed)
    network = Bert(layers).to(device)
    precision = choose_precision(device, amp=amp)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=3e-5, weight_decay=0.01, fused=precision.fused_optimizer
    )
    batches = BatchPool(make_batch, device, seed)
    return SupervisedTraining(network, _loss, batches, optimizer, precision, examples_per_step=batch_size)
