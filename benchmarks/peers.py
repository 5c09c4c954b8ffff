"""The same work in other libraries, on the same q, k and v. Each is optional.

Layers that project their input first get q, k and v through `Given` instead, so that only
attention is measured and the result can be compared. Where nothing else is said, a call equals
dense attention under the pattern's mask.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.cases import (
    CASES,
    D_HEAD,
    LAYOUTS,
    N_HEADS,
    PATTERNS,
    ROUTERS,
    Case,
    Ready,
    cluster_size,
)
from benchmarks.timing import Missing

D_MODEL = N_HEADS * D_HEAD
PEERS_UP_TO = 16_384  # where they are compared
LONG = 32_768  # those whose time is linear go on; at twice that, one turn would take a minute


def between(least: int, most: int) -> Callable[[int], bool]:
    return lambda n: least <= n <= most


class Given(nn.Module):
    """Stands where a layer has a projection, and returns what it was given instead."""

    def forward(self, x: Tensor) -> Tensor:
        return self.x


class GivenCopy(Given):
    """For transformers' Longformer, which scales its queries in place."""

    def forward(self, x: Tensor) -> Tensor:
        return self.x.clone()


def merged_heads(x: Tensor) -> Tensor:
    """(b, h, n, d_head) as (b, n, d_model), a new leaf for gradients."""
    return x.detach().transpose(1, 2).flatten(2).requires_grad_()


# --------------------------------------------------------------------- FlexAttention, compiled


Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _bigbird_rule(n: int) -> Rule:
    at = torch.arange(0, n, 64)
    blocks = PATTERNS["bigbird"](n).allowed(at[:, None], at)
    return lambda b, h, i, j: blocks[i // 64, j // 64]


FLEX_RULES: dict[str, Callable[[int], Rule]] = {  # as its users write them
    "window": lambda n: lambda b, h, i, j: (i - j).abs() <= 256,
    "longformer": lambda n: lambda b, h, i, j: ((i - j).abs() <= 256) | (i < 16) | (j < 16),
    "bigbird": _bigbird_rule,
    "blocks": lambda n: lambda b, h, i, j: i // 512 == j // 512,
}


def flex(work: str) -> Callable[[Tensor, Tensor, Tensor], Ready]:
    """FlexAttention, compiled for this n. Its block mask takes O(n²) memory to build."""

    def make(q: Tensor, k: Tensor, v: Tensor) -> Ready:
        if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
            raise Missing("a C++ compiler, which FlexAttention needs")
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        n = q.shape[2]
        blocks = create_block_mask(FLEX_RULES[work](n), None, None, n, n, device="cpu")
        # At its default limit, or without fullgraph, it may run uncompiled, many times slower, and
        # only warn.
        torch._dynamo.config.recompile_limit = 64
        compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)

        def call(*inputs: Tensor) -> Tensor:
            if not torch.is_grad_enabled():  # it refuses tensors that could have gradients
                inputs = tuple(x.detach() for x in inputs)
            return compiled(*inputs, block_mask=blocks)

        with torch.no_grad():
            call(q, k, v)  # compiled here
        return Ready((q, k, v), call)

    return make


# ---------------------------------------------------------------------------- local-attention


