"""tinyattn equals BERT, GPT-2 and Marian of transformers, built small and random; no download."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tinyattn import MultiHeadAttention
from tinyattn.transformer import (
    Decoder,
    Encoder,
    Learned,
    Positions,
    RoPE,
    Seq2Seq,
    T5Bias,
    generate,
    sinusoidal_positions,
)

from ..close import assert_same
from ..transformer.tiny import compositions, randn, scrambled, small, some_tokens
from .copying import State, named, under

transformers = pytest.importorskip(
    "transformers", reason="transformers is in requirements-oracles.txt"
)

D_MODEL, N_LAYERS, VOCAB = 8, 2, 11


def gelu_new(x):
    return F.gelu(x, approximate="tanh")


def linear(theirs: State, name: str, ours: str) -> State:
    """A Linear's weight and, where there is one, its bias."""
    parts = under(theirs, f"{name}.")
    return {f"{ours}.{part}": value for part, value in parts.items()}


def renamed(theirs: State, names: dict[str, str]) -> State:
    return {k: v for ours, name in names.items() for k, v in linear(theirs, name, ours).items()}


# --------------------------------------------------------------------------------------- BERT

BERT_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.out": "attention.output.dense",
    "around_attention.norm": "attention.output.LayerNorm",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
    "around_feed_forward.norm": "output.LayerNorm",
}


@pytest.mark.parametrize("padded", [False, True])
def test_an_encoder_equals_bert(padded):
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=D_MODEL, num_attention_heads=2, intermediate_size=12,
        num_hidden_layers=N_LAYERS, max_position_embeddings=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager",
    )  # fmt: skip
    bert = scrambled(transformers.BertModel(config, add_pooling_layer=False)).eval()
    ours = Encoder(
        small(
            d_ff=12, n_layers=N_LAYERS, norm_first=False, activation=F.gelu, positions=Positions,
            layer_norm_eps=config.layer_norm_eps,
        )
    ).double()  # fmt: skip
    state, copied = bert.state_dict(), {}
    for number in range(N_LAYERS):
        layer = under(state, f"encoder.layer.{number}.")
        copied |= named(renamed(layer, BERT_LAYER), f"layers.{number}.")
    copied["embedding.table.weight"] = ours.embedding.table.weight
    ours.load_state_dict(copied)

    tokens = some_tokens(2, 6)
    real = torch.arange(6) < torch.tensor([[6], [4]]) if padded else torch.ones(2, 6).bool()
    theirs = bert(tokens, attention_mask=real.long()).last_hidden_state
    vectors = bert.embeddings(tokens)  # BERT normalises its embeddings, so they come in ready
    out = ours(vectors, key_padding=real)
    assert_same(out[real], theirs[real])


# -------------------------------------------------------------------------------------- GPT-2


@pytest.fixture(scope="module")
def gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=16, n_embd=D_MODEL, n_layer=N_LAYERS, n_head=2, n_inner=12,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager",
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return scrambled(transformers.GPT2LMHeadModel(config)).eval()


@pytest.fixture
def decoder_of_gpt2(gpt2):
    """GPT-2's Linear layers are "Conv1D": input by output, so transposed, with q, k, v in one."""
    config = small(
        d_ff=12, n_layers=N_LAYERS, max_len=16, activation=gelu_new, positions=Learned,
        tie_embeddings=False, layer_norm_eps=gpt2.config.layer_norm_epsilon,
    )  # fmt: skip
    ours, state = Decoder(config).double(), gpt2.state_dict()
    copied = {
        # tokens are scaled by √d_model here and are not in GPT-2
        "embedding.table.weight": state["transformer.wte.weight"] / D_MODEL**0.5,
        "to_logits.weight": state["transformer.wte.weight"],
    }
    for name in ours.state_dict():  # one shared table, listed wherever it is used
        if name.endswith("positions.table"):
            copied[name] = state["transformer.wpe.weight"]
    copied |= linear(state, "transformer.ln_f", "norm")
    for number in range(N_LAYERS):
        theirs = under(state, f"transformer.h.{number}.")
        layer = linear(theirs, "ln_1", "around_attention.norm")
        layer |= linear(theirs, "ln_2", "around_feed_forward.norm")
        for name, other in (
            ("attention.out", "attn.c_proj"),
            ("feed_forward.expand", "mlp.c_fc"),
            ("feed_forward.contract", "mlp.c_proj"),
        ):
            layer[f"{name}.weight"] = theirs[f"{other}.weight"].T
            layer[f"{name}.bias"] = theirs[f"{other}.bias"]
        weights = theirs["attn.c_attn.weight"].T.chunk(3)
        biases = theirs["attn.c_attn.bias"].chunk(3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            layer |= {f"attention.{name}.weight": weight, f"attention.{name}.bias": bias}
        copied |= named(layer, f"layers.{number}.")
    ours.load_state_dict(copied)
    return ours


def test_a_decoder_equals_gpt2(gpt2, decoder_of_gpt2):
    tokens = some_tokens(2, 7)
    assert_same(decoder_of_gpt2(tokens), gpt2(tokens).logits)


def test_caches_of_both_give_the_same_logits_piece_by_piece(gpt2, decoder_of_gpt2):
    tokens = some_tokens(2, 4)
    for sizes in compositions(4):
        theirs, ours = transformers.DynamicCache(config=gpt2.config), decoder_of_gpt2.new_cache()
        for piece in tokens.split(sizes, dim=1):
            expected = gpt2(piece, cache=theirs, use_cache=True).logits
            assert_same(decoder_of_gpt2(piece, cache=ours), expected)
        assert len(ours) == theirs.get_seq_length() == 4


def test_greedy_text_is_gpt2s(gpt2, decoder_of_gpt2):
    prompt = some_tokens(2, 3) % 10 + 1
    theirs = gpt2.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, do_sample=False
    )
    ours = generate(decoder_of_gpt2, prompt, 8, stop_token=0)
    assert torch.equal(ours[:, : theirs.shape[1]], theirs)


