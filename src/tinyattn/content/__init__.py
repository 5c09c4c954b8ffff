"""Routers: attention whose sparsity is decided by the content of the tokens."""

from tinyattn.content.hashing import bucket_factors, lsh_buckets
from tinyattn.content.kmeans import RoutingRouter
from tinyattn.content.lsh import LSHRouter, lsh_attention, lsh_mask
from tinyattn.content.membership import chosen, nearest
from tinyattn.content.router import (
    Router,
    Rule,
    RulePerHead,
    routed_attention,
    routed_weights,
    update_routers,
)
from tinyattn.content.routing import routing_attention, routing_weights

__all__ = [
    "LSHRouter",
    "Router",
    "RoutingRouter",
    "Rule",
    "RulePerHead",
    "bucket_factors",
    "chosen",
    "lsh_attention",
    "lsh_buckets",
    "lsh_mask",
    "nearest",
    "routed_attention",
    "routed_weights",
    "routing_attention",
    "routing_weights",
    "update_routers",
]
