"""One marked symbol among many, to be said at the end: which kind of layer carries it how far?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.analysis import parameters
from tinyattn.experiments.records import record, timed
from tinyattn.families import Convolution, FullyConnected, Recurrence
from tinyattn.training import seeded, train
from tinyattn.transformer import MultiHeadAttention
from tinyattn.transformer.generate import evaluating

BAR = 0.99  # accuracy of a solved distance
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class CopyConfig:
    """What is trained and for how long.

    Args:
        n: symbols in a sequence.
        n_symbols: how many different ones there are; each has a marked twin.
        n_layers: mixing layers, all of one kind, in each model.
        budget: parameters that a model may have; d_model follows for each kind.
        width: symbols that a kernel sees, its own and those before.
        batch_size: sequences in a step.
        steps: how many steps.
        lr: highest learning rate.
        n_test: sequences that are tested, equally many at each distance.
    """

    n: int = 25
    n_symbols: int = 8
    n_layers: int = 2
    budget: int = 21_000
    width: int = 5
    batch_size: int = 32
    steps: int = 400
    lr: float = 5e-3
    n_test: int = 5000


Layer = Callable[[CopyConfig, int, int], nn.Module]  # of a config, d_model and its depth

LAYERS: dict[str, Layer] = {
    "self-attention": lambda c, d_model, depth: MultiHeadAttention(d_model, 1),
    "fully connected": lambda c, d_model, depth: FullyConnected(c.n, d_model),
    "convolution": lambda c, d_model, depth: Convolution(d_model, c.width, causal=True),
    "dilated convolution": lambda c, d_model, depth: Convolution(
        d_model, c.width, dilation=c.width**depth, causal=True
    ),
    "recurrent": lambda c, d_model, depth: Recurrence(d_model),
}


class Copier(nn.Module):
    """Layers of one kind, each with a residual connection; the last position says a symbol.

        x ← x + layer(relu(x))

    Nothing else moves anything from one position to another, and no vector tells a position
    which one it is.
    """

    def __init__(self, kind: str, config: CopyConfig, d_model: int) -> None:
        super().__init__()
        if kind not in LAYERS:
            raise ValueError(f"there is {', '.join(LAYERS)}, got {kind!r}")
        self.embedding = nn.Embedding(2 * config.n_symbols, d_model)
        self.layers = nn.ModuleList(
            LAYERS[kind](config, d_model, depth) for depth in range(config.n_layers)
        )
        self.to_logits = nn.Linear(d_model, config.n_symbols)

    def mix(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        """What all layers make of token vectors."""
        for layer in self.layers:
            x = x + layer(x.relu())
        return x

    def forward(self, tokens: Int64[Tensor, "b n"]) -> Float[Tensor, "b n_symbols"]:
        return self.to_logits(self.mix(self.embedding(tokens))[:, -1])


def d_model_of(kind: str, config: CopyConfig) -> int:
    """The largest d_model whose model stays within the budget of parameters.

    Raises:
        ValueError: if not even a width of 1 does.
    """
    d_model = 0
    with seeded(0):
        while parameters(Copier(kind, config, d_model + 1)) <= config.budget:
            d_model += 1
    if d_model == 0:
        raise ValueError(f"budget={config.budget} is too small for any model of kind {kind!r}")
    return d_model


def build(kind: str, config: CopyConfig, seed: int) -> Copier:
    """The untrained model of a seed."""
    d_model = d_model_of(kind, config)
    with seeded(seed):
        return Copier(kind, config, d_model)


def draw(
    config: CopyConfig, distance: Int64[Tensor, "b"], generator: torch.Generator
) -> tuple[Int64[Tensor, "b n"], Int64[Tensor, "b"]]:
    """Random symbols, one of them marked, and which one that is.

    The mark stands `distance` positions before the last; a marked symbol is its number plus
    n_symbols.
    """
    symbols = torch.randint(config.n_symbols, (len(distance), config.n), generator=generator)
    at = (config.n - 1 - distance)[:, None]
    marked = torch.arange(config.n) == at
    return symbols + config.n_symbols * marked, symbols.gather(1, at)[:, 0]


def fit(model: Copier, config: CopyConfig, seed: int) -> list[float]:
    """Train on sequences drawn afresh at each step, at every distance alike."""

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        distance = torch.randint(config.n, (config.batch_size,), generator=generator)
        tokens, answers = draw(config, distance, generator)
        return F.cross_entropy(model(tokens), answers)

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label="copying")


def by_distance(model: Copier, config: CopyConfig) -> list[float]:
    """Share of right answers at each distance from 0 to n - 1; chance is 1 / n_symbols."""
    distance = torch.arange(config.n_test) % config.n
    tokens, answers = draw(config, distance, torch.Generator().manual_seed(2**31))
    with evaluating(model):
        said = torch.cat([model(some).argmax(dim=-1) for some in tokens.split(200)])
    right = torch.bincount(distance, weights=(said == answers).double())
    return (right / torch.bincount(distance)).tolist()


def run(config: CopyConfig, kind: str, seed: int) -> dict:
    """Train one kind of layer with one seed; what is kept of it."""
    model = build(kind, config, seed)
    losses, seconds = timed(lambda: fit(model, config, seed))
    shares = by_distance(model, config)
    return {
        "kind": kind,
        "d_model": model.embedding.embedding_dim,
        "parameters": parameters(model),
        **record(seed, losses, seconds, {"accuracy": sum(shares) / len(shares)}),
        "by_distance": [round(share, 4) for share in shares],
    }
