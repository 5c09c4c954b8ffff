"""Weights of other people's layers, under the names they have here.

Each function maps a state dict to a state dict, and works on gradients as well as on values.
"""

from torch import Tensor, nn

State = dict[str, Tensor]

OURS_IN_TORCH = {
    "around_attention.norm": "norm1",
    "feed_forward.expand": "linear1",
    "feed_forward.contract": "linear2",
}


def under(state: State, prefix: str) -> State:
    """The part below a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in state.items() if name.startswith(prefix)}


def named(state: State, prefix: str) -> State:
    """The same under a prefix."""
    return {f"{prefix}{name}": value for name, value in state.items()}


def torch_attention(theirs: State) -> State:
    """nn.MultiheadAttention keeps q, k and v in one matrix, in this order."""
    ours = {"out.weight": theirs["out_proj.weight"], "out.bias": theirs["out_proj.bias"]}
    for part in ("weight", "bias"):
        rows = theirs[f"in_proj_{part}"].chunk(3)
        ours |= {
            f"{name}.{part}": row for name, row in zip(("query", "key", "value"), rows, strict=True)
        }
    return ours


def torch_encoder_layer(theirs: State) -> State:
    ours = named(torch_attention(under(theirs, "self_attn.")), "attention.")
    parts = {**OURS_IN_TORCH, "around_feed_forward.norm": "norm2"}
    return ours | _renamed(theirs, parts)


def torch_decoder_layer(theirs: State) -> State:
    ours = named(torch_attention(under(theirs, "self_attn.")), "attention.")
    ours |= named(torch_attention(under(theirs, "multihead_attn.")), "cross_attention.")
    parts = {"around_cross_attention.norm": "norm2", "around_feed_forward.norm": "norm3"}
    return ours | _renamed(theirs, {**OURS_IN_TORCH, **parts})


def gradients(module: nn.Module) -> State:
    """Gradients under the names of the parameters."""
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def _renamed(theirs: State, parts: dict[str, str]) -> State:
    return {
        f"{ours}.{part}": theirs[f"{name}.{part}"]
        for ours, name in parts.items()
        for part in ("weight", "bias")
    }
