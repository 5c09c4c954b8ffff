"""A hidden dependency graph: what a token has to know stands at places that nobody tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from tinyattn.content import (
    RunningMean,
    SACRouter,
    policy_loss,
    reward_to_go,
    update_routers,
)
from tinyattn.patterns import Causal, Pattern, Random, Window
from tinyattn.training import seeded, train
from tinyattn.transformer import FeedForward, MultiHeadAttention
from tinyattn.transformer.generate import evaluating

BAR = 0.8  # share of hidden edges that every seed has to find
BUDGETS = (1, 2, 3, 4)
RULES = ("sac", "random", "band")


@dataclass(frozen=True)
class HiddenGraphConfig:
    """What is trained and for how long.

    Args:
        n: tokens in a sequence.
        n_symbols: different symbols.
        n_graphs: hidden graphs, one of which is in force in a sequence.
        n_parents: hidden edges of a token.
        edges_per_token: the budget.
        d_model: width of a token vector, of the one head and of the LSTM.
        batch_size: sequences in a step.
        steps: how many steps.
        lr: highest learning rate.
        entropy: weight of the bonus for undecided edges at first.
        entropy_steps: steps after which that bonus has shrunk to zero.
        to_go: whether an edge also earns what later tokens earn, or only what its own token does.
        n_test: sequences that are tested.
    """

    n: int = 12
    n_symbols: int = 8
    n_graphs: int = 2
    n_parents: int = 2
    edges_per_token: int = 2
    d_model: int = 32
    batch_size: int = 64
    steps: int = 400
    lr: float = 8e-3
    entropy: float = 2.0
    entropy_steps: int = 250
    to_go: bool = False
    n_test: int = 512


def hidden_graphs(config: HiddenGraphConfig, seed: int) -> Int64[Tensor, "n_graphs n n_parents"]:
    """For each graph and token the tokens it depends on, never itself."""
    order = torch.rand(
        config.n_graphs, config.n, config.n - 1, generator=torch.Generator().manual_seed(seed)
    ).argsort(dim=-1)
    step = 1 + order[:, :, : config.n_parents]
    return (torch.arange(config.n)[:, None] + step) % config.n


def draw(
    config: HiddenGraphConfig, parents: Tensor, b: int, generator: torch.Generator
) -> tuple[Int64[Tensor, "b n"], Int64[Tensor, "b"], Bool[Tensor, "b n n_symbols"]]:
    """Symbols, the graph in force, and which symbols stand at each token's parents."""
    symbols = torch.randint(config.n_symbols, (b, config.n), generator=generator)
    graph = torch.randint(config.n_graphs, (b,), generator=generator)
    read = symbols[torch.arange(b)[:, None, None], parents[graph]]  # (b, n, n_parents)
    return symbols, graph, F.one_hot(read, config.n_symbols).amax(dim=2).bool()


class GraphReader(nn.Module):
    """One head of attention under a rule, and a feed-forward layer that says which symbols."""

    def __init__(self, config: HiddenGraphConfig, rule: Pattern | SACRouter) -> None:
        super().__init__()
        d_model = config.d_model
        self.symbol = nn.Embedding(config.n_symbols, d_model)
        self.place = nn.Embedding(config.n, d_model)
        self.graph = nn.Embedding(config.n_graphs, d_model)
        self.attention = MultiHeadAttention(d_model, 1, pattern=rule)
        self.norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, 2 * d_model)
        self.name = nn.Linear(d_model, config.n_symbols)
        self.baseline = RunningMean(0.9, (config.n,))

    def forward(
        self, symbols: Int64[Tensor, "b n"], graph: Int64[Tensor, "b"]
    ) -> Float[Tensor, "b n n_symbols"]:
        x = self.symbol(symbols) + self.place.weight + self.graph(graph)[:, None]
        return self.name(self.feed_forward(self.norm(self.attention(x))))


def build(config: HiddenGraphConfig, seed: int, rule: str = "sac") -> GraphReader:
    """The untrained model of a seed; every rule has edges_per_token edges and one to oneself."""
    budget, own = config.edges_per_token, Window(0)
    with seeded(seed):
        if rule == "sac":
            router = SACRouter(
                1,
                config.d_model,
                edges_per_token=budget,
                d_hidden=config.d_model,
                seed=seed,
            )
            return GraphReader(config, router)
        if rule == "random":
            return GraphReader(config, Random(config.n, budget, seed, exclude=own) | own)
        return GraphReader(config, Window(budget // 2) | Window((budget + 1) // 2) & Causal())


def fit(
    model: GraphReader,
    config: HiddenGraphConfig,
    seed: int,
    watch: Callable[[int], None] | None = None,
) -> list[float]:
    """Train on sequences that are drawn anew in each step; `watch` is called before each."""
    parents, step = hidden_graphs(config, seed), 0

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        nonlocal step
        if watch is not None:
            watch(step)
        symbols, graph, target = draw(config, parents, config.batch_size, generator)
        logits = model(symbols, graph)
        lost = F.binary_cross_entropy_with_logits(logits, target.float(), reduction="none").sum(-1)
        total = lost.mean()
        if isinstance(model.attention.pattern, SACRouter):
            total = total + _policy(model, config, -lost, step)
        step += 1
        return total

    return train(
        model,
        loss,
        config.steps,
        lr=config.lr,
        warmup=20,
        after_step=lambda: update_routers(model),
        seed=seed,
        label="hidden graph",
    )


def _policy(
    model: GraphReader, config: HiddenGraphConfig, reward: Float[Tensor, "b n"], step: int
) -> Float[Tensor, ""]:
    """What moves the predictor: reward above the mean of its token, and doubt while it is young."""
    drawn = model.attention.pattern.last
    advantage = reward.detach() - model.baseline.value
    if config.to_go:
        earned = reward_to_go(advantage, config.edges_per_token)
    else:
        earned = advantage.repeat_interleave(config.edges_per_token, dim=-1)
    model.baseline.update(reward.mean(dim=0))
    bonus = config.entropy * max(0.0, 1 - step / config.entropy_steps)
    return policy_loss(drawn.log_p[:, 0], earned) / config.n - bonus * drawn.entropy.mean()


def scores(model: GraphReader, config: HiddenGraphConfig, seed: int) -> dict[str, float]:
    """`accuracy`: tokens whose symbols are all right. `recovered`: hidden edges that are there."""
    parents = hidden_graphs(config, seed)
    generator = torch.Generator().manual_seed(1_000_000 + seed)
    symbols, graph, target = draw(config, parents, config.n_test, generator)
    with evaluating(model):
        right = ((model(symbols, graph) > 0) == target).all(dim=-1)
    found = edges(model, config, len(symbols)).gather(2, parents[graph])
    return {
        "accuracy": float(right.double().mean()),
        "recovered": float(found.double().mean()),
    }


def edges(model: GraphReader, config: HiddenGraphConfig, b: int) -> Bool[Tensor, "b n n"]:
    """The graphs of the last call, or the one of a pattern."""
    rule = model.attention.pattern
    if isinstance(rule, SACRouter):
        return rule.last.edges.mask(config.n)[:, 0]
    return rule.mask(config.n).expand(b, -1, -1)
