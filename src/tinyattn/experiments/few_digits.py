"""What a layer believes beforehand, against how many labelled pictures it gets to see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.analysis import parameters
from tinyattn.experiments.digits import accuracy, patches, split
from tinyattn.experiments.records import record, timed
from tinyattn.patterns import Painted
from tinyattn.training import seeded, train
from tinyattn.transformer import AxialPositions, FeedForward, MultiHeadAttention
from tinyattn.transformer.positions import Positions

PATCH = 2  # height and width in pixels
SIDE = 8 // PATCH  # patches in a row, and in a column
ALL = 1347  # every picture that is not tested
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class FewDigitsConfig:
    """What is trained and for how long.

    Args:
        sizes: how many labelled pictures, as many of each digit; `ALL` takes every one.
        n_layers: layers, each a mixing one and a feed-forward one.
        budget: parameters that a model may have; d_model follows for each kind.
        n_heads: heads in each attention.
        batch_size: pictures in a step.
        steps: how many steps, whatever the number of pictures.
        lr: highest learning rate.
    """

    sizes: tuple[int, ...] = (30, 200, ALL)
    n_layers: int = 2
    budget: int = 24_000
    n_heads: int = 4
    batch_size: int = 32
    steps: int = 300
    lr: float = 4e-3


class GridConvolution(nn.Module):
    """A kernel of three by three patches that slides over the grid; beyond its edges are zeros."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.kernel = nn.Conv2d(d_model, d_model, 3, padding=1)

    def forward(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        grid = x.transpose(1, 2).unflatten(2, (SIDE, SIDE))  # (b, d_model, row, column)
        return self.kernel(grid).flatten(2).transpose(1, 2)


class GridBias(Positions):
    """A learned number for each head and each step from patch to patch, added to the score."""

    shared = False
    in_scores = True

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(n_heads, 2 * SIDE - 1, 2 * SIDE - 1).normal_())

    def score_bias(
        self,
        q: Float[Tensor, "b h n_q d_head"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
        scale: float,
    ) -> Float[Tensor, "h n_q n_k"]:
        down = j // SIDE - (i // SIDE)[:, None]  # (n_q, n_k)
        right = j % SIDE - (i % SIDE)[:, None]
        return self.table[:, down + SIDE - 1, right + SIDE - 1]


def neighbours() -> Painted:
    """A band in two dimensions: each patch reads itself and the up to eight around it."""
    at = torch.arange(SIDE**2)
    row, col = at // SIDE, at % SIDE
    return Painted(((row[:, None] - row).abs() <= 1) & ((col[:, None] - col).abs() <= 1))


Layer = Callable[[FewDigitsConfig, int], nn.Module]  # of a config and d_model

LAYERS: dict[str, Layer] = {
    "convolution": lambda c, d_model: GridConvolution(d_model),
    "attention": lambda c, d_model: MultiHeadAttention(d_model, c.n_heads),
    "attention, band": lambda c, d_model: MultiHeadAttention(
        d_model, c.n_heads, pattern=neighbours()
    ),
    "attention, relative bias": lambda c, d_model: MultiHeadAttention(
        d_model, c.n_heads, positions=GridBias(c.n_heads)
    ),
}


class Classifier(nn.Module):
    """Patches are mixed by layers of one kind, each before a feed-forward one; their mean is named.

    Every kind gets the same learned vectors for rows and columns.
    """

    def __init__(self, kind: str, config: FewDigitsConfig, d_model: int) -> None:
        super().__init__()
        if kind not in LAYERS:
            raise ValueError(f"there is {', '.join(LAYERS)}, got {kind!r}")
        self.embed = nn.Linear(PATCH**2, d_model)
        self.positions = AxialPositions(SIDE, SIDE, d_model)
        sublayers = []
        for _ in range(config.n_layers):
            sublayers += [LAYERS[kind](config, d_model), FeedForward(d_model, 2 * d_model)]
        self.sublayers = nn.ModuleList(sublayers)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in sublayers)
        self.norm = nn.LayerNorm(d_model)
        self.classify = nn.Linear(d_model, 10)

    def forward(self, images: Float[Tensor, "b 8 8"]) -> Float[Tensor, "b 10"]:
        x = self.positions.embed(self.embed(patches(images, (PATCH, PATCH))))
        for norm, sublayer in zip(self.norms, self.sublayers, strict=True):
            x = x + sublayer(norm(x))
        return self.classify(self.norm(x).mean(dim=1))


def d_model_of(kind: str, config: FewDigitsConfig) -> int:
    """The largest multiple of n_heads whose model stays within the budget of parameters.

    Raises:
        ValueError: if not even n_heads itself does.
    """
    d_model, step = 0, config.n_heads
    with seeded(0):
        while parameters(Classifier(kind, config, d_model + step)) <= config.budget:
            d_model += step
    if d_model == 0:
        raise ValueError(f"budget={config.budget} is too small for any model of kind {kind!r}")
    return d_model


def build(kind: str, config: FewDigitsConfig, seed: int) -> Classifier:
    """The untrained model of a seed."""
    d_model = d_model_of(kind, config)
    with seeded(seed):
        return Classifier(kind, config, d_model)


def labelled(size: int, seed: int) -> Int64[Tensor, "size"]:
    """Which pictures are trained on: drawn from a seed, as many of each digit, or all.

    Fewer are always among more of the same seed.

    Raises:
        ValueError: if size is neither a multiple of 10 that every digit has, nor `ALL`.
    """
    _, labels, _, _ = split()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    if size == len(labels):
        return order
    fewest = int(labels.bincount().min())
    if size % 10 or not 0 < size <= 10 * fewest:
        raise ValueError(
            f"size must be {ALL} or a multiple of 10 from 10 to {10 * fewest}, got {size}"
        )
    return torch.cat([order[labels[order] == digit][: size // 10] for digit in range(10)])


def fit(model: Classifier, config: FewDigitsConfig, size: int, seed: int) -> list[float]:
    """Train on `size` pictures as they are: moving them would teach what is to be compared."""
    images, labels, _, _ = split()
    chosen = labelled(size, seed)

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        at = chosen[torch.randint(size, (config.batch_size,), generator=generator)]
        return F.cross_entropy(model(images[at]), labels[at])

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label="few digits")


def run(config: FewDigitsConfig, kind: str, size: int, seed: int) -> dict:
    """Train one kind of layer on so many pictures with one seed; what is kept of it."""
    model = build(kind, config, seed)
    losses, seconds = timed(lambda: fit(model, config, size, seed))
    return {
        "kind": kind,
        "size": size,
        "d_model": model.embed.out_features,
        "parameters": parameters(model),
        **record(seed, losses, seconds, {"accuracy": accuracy(model)}),
    }
