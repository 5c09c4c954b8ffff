"""Pictures generated pixel by pixel: digits under 1-D, 2-D and axial attention."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.data import digits
from tinyattn.patterns import (
    Causal,
    Pattern,
    axial_columns,
    axial_rows,
    generation_order,
    image_1d,
    image_2d,
)
from tinyattn.training import seeded, train
from tinyattn.transformer import AxialPositions, AxialTransformer, EncoderLayer, TransformerConfig
from tinyattn.transformer.embedding import Embedding
from tinyattn.transformer.generate import evaluating
from tinyattn.transformer.positions import Positions

HEIGHT = WIDTH = 8
N = HEIGHT * WIDTH
LEVELS = 17  # values of a pixel, 0 … 16
N_TEST = 450
MODELS = ("1-D local", "2-D local", "axial", "deep axial")


@dataclass(frozen=True)
class PixelsConfig:
    """What is trained and for how long.

    Axial attention has a third of the local patterns' pairs in a layer. A second axial model spends
    what is left on more layers: about as many pairs as the local models in all, and, since its
    layers are narrower, about as many parameters.

    Args:
        block_size: pixels in a block of the 1-D pattern.
        memory: pixels before it.
        block: side of a tile of the 2-D pattern.
        flange: its border.
        d_model: width of a token vector.
        n_heads: heads in each attention.
        n_layers: layers of each model; of the axial one, two are outer and the others inner.
        n_outer_deep: pairs of a row and a column layer in the outer part of the deep axial model.
        n_inner_deep: its inner layers.
        d_model_deep: its width.
        d_ff_deep: width of its feed-forward layers.
        dropout: share of each sub-layer's outputs set to zero in training.
        batch_size: pictures in a step.
        steps: how many steps.
        lr: highest learning rate.
    """

    block_size: int = 16
    memory: int = 13
    block: int = 4
    flange: int = 2
    d_model: int = 48
    n_heads: int = 4
    n_layers: int = 4
    n_outer_deep: int = 3
    n_inner_deep: int = 8
    d_model_deep: int = 24
    d_ff_deep: int = 61
    dropout: float = 0.1
    batch_size: int = 32
    steps: int = 300
    lr: float = 4e-3

    @property
    def transformer(self) -> TransformerConfig:
        return TransformerConfig(
            vocab_size=LEVELS,
            d_model=self.d_model,
            n_heads=self.n_heads,
            d_ff=2 * self.d_model,
            n_layers=self.n_layers,
            dropout=self.dropout,
        )


class LocalPixels(nn.Module):
    """Scores each pixel from those generated before it, under one pattern in every layer.

    The vector at a pixel's place is that of the pixel generated just before it, with the place's
    own row and column added: a layer whose pattern follows the order of generation never shows a
    pixel itself or what comes later.

    Args:
        config: sizes.
        pattern: which places may read which, in raster order.
        order: raster positions in the order in which they are generated.
    """

    def __init__(
        self, config: TransformerConfig, pattern: Pattern, order: Int64[Tensor, "n"]
    ) -> None:
        super().__init__()
        self.register_buffer("order", order, persistent=False)
        self.embedding = Embedding(config.vocab_size, config, Positions())
        self.positions = AxialPositions(HEIGHT, WIDTH, config.d_model)
        self.layers = nn.ModuleList(
            EncoderLayer(config, pattern=pattern) for _ in range(config.n_layers)
        )
        self.norm = nn.LayerNorm(config.d_model)
        self.to_logits = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, pixels: Int64[Tensor, "b n"]) -> Float[Tensor, "b n levels"]:
        values = self.embedding(pixels)
        x = torch.zeros_like(values)
        x[:, self.order[1:]] = values[:, self.order[:-1]]
        x = self.positions.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.to_logits(self.norm(x))


def patterns(name: str, config: PixelsConfig) -> list[Pattern]:
    """The rule of each layer of a model."""
    if name == "1-D local":
        return [image_1d(config.block_size, config.memory)] * config.n_layers
    if name == "2-D local":
        return [image_2d(HEIGHT, WIDTH, config.block, config.flange)] * config.n_layers
    rows, columns = axial_rows(WIDTH), axial_columns(WIDTH)
    _, n_outer, n_inner = _axial(name, config)
    return [rows, columns & Causal()] * n_outer + [rows & Causal()] * n_inner


def _axial(name: str, config: PixelsConfig) -> tuple[TransformerConfig, int, int]:
    """Sizes of an axial model, its outer pairs of layers, and its inner layers."""
    if name == "axial":
        return replace(config.transformer, n_layers=1), 1, config.n_layers - 2
    deep = {"d_model": config.d_model_deep, "d_ff": config.d_ff_deep}
    sizes = replace(config.transformer, n_layers=config.n_outer_deep, **deep)
    return sizes, config.n_outer_deep, config.n_inner_deep


def order_of(name: str, config: PixelsConfig) -> Int64[Tensor, "n"]:
    """Raster positions in the order in which a model generates them."""
    tiles = config.block if name == "2-D local" else (HEIGHT, WIDTH)
    return generation_order(HEIGHT, WIDTH, tiles)


def build(name: str, config: PixelsConfig, seed: int) -> nn.Module:
    """The untrained model of a seed."""
    if name not in MODELS:
        raise ValueError(f"there is {', '.join(MODELS)}, got {name!r}")
    with seeded(seed):
        if "axial" in name:
            sizes, _, n_inner = _axial(name, config)
            return AxialTransformer(sizes, HEIGHT, WIDTH, n_inner=n_inner)
        rule = patterns(name, config)[0]
        return LocalPixels(config.transformer, rule, order_of(name, config))


def split() -> tuple[Int64[Tensor, "n_train n"], Int64[Tensor, "n_test n"]]:
    """Pictures as whole numbers in raster order: to train on, and to test on."""
    images = digits()[0].long().flatten(1)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return images[order[N_TEST:]], images[order[:N_TEST]]


def fit(model: nn.Module, config: PixelsConfig, seed: int) -> list[float]:
    """Train on pictures drawn at random; losses are nats per pixel."""
    images, _ = split()

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        batch = images[torch.randint(len(images), (config.batch_size,), generator=generator)]
        return F.cross_entropy(model(batch).flatten(0, 1), batch.flatten())

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label="pixels")


def bits_per_dimension(model: nn.Module) -> float:
    """Mean of -log₂ p over the pixels of the test pictures."""
    _, images = split()
    with evaluating(model):
        nats = [
            F.cross_entropy(model(batch).flatten(0, 1), batch.flatten(), reduction="sum")
            for batch in images.split(150)
        ]
    return float(sum(nats)) / images.numel() / math.log(2)


def order_2_bits() -> float:
    """The same measure for counts of a pixel's value after those to its left and above it.

    Witten and Bell's interpolation, from both neighbours to the left one alone, to none, to all
    values alike; beyond the edge stands a value of its own.
    """
    trained, tested = (_neighbours(images) for images in split())
    p = torch.full((len(tested),), 1 / LEVELS, dtype=torch.float64)
    for kept in ((), (0,), (0, 1)):
        base = LEVELS + 1
        keys = [
            sum((part[:, at] * base**at for at in kept), torch.zeros(len(part), dtype=torch.long))
            for part in (trained, tested)
        ]
        counts = torch.zeros(base ** len(kept), LEVELS, dtype=torch.float64)
        counts.index_put_(
            (keys[0], trained[:, 2]), torch.ones(len(trained)).double(), accumulate=True
        )
        seen, kinds = counts.sum(dim=1)[keys[1]], (counts > 0).sum(dim=1)[keys[1]]
        mixed = (counts[keys[1], tested[:, 2]] + kinds * p) / (seen + kinds).clamp(min=1)
        p = torch.where(seen > 0, mixed, p)
    return float(-p.log2().mean())


def _neighbours(images: Int64[Tensor, "b n"]) -> Int64[Tensor, "m 3"]:
    """Left, above and the pixel itself, for every pixel."""
    grid = F.pad(images.unflatten(1, (HEIGHT, WIDTH)), (1, 0, 1, 0), value=LEVELS)
    return torch.stack([grid[:, 1:, :-1], grid[:, :-1, 1:], grid[:, 1:, 1:]], dim=-1).flatten(0, 2)


def sample(model: nn.Module, order: Int64[Tensor, "n"], count: int, seed: int) -> Tensor:
    """Pictures drawn pixel by pixel in the model's order, (count, height, width)."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.zeros(count, N, dtype=torch.long)
    with evaluating(model):
        for at in order.tolist():
            p = model(images)[:, at].softmax(dim=-1)
            images[:, at] = torch.multinomial(p, 1, generator=generator)[:, 0]
    return images.unflatten(1, (HEIGHT, WIDTH))
