"""The zoo's networks have the published numbers of parameters and the properties of their architectures."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from profiler_jobs.zoo import (  # noqa: E402
    bert,
    dcgan,
    efficientnet,
    llama,
    lstm,
    mobilenetv2,
    mobilenetv3,
    neumf,
    pointnet,
    ppo,
    resnet18,
    resnet50,
    td3,
    transformer,
    vgg,
)

pytestmark = pytest.mark.thorough("PyTorch")

# What each number is: the paper's or its reference implementation's, for the number of classes that is given.
PUBLISHED = [
    ("ResNet-50", lambda: resnet50.resnet50(1000), 25_557_032),
    ("ResNet-18, CIFAR-10", lambda: resnet18.resnet18(10), 11_173_962),
    ("MobileNetV2, 1000 classes", lambda: mobilenetv2.mobilenetv2(1000), 3_504_872),
    ("MobileNetV3-Large", lambda: mobilenetv3.mobilenetv3(1000), 5_483_032),
    ("EfficientNet-B0, 1000 classes", lambda: efficientnet.efficientnet_b0(1000), 5_288_548),
    ("VGG-11 with normalisation, CIFAR-10", lambda: vgg.vgg11(10), 9_231_114),
    ("DCGAN's generator", dcgan.generator, 3_576_704),
    ("DCGAN's discriminator", dcgan.discriminator, 2_765_568),
    ("BERT-base with its answer layer", lambda: bert.Bert(bert.LAYERS), 108_893_186),
    ("word-level LSTM", lstm.WordModel, 13_987_678),
]


def on_meta(make):
    with torch.device("meta"):
        return make()


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("make", "parameters"), [row[1:] for row in PUBLISHED], ids=[row[0] for row in PUBLISHED]
)
def test_networks_have_the_published_number_of_parameters(make, parameters):
    assert count(on_meta(make)) == parameters


def test_pointnet_is_as_large_as_its_paper_says():
    assert count(on_meta(lambda: pointnet.PointNet(40))) == pytest.approx(3.5e6, rel=0.01)


def test_the_transformer_without_embeddings_is_the_papers_base_model():
    network = on_meta(transformer.Translator)
    vocabularies = count(network.source_words) + count(network.target_words) + count(network.scores)
    assert count(network) - vocabularies == pytest.approx(65e6 - 37_000 * 512, rel=0.05)


def test_llamas_frozen_base_is_smollm2_360m():
    network = on_meta(lambda: llama.Llama(llama.SMOL_360M))
    frozen = [parameter for parameter in network.parameters() if not parameter.requires_grad]
    assert sum(parameter.numel() for parameter in frozen) == 361_821_120
    assert {parameter.dtype for parameter in frozen} == {torch.bfloat16}
    adapters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    assert {parameter.dtype for parameter in adapters} == {torch.float32}


def test_llama_in_full_size_learns_through_its_frozen_base():
    size = llama.SMOL_360M
    network = on_meta(lambda: llama.Llama(size)).bfloat16()
    scores = network(torch.zeros((8, size.tokens), dtype=torch.long, device="meta"))
    assert scores.shape == (8, 512, 49_152)
    scores.sum().backward()
    assert all((parameter.grad is not None) == parameter.requires_grad for parameter in network.parameters())


def test_llama_does_not_see_what_follows():
    torch.manual_seed(0)
    size = llama.LlamaSize(2, 64, 4, 2, 128, 100, 16)
    network = llama.Llama(size).eval().float()
    tokens = torch.randint(100, (1, 16))
    altered = tokens.clone()
    altered[0, 10:] = (altered[0, 10:] + 1) % 100
    with torch.no_grad():
        scores, others = network(tokens), network(altered)
    assert torch.allclose(scores[:, :10], others[:, :10], atol=1e-5)
    assert not torch.allclose(scores[:, 10:], others[:, 10:], atol=1e-5)


def test_llamas_queries_and_keys_meet_by_their_distance():
    """Rotary positions: a query and a key score the same wherever the pair stands."""
    torch.manual_seed(0)
    network = llama.Llama(llama.LlamaSize(1, 64, 1, 1, 64, 10, 32))
    cosines, sines = network.cosines.float(), network.sines.float()
    query, key = (torch.randn(64).expand(1, 1, 32, 64) for _ in range(2))
    scores = llama._rotated(query, cosines, sines) @ llama._rotated(key, cosines, sines).transpose(2, 3)
    for distance in (0, 3, 17):
        along = torch.diagonal(scores[0, 0], offset=distance)
        assert torch.allclose(along, along[0].expand_as(along), atol=0.2)
    assert not torch.allclose(scores[0, 0, 0], scores[0, 0, 0, :1].expand(32), atol=0.5)


def test_bert_ignores_padding():
    torch.manual_seed(0)
    network = bert.Bert(2).eval()
    words = torch.randint(1, 1000, (1, 24))
    segments, padding = torch.zeros_like(words), torch.arange(24)[None] >= 16
    altered = torch.where(padding, 5, words)
    with torch.no_grad():
        scores, others = network(words, segments, padding), network(altered, segments, padding)
    assert scores.shape == (1, 24, 2)
    assert torch.allclose(scores[:, :16], others[:, :16], atol=1e-5)


def test_the_translator_sees_the_source_but_not_what_follows():
    torch.manual_seed(0)
    network = transformer.Translator().eval()
    source, target = (torch.randint(1, transformer.VOCABULARY, (1, transformer.TOKENS)) for _ in range(2))
    later = target.clone()
    later[0, 20:] = 7
    with torch.no_grad():
        scores = network(source, target)
        assert torch.allclose(scores[:, :20], network(source, later)[:, :20], atol=1e-4)
        assert not torch.allclose(scores, network(source.flip(1), target), atol=1e-2)


def test_the_word_model_goes_on_from_its_state_while_it_trains():
    network = lstm.WordModel().train()
    network.dropout.p = network.lstm.dropout = 0.0
    words = torch.randint(lstm.VOCABULARY, (2, 5))
    assert not torch.equal(network(words), network(words))
    network.eval()
    assert torch.equal(network(words), network(words))


def test_pointnet_does_not_care_about_the_order_of_points():
    torch.manual_seed(0)
    network = pointnet.PointNet(pointnet.CLASSES).eval()
    points = torch.randn((2, 3, 64))
    with torch.no_grad():
        scores, matrices = network(points)
        others, _ = network(points[:, :, torch.randperm(64)])
    assert scores.shape == (2, 16)
    assert matrices.shape == (2, 64, 64)
    assert torch.allclose(scores, others, atol=1e-5)


def test_neumf_scores_every_pair_of_user_and_film():
    users = torch.tensor([0, neumf.USERS - 1])
    films = torch.tensor([neumf.FILMS - 1, 0])
    assert neumf.NeuMF()(users, films).shape == (2,)


def test_ppos_advantages_are_the_discounted_surprises():
    rewards = torch.tensor([1.0, 0.0, 2.0]).numpy()
    values = torch.tensor([0.5, 1.0, 0.0, 4.0]).numpy()
    ended = torch.tensor([False, True, False]).numpy()
    surprises = [1.0 + 0.99 * 1.0 - 0.5, 0.0 - 1.0, 2.0 + 0.99 * 4.0 - 0.0]
    expected = [surprises[0] + 0.99 * 0.95 * surprises[1], surprises[1], surprises[2]]
    assert ppo._advantages(rewards, ended, values) == pytest.approx(expected, rel=1e-5)


def test_td3s_memory_forgets_the_oldest():
    memory = td3.ReplayMemory(3)
    for number in range(5):
        row = [[float(number)] * width for width in (24, 4, 24, 1, 1)]
        memory.add(*(torch.tensor([columns]).numpy() for columns in row))
    kept = {float(value) for value in memory.sample(200, np.random.default_rng(0))[3].flatten()}
    assert kept == {2.0, 3.0, 4.0}