# -------------------------------------------------------------------------------------- Marian

MARIAN_ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
MARIAN_LAYER = {
    **{f"attention.{ours}": f"self_attn.{name}" for ours, name in MARIAN_ATTENTION.items()},
    "around_attention.norm": "self_attn_layer_norm",
    "feed_forward.expand": "fc1",
    "feed_forward.contract": "fc2",
    "around_feed_forward.norm": "final_layer_norm",
}
MARIAN_DECODER_LAYER = {
    **MARIAN_LAYER,
    **{
        f"cross_attention.{ours}": f"encoder_attn.{name}" for ours, name in MARIAN_ATTENTION.items()
    },
    "around_cross_attention.norm": "encoder_attn_layer_norm",
}
SINES_FIRST = [*range(0, D_MODEL, 2), *range(1, D_MODEL, 2)]  # where Marian keeps our channels
INTERLEAVED = np.argsort(SINES_FIRST).tolist()


def in_our_order(state: State) -> State:
    """All weights with the channels of token vectors sorted as sine, cosine, sine, …"""
    ours = {}
    for name, value in state.items():
        reads = name.endswith(
            ("query.weight", "key.weight", "value.weight", "expand.weight", "table.weight", "logits.weight")
        )  # fmt: skip
        writes = name.rsplit(".", 1)[0].endswith(("out", "contract", "norm"))
        ours[name] = value[:, INTERLEAVED] if reads else value[INTERLEAVED] if writes else value
    return ours


@pytest.fixture(scope="module")
def marian():
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=D_MODEL, encoder_layers=N_LAYERS, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=12,
        decoder_ffn_dim=12, max_position_embeddings=32, dropout=0.0, activation_function="relu",
        scale_embedding=True, pad_token_id=10, eos_token_id=0, decoder_start_token_id=9,
        forced_eos_token_id=None, bos_token_id=None, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    tables = [stack.embed_positions.weight for stack in (model.model.encoder, model.model.decoder)]
    kept = [table.detach().clone().double() for table in tables]
    scrambled(model).eval()
    with torch.no_grad():
        for table, values in zip(tables, kept, strict=True):
            table.data = values
    return model


@pytest.fixture
def seq2seq_of_marian(marian):
    config = small(
        d_ff=12, n_layers=N_LAYERS, n_decoder_layers=1, norm_first=False, tie_embeddings=True
    )
    ours, state = Seq2Seq(config).double(), under(marian.state_dict(), "model.")
    table, copied = state["shared.weight"], {}
    for stack, parts, n in (
        ("encoder", MARIAN_LAYER, N_LAYERS),
        ("decoder", MARIAN_DECODER_LAYER, 1),
    ):
        copied[f"{stack}.embedding.table.weight"] = table
        for number in range(n):
            theirs = under(state, f"{stack}.layers.{number}.")
            copied |= named(renamed(theirs, parts), f"{stack}.layers.{number}.")
    copied["decoder.to_logits.weight"] = table
    ours.load_state_dict(in_our_order(copied))
    return ours


# Marian keeps its sinusoids in float32
NEARLY = {"rtol": 1e-5, "atol": 1e-5}


