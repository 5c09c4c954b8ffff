"""Libraries whose conventions are asked for: a function each, answers by way of calling."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from .asking import (
    Answers,
    Attend,
    causal,
    empty,
    mark,
    only,
    own,
    randn,
    scale,
    weights,
    window,
)


def tinyattn() -> Answers:
    from tinyattn import attention, sparse_attention
    from tinyattn.patterns import Causal, Window

    def masked(mask: Tensor) -> Attend:
        return lambda q, k, v: attention(q, k, v, mask)

    def ruled(pattern: object) -> Attend:
        return lambda q, k, v: sparse_attention(q, k, v, pattern)

    return {
        "attention(q, k, v, mask)": {
            "mask": mark(weights(masked(only(2)), 3, 5)[0][0], only(2)[0]),
            "scale": scale(*weights(attention, 5)),
            "empty": empty(weights(masked(torch.zeros(3, 5, dtype=torch.bool)), 3, 5)[0][0]),
        },
        "Window(4)": {"window": window(weights(ruled(Window(4)), 24)[0], 12)},
        "Causal()": {"causal": causal(ruled(Causal()))},
    }


def torch_calls() -> Answers:
    return torch_functions() | torch_layer()


def torch_functions() -> Answers:
    from torch.nn.attention.bias import causal_lower_right

    sdpa = F.scaled_dot_product_attention

    def masked(mask: Tensor) -> Attend:
        return lambda q, k, v: sdpa(q, k, v, attn_mask=mask)

    return {
        "scaled_dot_product_attention": {
            "mask": mark(weights(masked(only(2)), 3, 5)[0][0], only(2)[0]),
            "causal": causal(lambda q, k, v: sdpa(q, k, v, is_causal=True)),
            "scale": scale(*weights(sdpa, 5)),
            "empty": empty(weights(masked(torch.zeros(3, 5, dtype=torch.bool)), 3, 5)[0][0]),
        },
        "bias.causal_lower_right": {
            "causal": causal(
                lambda q, k, v: sdpa(q, k, v, causal_lower_right(q.shape[2], k.shape[2]))
            )
        },
    }


def torch_layer() -> Answers:
    def called(name: str, mask: Tensor | None = None, **options: object) -> Attend:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            d = q.shape[-1]
            layer = torch.nn.MultiheadAttention(d, 1, bias=False, batch_first=True).double()
            with torch.no_grad():
                layer.in_proj_weight.copy_(torch.eye(d, dtype=torch.float64).repeat(3, 1))
                layer.out_proj.weight.copy_(torch.eye(d))
            return layer(q[0], k[0], v[0], **{name: mask}, **options)[0][None].detach()

        return attend

    nothing = torch.ones(3, 5, dtype=torch.bool)
    return {
        "nn.MultiheadAttention, attn_mask": {
            "mask": mark(weights(called("attn_mask", only(2)), 3, 5)[0][0], only(2)[0]),
            "scale": scale(*weights(called("attn_mask"), 5)),
            "empty": empty(weights(called("attn_mask", nothing), 3, 5)[0][0]),
        },
        "nn.MultiheadAttention, key_padding_mask": {
            "mask": mark(weights(called("key_padding_mask", only(2, 1)), 3, 5)[0][0], only(2)[0]),
            "empty": empty(weights(called("key_padding_mask", nothing[:1]), 3, 5)[0][0]),
        },
    }


def flex() -> Answers:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def ruled(rule: Callable[..., Tensor]) -> Attend:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            blocks = create_block_mask(rule, None, None, q.shape[2], k.shape[2], device="cpu")
            return flex_attention(q, k, v, block_mask=blocks)

        return attend

    return {
        "mask_mod": {
            "mask": mark(weights(ruled(lambda b, h, i, j: j == 2), 3, 5)[0][0], only(2)[0]),
            "causal": causal(ruled(lambda b, h, i, j: j <= i)),
            "scale": scale(*weights(flex_attention, 5)),
            "empty": empty(weights(ruled(lambda b, h, i, j: j < 0), 3, 5)[0][0]),
        }
    }


def local_attention() -> Answers:
    from local_attention import LocalAttention

    def layer(mask: Tensor | None = None, **options: object) -> Attend:
        local = LocalAttention(window_size=4, use_rotary_pos_emb=False, **options)
        return lambda q, k, v: local(q, k, v, mask=mask)

    exact = {"exact_windowsize": True}
    nothing = torch.zeros(1, 24, dtype=torch.bool)
    return {
        "window_size=4": {
            "mask": mark(weights(layer(only(2, 1, 8)), 8)[0][0], only(2, 1, 8)[0]),
            "window": window(weights(layer(), 24)[0], 13),
            "scale": scale(*weights(layer(), 8)),
            "empty": empty(weights(layer(nothing), 24)[0][13]),
        },
        "window_size=4, exact_windowsize": {"window": window(weights(layer(**exact), 24)[0], 13)},
        "window_size=4, causal": {
            "window": window(weights(layer(causal=True), 24)[0], 13),
            "causal": causal(layer(causal=True), 4, 8),
        },
        "window_size=4, exact_windowsize, causal": {
            "window": window(weights(layer(causal=True, **exact), 24)[0], 13)
        },
    }


def reformer_pytorch() -> Answers:
    from reformer_pytorch import LSHAttention

    def layer(mask: Tensor | None = None, **options: object) -> Attend:
        lsh = LSHAttention(bucket_size=8, n_hashes=1, **options).eval()

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            with torch.random.fork_rng():
                torch.manual_seed(0)
                return lsh(k[0], v[0], input_mask=mask)[0][None]

        return attend

    found, _, k = weights(layer(), 16)
    return {
        "LSHAttention": {
            "mask": mark(weights(layer(~only(2, 1, 16)), 16)[0][7], ~only(2, 1, 16)[0]),
            "window": own(found),
            "causal": causal(layer(causal=True), 8, 16),
            "scale": scale(found, k, k),
        }
    }


def routing_transformer() -> Answers:
    from routing_transformer.routing_transformer import KmeansAttention

    def layer(mask: Tensor | None = None) -> Attend:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            n = k.shape[2]
            routing = KmeansAttention(1, n, 1, q.shape[3], causal=False).double().eval()
            routing.kmeans.means.copy_(randn(1, 1, q.shape[3], seed=2))
            routing.kmeans.initted.fill_(True)
            every = torch.ones(1, q.shape[2], dtype=torch.bool)
            return routing(q, k, v, query_mask=every, key_mask=mask)[0].detach()

        return attend

    return {
        "KmeansAttention": {
            "mask": mark(weights(layer(only(2, 1, 8)), 8)[0][0], only(2, 1, 8)[0]),
            "scale": scale(*weights(layer(torch.ones(1, 8, dtype=torch.bool)), 8)),
        }
    }