def local_window(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    from local_attention import LocalAttention

    layer = LocalAttention(
        window_size=256,
        causal=False,
        look_backward=1,
        look_forward=1,
        exact_windowsize=True,
        use_rotary_pos_emb=False,
    )
    return Ready((q, k, v), layer.eval())


def local_blocks(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    from local_attention import LocalAttention

    layer = LocalAttention(
        window_size=512, causal=False, look_backward=0, look_forward=0, use_rotary_pos_emb=False
    )
    return Ready((q, k, v), layer.eval())


# ------------------------------------------------------------------------------- transformers


def hf_longformer(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    """Output (b, n, d_model). The global projections get the same q, k and v as the local ones."""
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    n, n_global = q.shape[2], 16
    config = LongformerConfig(
        hidden_size=D_MODEL,
        num_attention_heads=N_HEADS,
        num_hidden_layers=1,
        attention_window=[2 * 256],
        attention_probs_dropout_prob=0.0,
    )
    layer = LongformerSelfAttention(config, 0).eval()
    layer.query, layer.key, layer.value = GivenCopy(), Given(), Given()
    layer.query_global, layer.key_global, layer.value_global = GivenCopy(), Given(), Given()
    is_global = torch.arange(n)[None] < n_global
    masks = {
        "attention_mask": is_global.float() * 10_000,
        "is_index_masked": torch.zeros(1, n, dtype=torch.bool),
        "is_index_global_attn": is_global,
        "is_global_attn": True,
    }

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # the layer turns its input to (n, b, d_model) before it projects
        layer.query.x = q.transpose(0, 1)
        layer.query_global.x = layer.query.x[:n_global]
        layer.key.x = layer.key_global.x = k.transpose(0, 1)
        layer.value.x = layer.value_global.x = v.transpose(0, 1)
        return layer(q, **masks)[0]

    return Ready(tuple(map(merged_heads, (q, k, v))), call)


def hf_bigbird(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    """In training mode without dropout: in evaluation it leaves its random blocks out.

    It draws other blocks than tinyattn, as many of them, for each head. Output (b, n, d_model).
    """
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import (
        BigBirdBlockSparseAttention,
        BigBirdModel,
    )

    n = q.shape[2]
    config = BigBirdConfig(
        hidden_size=D_MODEL,
        num_attention_heads=N_HEADS,
        block_size=64,
        num_random_blocks=3,
        attention_type="block_sparse",
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=n,
    )
    layer = BigBirdBlockSparseAttention(config, seed=0).train()
    layer.query, layer.key, layer.value = Given(), Given(), Given()
    blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(
        torch.ones(1, n), 64
    )

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        layer.query.x, layer.key.x, layer.value.x = q, k, v
        return layer(q, band, rows, columns, blocked, blocked)[0]

    return Ready(tuple(map(merged_heads, (q, k, v))), call)


# ------------------------------------------------------------------------------ by content


def reformer(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    """Four rounds of hashing, chunks of 64, one chunk back; queries are keys."""
    from reformer_pytorch import LSHAttention

    layer = LSHAttention(bucket_size=64, n_hashes=4, causal=False).eval()
    folded = [x.detach().flatten(0, 1).requires_grad_() for x in (q, v)]  # (b * h, n, d_head)
    return Ready(tuple(folded), lambda qk, v: layer(qk, v)[0])


def routing(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    """About √n clusters, each with the √n queries and keys nearest to it."""
    from routing_transformer.routing_transformer import KmeansAttention

    n = q.shape[2]
    size = cluster_size(n)
    layer = KmeansAttention(n // size, size, N_HEADS, D_HEAD, causal=False).eval()
    layer.requires_grad_(False)
    with torch.no_grad():
        layer(q, k, v)  # the first call places the centroids
    return Ready((q, k, v), lambda q, k, v: layer(q, k, v)[0])


# -------------------------------------- work that tinyattn has no case for: only when asked for


class _Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x], dim=-1)


def axial(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    """Rows plus columns of a square; one tensor serves as q, k and v."""
    from axial_attention import AxialAttention

    side = math.isqrt(q.shape[2])
    layer = AxialAttention(dim=D_MODEL, num_dimensions=2, heads=N_HEADS, dim_index=-1).eval()
    for along in layer.axial_attentions:
        along.fn.to_q, along.fn.to_kv, along.fn.to_out = nn.Identity(), _Twice(), nn.Identity()
    image = q.detach().transpose(1, 2).reshape(1, side, side, D_MODEL).requires_grad_()
    return Ready((image,), layer)


_FLEX = "torch.nn.attention.flex_attention"
_PEERS = [  # the module that must be there, and the case
    *(
        (_FLEX, Case(f"{work}/FlexAttention", flex(work), between(128, PEERS_UP_TO)))
        for work in FLEX_RULES
    ),
    ("local_attention", Case("window/local-attention", local_window, between(256, LONG))),
    ("local_attention", Case("blocks/local-attention", local_blocks, between(512, PEERS_UP_TO))),
    ("transformers", Case("longformer/transformers", hf_longformer, between(512, LONG))),
    ("transformers", Case("bigbird/transformers", hf_bigbird, between(1024, PEERS_UP_TO))),
    ("reformer_pytorch", Case("lsh/reformer-pytorch", reformer, between(512, PEERS_UP_TO))),
    (
        "routing_transformer",
        Case("routing/routing-transformer", routing, between(512, PEERS_UP_TO)),
    ),
    (
        "axial_attention",
        Case(
            "axial/axial-attention",
            axial,
            lambda n: n <= PEERS_UP_TO and math.isqrt(n) ** 2 == n,
        ),
    ),
]
PEERS = [case for _, case in _PEERS]
LIBRARIES = {case.name: module for module, case in _PEERS}
ALL = {case.name: case for case in [*CASES, *PEERS]}


def chosen(only: list[str] | None) -> list[Case]:
    """Cases by their names or their work; all that tinyattn takes part in, if none are named.

    Raises:
        ValueError: if a name is unknown.
    """
    if only is None:
        only = ["dense", *PATTERNS, *ROUTERS, *LAYOUTS]
    known = {*ALL, *(case.work for case in ALL.values())}
    if unknown := [name for name in only if name not in known]:
        raise ValueError(f"no case is called {', '.join(unknown)}; there are {', '.join(ALL)}")
    return [case for case in ALL.values() if case.name in only or case.work in only]
