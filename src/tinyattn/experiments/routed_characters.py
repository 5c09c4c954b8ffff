"""The longer characters with narrow windows: are half of the heads better spent on routing?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from tinyattn.content import Router, RoutingRouter, RulePerHead, nearest
from tinyattn.experiments import characters
from tinyattn.experiments.characters import CharactersConfig
from tinyattn.experiments.long_characters import Heads, heads, held_out
from tinyattn.experiments.records import record, timed
from tinyattn.patterns import Causal, Pattern, Window
from tinyattn.training import seeded
from tinyattn.transformer import Decoder, RoPE

SEEDS = (0, 1)
BAR = 0.05  # how far the cost of the local heads may lie from that of the mixed ones
DRAWN_TO_START = 4  # stretches of training text among which the first centroids are found


@dataclass(frozen=True)
class RoutedCharactersConfig(CharactersConfig):
    """What is trained and for how long.

    Args:
        w: keys that the local heads beside routing heads read before their own.
        w_alone: the same where all heads are local; wide enough to cost as much.
        n_clusters: centroids of each routing head, about √n.
        decay: how much of its memory a centroid keeps in a step.
    """

    n: int = 256
    batch_size: int = 8
    steps: int = 800
    lr: float = 5e-3
    w: int = 15
    w_alone: int = 20
    n_clusters: int = 16
    decay: float = 0.99


CONFIG = RoutedCharactersConfig()


def rules(config: RoutedCharactersConfig) -> dict[str, RulePerHead]:
    """What the heads of a layer follow in each of the models."""
    half = config.n_heads // 2
    n_routing, d_head = config.n_heads - half, config.d_model // config.n_heads
    router = RoutingRouter(
        n_routing, config.n_clusters, d_head, causal=True, decay=config.decay, seed=0
    )
    narrow, wide = (Window(w) & Causal() for w in (config.w, config.w_alone))
    return {
        "local": wide,
        "local and routing": (narrow,) * half + (router,) * n_routing,
        "dense": Causal(),
    }


def trainings(config: RoutedCharactersConfig) -> list[tuple[str, int]]:
    """What is trained with which seed: dense heads, which only set a scale, with one."""
    return [
        (name, seed) for name in rules(config) for seed in (SEEDS[:1] if name == "dense" else SEEDS)
    ]


def build(config: RoutedCharactersConfig, name: str, seed: int) -> Decoder:
    """The untrained model of a seed; with the same parameters whatever its heads follow."""
    with seeded(seed):
        model = characters.build(config, seed, RoPE, rules(config)[name])
    start_centroids(model, first_tokens(config))
    return model


def first_tokens(config: RoutedCharactersConfig) -> Int64[Tensor, "b n"]:
    """Stretches of the training text, far from each other."""
    ids, kept, _ = characters.text()
    starts = [block.start for block in kept if block.stop - block.start >= config.n]
    step = len(starts) // DRAWN_TO_START
    return torch.stack([ids[at : at + config.n] for at in starts[::step][:DRAWN_TO_START]])


def start_centroids(model: Decoder, tokens: Int64[Tensor, "b n"]) -> None:
    """Begin each router with k-means on the q and k that its layer makes of some tokens."""
    for layer, (q, k, _) in zip(model.layers, heads(tokens, model), strict=True):
        for router, own in routing_heads(layer.attention.pattern):
            router.initialise(q[:, own], k[:, own])


def routing_heads(pattern: RulePerHead) -> list[tuple[RoutingRouter, list[int]]]:
    """The routers among the rules of a layer, each with its heads."""
    if not isinstance(pattern, tuple):
        return []
    routers = [rule for rule in dict.fromkeys(pattern) if isinstance(rule, Router)]
    return [(rule, [at for at, own in enumerate(pattern) if own is rule]) for rule in routers]


def keys_per_query(model: Decoder, tokens: Int64[Tensor, "b n"] | None = None) -> float:
    """What a query costs, in keys: the mean over all heads, layers and tokens.

    A key costs two products, one for its score and one for its value. A routing head computes
    whole clusters, and to find them multiplies each query and each key by each centroid, which
    is one product: n_clusters more keys for each query.
    """
    tokens = held_out() if tokens is None else tokens
    n, costs = tokens.shape[1], []
    for layer, parts in zip(model.layers, heads(tokens, model), strict=True):
        pattern, n_heads = layer.attention.pattern, layer.attention.n_heads
        local = pattern if isinstance(pattern, tuple) else (pattern,) * n_heads
        costs += [rule.edges(n) / n for rule in local if isinstance(rule, Pattern)]
        for router, own in routing_heads(pattern):
            costs += [pairs / n + router.centroids.shape[1] for pairs in _pairs(parts, router, own)]
    return sum(costs) / len(costs)


def _pairs(parts: Heads, router: RoutingRouter, own: list[int]) -> list[float]:
    """Pairs of a query and a key of one cluster, for each head, the mean over the sequences."""
    n_clusters = router.centroids.shape[1]
    counts = [
        torch.nn.functional.one_hot(nearest(x[:, own], router.centroids), n_clusters).sum(dim=2)
        for x in (parts.q, parts.k)
    ]  # (b, h, n_clusters) each
    return (counts[0] * counts[1]).sum(dim=2).double().mean(dim=0).tolist()


def cost_ratio(runs: list[dict]) -> float:
    """What all local heads cost over what local and routing ones cost, in the mean of the seeds."""
    keys = {run["heads"]: [] for run in runs}
    for run in runs:
        keys[run["heads"]].append(run["scores"]["keys"])
    means = {name: sum(costs) / len(costs) for name, costs in keys.items()}
    return means["local"] / means["local and routing"]


def run(config: RoutedCharactersConfig, name: str, seed: int) -> dict:
    """Train one model with one seed; what is kept of it."""
    model = build(config, name, seed)
    losses, seconds = timed(lambda: characters.fit(model, config, seed))
    scores = {
        "bits": characters.bits_per_character(model, config.n),
        "keys": keys_per_query(model, held_out(8, config.n)),
    }
    return {"heads": name, **record(seed, losses, seconds, scores)}
