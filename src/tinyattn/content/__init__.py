"""Routers: attention whose sparsity is decided by the content of the tokens."""

from tinyattn.content.router import (
    Router,
    Rule,
    RulePerHead,
    routed_attention,
    routed_weights,
    update_routers,
)

__all__ = [
    "Router",
    "Rule",
    "RulePerHead",
    "routed_attention",
    "routed_weights",
    "update_routers",
]
