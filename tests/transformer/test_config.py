"""One frozen record: what it refuses, and that everything is built from it."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from torch import nn

from tinyattn.transformer import (
    AxialPositions,
    AxialTransformer,
    BPTransformer,
    Decoder,
    EdgeTypes,
    Encoder,
    EtcPositions,
    Seq2Seq,
    Shaw,
    Sinusoidal,
    TransformerConfig,
)

from .tiny import small


def test_a_config_is_frozen_compares_and_hashes():
    assert small() == small()
    assert hash(small()) == hash(small())
    assert small() != small(norm_first=False)
    with pytest.raises(FrozenInstanceError):
        small().d_model = 16


def test_the_width_of_a_head_follows():
    assert small(d_model=12, n_heads=3).d_head == 4


def test_a_model_has_the_sizes_of_its_config():
    config = TransformerConfig(
        vocab_size=7, target_vocab_size=5, d_model=12, n_heads=3, d_ff=20, n_layers=3,
        n_decoder_layers=1, n_chunks=2, norm_first=False, layer_norm_eps=0.25, dropout=0.5,
        activation=nn.functional.gelu, positions=Shaw, max_distance=4, tie_embeddings=False,
    )  # fmt: skip
    model = Seq2Seq(config)
    assert model.encoder.embedding.table.weight.shape == (7, 12)
    assert model.decoder.embedding.table.weight.shape == (5, 12)
    assert model.decoder.to_logits.weight.shape == (5, 12)
    assert len(model.encoder.layers) == 3
    assert len(model.decoder.layers) == 1
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        assert layer.attention.n_heads == 3
        assert layer.feed_forward.expand.out_features == 20
        assert layer.feed_forward.n_chunks == 2
        assert layer.feed_forward.activation is nn.functional.gelu
        assert layer.attention.positions.max_distance == 4
    norms = [part for part in model.modules() if isinstance(part, nn.LayerNorm)]
    assert len(norms) == 3 * 2 + 1 * 3
    assert {norm.eps for norm in norms} == {0.25}
    drops = [part for part in model.modules() if isinstance(part, nn.Dropout)]
    assert {drop.p for drop in drops} == {0.5}
    assert len(drops) == len(norms) + 2  # every sub-layer and both embeddings


def test_a_config_that_names_only_its_vocabulary_is_a_small_pre_norm_model():
    """Stored trainings and chapters rely on what is not said."""
    assert TransformerConfig(9) == TransformerConfig(
        vocab_size=9, target_vocab_size=None, d_model=64, n_heads=4, d_ff=4 * 64, n_layers=2,
        n_decoder_layers=None, n_chunks=1, max_len=512, max_distance=16, norm_first=True,
        layer_norm_eps=1e-5, dropout=0.0, activation=torch.relu, positions=Sinusoidal,
        tie_embeddings=True,
    )  # fmt: skip


def test_models_keep_their_config():
    config = small()
    assert Encoder(config).config is config
    assert Decoder(config).config is config
    assert Seq2Seq(config).config is config


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        Encoder,
        Decoder,
        lambda config: BPTransformer(config, n=4, k=1),
        lambda config: AxialTransformer(config, 2, 2, n_inner=1),
    ],
)
def test_every_norm_of_every_model_has_the_epsilon_of_the_config(model, norm_first):
    it = model(small(norm_first=norm_first, layer_norm_eps=0.25))
    norms = [part for part in it.modules() if isinstance(part, nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {0.25}
    assert isinstance(it.norm, nn.LayerNorm) is norm_first


REFUSED = {
    "no tokens": ({"vocab_size": 0}, ValueError, "vocab_size must be 1 or more, got 0"),
    "no width": ({"d_model": -8}, ValueError, "d_model must be 1 or more, got -8"),
    "no heads": ({"n_heads": 0}, ValueError, "n_heads must be 1 or more, got 0"),
    "no inner width": ({"d_ff": 0}, ValueError, "d_ff must be 1 or more, got 0"),
    "no layers": ({"n_layers": 0}, ValueError, "n_layers must be 1 or more, got 0"),
    "no chunks": ({"n_chunks": 0}, ValueError, "n_chunks must be 1 or more, got 0"),
    "no positions": ({"max_len": 0}, ValueError, "max_len must be 1 or more, got 0"),
    "no target tokens": ({"target_vocab_size": 0}, ValueError, "target_vocab_size must be 1 or more if given, got 0"),
    "no decoder": ({"n_decoder_layers": 0}, ValueError, "n_decoder_layers must be 1 or more if given, got 0"),
    "an indivisible width": (
        {"d_model": 100, "n_heads": 8}, ValueError,
        "d_model must be divisible by n_heads, got d_model=100 and n_heads=8",
    ),
    "a negative distance": ({"max_distance": -1}, ValueError, "max_distance must be 0 or more, got -1"),
    "certain dropout": ({"dropout": 1.0}, ValueError, r"dropout must be in \[0, 1\), got 1\.0"),
    "negative dropout": ({"dropout": -0.1}, ValueError, r"dropout must be in \[0, 1\), got -0\.1"),
    "dropout of nan": ({"dropout": float("nan")}, ValueError, "got nan"),
    "no eps": ({"layer_norm_eps": 0.0}, ValueError, r"layer_norm_eps must be above 0 and finite, got 0\.0"),
    "eps of nan": ({"layer_norm_eps": float("nan")}, ValueError, "must be above 0 and finite, got nan"),
    "eps below 0": ({"layer_norm_eps": -1e-5}, ValueError, "must be above 0 and finite, got -1e-05"),
    "endless eps": ({"layer_norm_eps": float("inf")}, ValueError, "must be above 0 and finite, got inf"),
    "a broken width": ({"d_model": 8.0}, TypeError, r"d_model must be a whole number, got 8\.0"),
    "a word for layers": ({"n_layers": "2"}, TypeError, "n_layers must be a whole number, got '2'"),
    "a yes for heads": ({"n_heads": True}, TypeError, "n_heads must be a whole number, got True"),
    "half a decoder": ({"n_decoder_layers": 1.5}, TypeError, r"n_decoder_layers must be a whole number, got 1\.5"),
    "a broken distance": ({"max_distance": 2.5}, TypeError, r"max_distance must be a whole number, got 2\.5"),
    "a name for a function": ({"activation": "gelu"}, TypeError, "function such as torch.relu, got 'gelu'"),
    "an instance of a scheme": ({"positions": Sinusoidal()}, TypeError, r"positions must be a class of schemes .*, got Sinusoidal\(\)"),
    "no scheme": ({"positions": None}, TypeError, "positions must be a class of schemes .*, got None"),
    "dropout in words": ({"dropout": "0.1"}, TypeError, "dropout must be a number, got '0.1'"),
    "a certain answer for dropout": ({"dropout": True}, TypeError, "dropout must be a number, got True"),
    "eps in words": ({"layer_norm_eps": "tiny"}, TypeError, "layer_norm_eps must be a number, got 'tiny'"),
    "a norm by name": ({"norm_first": "post"}, TypeError, "norm_first must be True or False, got 'post'"),
    "ties by number": ({"tie_embeddings": 1}, TypeError, "tie_embeddings must be True or False, got 1"),
    "another class": ({"positions": nn.Linear}, TypeError, "got <class 'torch.nn.*Linear'>"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("changes", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_config_that_cannot_be_is_refused(changes, error, sentence):
    with pytest.raises(error, match=sentence):
        small(**changes)
    with pytest.raises(error, match=sentence):
        replace(small(), **changes)


@pytest.mark.usefixtures("refusals")
def test_numpy_integers_are_sizes():
    assert Encoder(small(d_model=np.int64(8)))(torch.tensor([[1, 2]])).shape == (1, 2, 8)


@pytest.mark.parametrize("scheme", [AxialPositions, EdgeTypes, EtcPositions])
@pytest.mark.parametrize("model", [Encoder, Decoder, Seq2Seq])
def test_a_scheme_that_needs_more_than_a_config_says_so(model, scheme):
    with pytest.raises(TypeError, match=f"{scheme.__name__} needs .* config does not"):
        model(small(positions=scheme))
