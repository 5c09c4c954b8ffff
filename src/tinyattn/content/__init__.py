"""Routers: attention whose sparsity is decided by the content of the tokens."""

from tinyattn.content.edges import Edges, edge_attention
from tinyattn.content.hashing import bucket_factors, lsh_buckets
from tinyattn.content.kmeans import RoutingRouter
from tinyattn.content.lsh import LSHRouter, lsh_attention, lsh_mask
from tinyattn.content.membership import chosen, nearest
from tinyattn.content.permutations import gumbel, hardened, matched_pattern, soft_permutation
from tinyattn.content.policy import RunningMean, policy_loss, reward_to_go
from tinyattn.content.predictor import Drawn, EdgePredictor
from tinyattn.content.router import (
    Router,
    Rule,
    RulePerHead,
    routed_attention,
    routed_weights,
    update_routers,
)
from tinyattn.content.routing import routing_attention, routing_weights
from tinyattn.content.sac import SACRouter, SameGraph
from tinyattn.content.sinkhorn import sinkhorn_attention, sortcut_attention
from tinyattn.content.sorting import SinkhornRouter, SortingNetwork, block_sums

SAC = SACRouter  # the short name

__all__ = [
    "SAC",
    "Drawn",
    "EdgePredictor",
    "Edges",
    "LSHRouter",
    "Router",
    "RoutingRouter",
    "Rule",
    "RulePerHead",
    "RunningMean",
    "SACRouter",
    "SameGraph",
    "SinkhornRouter",
    "SortingNetwork",
    "block_sums",
    "bucket_factors",
    "chosen",
    "edge_attention",
    "gumbel",
    "hardened",
    "lsh_attention",
    "lsh_buckets",
    "lsh_mask",
    "matched_pattern",
    "nearest",
    "policy_loss",
    "reward_to_go",
    "routed_attention",
    "routed_weights",
    "routing_attention",
    "routing_weights",
    "sinkhorn_attention",
    "soft_permutation",
    "sortcut_attention",
    "update_routers",
]