def test_sinusoids_are_marians_up_to_the_order_of_channels(marian):
    theirs = marian.model.encoder.embed_positions.weight[:, INTERLEAVED]
    ours = sinusoidal_positions(32, D_MODEL, dtype=torch.float64)
    assert_same(ours, theirs.detach(), rtol=0, atol=1e-6)


def test_seq2seq_equals_marian(marian, seq2seq_of_marian):
    source, target = some_tokens(2, 6), some_tokens(2, 5, seed=1)
    real = torch.arange(6) < torch.tensor([[6], [3]])
    theirs = marian(
        input_ids=source, attention_mask=real.long(), decoder_input_ids=target, use_cache=False
    ).logits
    assert not marian.final_logits_bias.any()
    ours = seq2seq_of_marian(source, target, source_padding=real)
    assert_same(ours, theirs, **NEARLY)


def test_a_greedy_translation_is_marians(marian, seq2seq_of_marian):
    source = some_tokens(4, 6) % 9
    real = torch.arange(6) < torch.tensor([[6], [3], [5], [1]])
    theirs = marian.generate(
        source, attention_mask=real.long(), max_new_tokens=7, num_beams=1, do_sample=False,
    )[:, 1:]  # fmt: skip
    ours = seq2seq_of_marian.translate(
        source, start_token=9, stop_token=0, n_new=7, source_padding=real
    )
    for mine, other in zip(ours[:, : theirs.shape[1]], theirs, strict=True):
        stop = (other == 0).nonzero().flatten()
        until = int(stop[0]) + 1 if len(stop) else len(other)
        assert torch.equal(mine[:until], other[:until])


# ---------------------------------------------------------------------------- position schemes


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 20), (16, 64)])
def test_buckets_equal_t5s(bidirectional, n_buckets, max_distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-3 * max_distance, 3 * max_distance)
    theirs = T5Attention._relative_position_bucket(
        distance, bidirectional=bidirectional, num_buckets=n_buckets, max_distance=max_distance
    )
    ours = T5Bias(1, n_buckets, max_distance, bidirectional).bucket(distance)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_unscaled_attention_with_the_bias_equals_t5s(bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    config = transformers.T5Config(
        d_model=D_MODEL, d_kv=4, num_heads=2, relative_attention_num_buckets=8,
        relative_attention_max_distance=20, dropout_rate=0.0, is_decoder=not bidirectional,
    )  # fmt: skip
    theirs = scrambled(T5Attention(config, has_relative_attention_bias=True)).eval()
    scheme = T5Bias(2, 8, 20, bidirectional)
    ours = MultiHeadAttention(D_MODEL, 2, positions=scheme, bias=False, scale=1.0).double()
    state = theirs.state_dict()
    names = {"query": "q", "key": "k", "value": "v", "out": "o"}
    copied = {f"{ours}.weight": state[f"{name}.weight"] for ours, name in names.items()}
    copied["positions.table"] = state["relative_attention_bias.weight"]
    ours.load_state_dict(copied)
    x = randn(2, 14, D_MODEL)
    assert_same(ours(x), theirs(x)[0])


def test_rotary_turns_are_llamas_up_to_the_order_of_channels():
    from transformers.models.llama import modeling_llama as llama

    config = transformers.LlamaConfig(
        hidden_size=12, num_attention_heads=2, max_position_embeddings=64, rope_theta=10_000.0
    )
    x = randn(2, 2, 9, 6).float()
    i = torch.arange(5, 14)
    cos, sin = llama.LlamaRotaryEmbedding(config)(x, i[None])
    halves = [0, 2, 4, 1, 3, 5]
    theirs, _ = llama.apply_rotary_pos_emb(x[..., halves], x[..., halves], cos, sin)
    ours = RoPE(6).rotate(x, i)
    assert_same(ours[..., halves], theirs, rtol=0, atol=1e-5)
    mixed, _ = llama.apply_rotary_pos_emb(x, x, cos, sin)
    assert not torch.allclose(ours, mixed, atol=1e-2)  # not interchangeable without it


def test_neighbouring_pairs_are_gptjs():
    from transformers.models.gptj import modeling_gptj as gptj

    x = randn(2, 9, 3, 6).float()  # GPT-J keeps the head axis behind the tokens
    table = gptj.create_sinusoidal_positions(32, 6)[None, 5:14].expand(2, 9, 6)
    sin, cos = table.split(3, dim=-1)
    theirs = gptj.apply_rotary_pos_emb(x, sin, cos)
    ours = RoPE(6).rotate(x.transpose(1, 2), torch.arange(5, 14)).transpose(1, 2)
    assert_same(ours, theirs, rtol=0, atol=1e-5)
