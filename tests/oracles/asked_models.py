"""The models of transformers whose conventions are asked for, built small and random."""

import torch
from torch import Tensor, nn

from .asking import Answers, empty, mark, own, randn, scale, window

N = 8
TINY = {"vocab_size": 11, "hidden_size": N, "num_attention_heads": 1, "num_hidden_layers": 1,
        "intermediate_size": 8}  # fmt: skip


def transformers() -> Answers:
    return bert() | gpt2() | mistral() | longformer() | bigbird() | long_t5() | reformer()


def transparent(layer: nn.Module, names: tuple[str, str, str], x: Tensor) -> nn.Module:
    """Queries and keys become x, and values the unit vectors: what comes out is the weights."""
    query, key, value = (getattr(layer, name) for name in names)
    with torch.no_grad():
        for linear, weight in (
            (query, torch.eye(len(x))), (key, torch.eye(len(x))), (value, torch.linalg.inv(x).T),
        ):  # fmt: skip
            linear.weight.copy_(weight)
            if linear.bias is not None:
                linear.bias.zero_()
    return layer


def tokens(n: int) -> Tensor:
    """Different enough that the values can be told apart."""
    return torch.linalg.qr(randn(n, n)).Q + 0.2 * randn(n, n, seed=1)


def with_attentions(model: nn.Module, **inputs: object) -> Tensor:
    """The weights that a model says it used, (n_q, n_k)."""
    out = model.double().eval()(output_attentions=True, **inputs)
    return out.attentions[0][0, 0].detach()


def bert() -> Answers:
    from transformers import BertConfig, BertModel
    from transformers.models.bert.modeling_bert import BertSelfAttention

    config = BertConfig(**TINY, attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False)
    ids = torch.ones(1, 5, dtype=torch.long)
    mask = torch.tensor([[0, 0, 1, 0, 0]])
    x = tokens(N)
    names = ("query", "key", "value")
    layer = transparent(BertSelfAttention(config).double().eval(), names, x)
    return {
        "BertModel, attention_mask": {
            "mask": mark(with_attentions(model, input_ids=ids, attention_mask=mask)[0], mask[0]),
            "scale": scale(layer(x[None])[0][0].detach(), x, x),
            "empty": empty(with_attentions(model, input_ids=ids, attention_mask=0 * mask)[0]),
        }
    }


def gpt2() -> Answers:
    from transformers import DynamicCache, GPT2Config, GPT2Model

    model = GPT2Model(
        GPT2Config(vocab_size=11, n_embd=N, n_head=1, n_layer=1, attn_implementation="eager")
    )
    ids = torch.ones(1, 5, dtype=torch.long)
    cache = DynamicCache(config=model.config)
    model.double().eval()(input_ids=ids[:, :3], cache=cache, use_cache=True)
    found = with_attentions(model, input_ids=ids[:, 3:], cache=cache)
    last = [row.gt(1e-9).nonzero().max().item() for row in found]
    assert found.shape == (2, 5)
    return {
        "GPT2Model, with a cache": {
            "causal": {3: "last query at last key", 0: "first query at first key"}[last[0]]
        }
    }


def mistral() -> Answers:
    from transformers import MistralConfig, MistralModel

    config = MistralConfig(
        **TINY, num_key_value_heads=1, sliding_window=4, attn_implementation="eager"
    )
    found = with_attentions(MistralModel(config), input_ids=torch.ones(1, 24, dtype=torch.long))
    return {"MistralModel, sliding_window=4": {"window": window(found, 13)}}


def longformer() -> Answers:
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    x = tokens(24)
    config = LongformerConfig(**TINY | {"hidden_size": 24}, attention_window=[4])
    layer = LongformerSelfAttention(config, layer_id=0).double().eval()
    transparent(layer, ("query", "key", "value"), x)

    def called(left_out: list[int]) -> Tensor:
        marks = torch.zeros(1, 24, dtype=x.dtype)
        marks[:, left_out] = -10_000
        out = layer(
            x[None], attention_mask=marks, is_index_masked=marks < 0,
            is_index_global_attn=marks > 0, is_global_attn=False,
        )  # fmt: skip
        return out[0][0].detach()

    found = called([])
    return {
        "LongformerSelfAttention, attention_window=4": {
            "window": window(found, 13),
            "scale": scale(found, x, x),
            "empty": empty(called([11, 12, 13, 14, 15])[13]),
        }
    }


def bigbird() -> Answers:
    from transformers import BigBirdConfig
    from transformers.models.big_bird import modeling_big_bird

    n, size = 48, 4
    x = tokens(n)
    config = BigBirdConfig(
        **TINY | {"hidden_size": n}, block_size=size, num_random_blocks=1, use_bias=False
    )
    layer = modeling_big_bird.BigBirdBlockSparseAttention(config).double().eval()
    transparent(layer, ("query", "key", "value"), x)
    make_masks = modeling_big_bird.BigBirdModel.create_masks_for_block_sparse_attn
    blocked, band, from_mask, to_mask = make_masks(torch.ones(1, n, dtype=x.dtype), size)
    found = layer(x[None], band, from_mask, to_mask, blocked, blocked)[0][0].detach()
    found[:, :size] = 0  # read by everybody, and by some twice: see test_bigbird.py
    beside = found.clone()
    beside[:, -size:] = 0  # read by everybody too
    return {
        "BigBirdBlockSparseAttention, block_size=4": {
            "window": window(beside, 25),
            "scale": scale(found, x, x),
        }
    }


def long_t5() -> Answers:
    from transformers import LongT5Config
    from transformers.models.longt5 import modeling_longt5 as modeling

    x = tokens(24)
    config = LongT5Config(d_model=24, d_kv=24, num_heads=1, local_radius=4, dropout_rate=0.0)
    layer = modeling.LongT5LocalAttention(config).double().eval()
    transparent(layer, ("q", "k", "v"), x)
    with torch.no_grad():
        layer.o.weight.copy_(torch.eye(24))
    mask = modeling._get_local_attention_mask(torch.ones(1, 24), layer.block_len, x.device)
    found = layer(x[None], mask=mask)[0][0].detach()
    return {
        "LongT5LocalAttention, local_radius=4": {
            "window": window(found, 13),
            "scale": scale(found, x, x),
        }
    }


def reformer() -> Answers:
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    x = tokens(16)
    config = ReformerConfig(
        hidden_size=16, num_attention_heads=1, attention_head_size=16, lsh_attn_chunk_length=8,
        num_hashes=1, num_buckets=2, hash_seed=0, is_decoder=False,
    )  # fmt: skip
    layer = LSHSelfAttention(config).double().eval()
    transparent(layer, ("query_key", "query_key", "value"), x)
    with torch.random.fork_rng():  # it seeds the global generator
        found = layer(x[None]).hidden_states[0].detach()
    return {
        "Reformer's LSHSelfAttention": {
            "window": own(found),
            "scale": scale(found, x, x),
        }
    }
