"""Routers: attention whose sparsity is decided by the content of the tokens."""

from tinyattn.content.router import (
    Router,
    Rule,
    RulePerHead,
    routed_attention,
    routed_weights,
    update_routers,
)
from tinyattn.content.sinkhorn import (
    gumbel,
    hardened,
    matched_pattern,
    sinkhorn,
    sinkhorn_attention,
    sortcut_attention,
)
from tinyattn.content.sorting import SinkhornRouter, SortingNetwork, block_sums

__all__ = [
    "Router",
    "Rule",
    "RulePerHead",
    "SinkhornRouter",
    "SortingNetwork",
    "block_sums",
    "gumbel",
    "hardened",
    "matched_pattern",
    "routed_attention",
    "routed_weights",
    "sinkhorn",
    "sinkhorn_attention",
    "sortcut_attention",
    "update_routers",
]
