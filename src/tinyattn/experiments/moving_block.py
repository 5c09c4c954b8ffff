"""The needed block moves: every block says which other block it has to be read beside."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.content import Rule, SinkhornRouter, update_routers
from tinyattn.patterns import BlockLocal, Window
from tinyattn.training import seeded, train
from tinyattn.transformer import FeedForward, MultiHeadAttention
from tinyattn.transformer.generate import evaluating

BAR = 0.10  # accuracy by which Sinkhorn attention has to beat a band of as many pairs
RULES = ("sinkhorn", "band", "blocks", "dense")


@dataclass(frozen=True)
class MovingBlockConfig:
    """What is trained and for how long.

    Args:
        n_blocks: blocks in a sequence.
        block_size: tokens in a block, the address included.
        n_symbols: different symbols.
        d_model: width of a token vector, and of the one head.
        batch_size: sequences in a step.
        steps: how many steps.
        lr: highest learning rate.
        noise: whether the sort gets Gumbel noise in training.
        n_test: sequences that are tested.
    """

    n_blocks: int = 8
    block_size: int = 8
    n_symbols: int = 16
    d_model: int = 64
    batch_size: int = 32
    steps: int = 250
    lr: float = 3e-3
    noise: bool = False
    n_test: int = 256


def draw(
    config: MovingBlockConfig, b: int, generator: torch.Generator
) -> tuple[
    Int64[Tensor, "b n_blocks block_size"],
    Int64[Tensor, "b n_blocks"],
    Int64[Tensor, "b n_blocks block_size"],
]:
    """Tokens, the block that each block needs, and what each token has to say.

    The first token of a block is the number of the block it needs, the others are symbols. Each
    symbol has to name the one that stands at its own place in the needed block. Which block that
    is, is drawn anew for each sequence: a permutation.
    """
    shape = (b, config.n_blocks, config.block_size)
    tokens = torch.randint(config.n_symbols, shape, generator=generator)
    needed = torch.rand(shape[:2], generator=generator).argsort(dim=1)
    target = tokens.gather(1, needed[:, :, None].expand(shape))
    tokens[:, :, 0] = config.n_symbols + needed
    return tokens, needed, target


class BlockReader(nn.Module):
    """One head of attention under a rule, and a feed-forward layer that names a symbol."""

    def __init__(self, config: MovingBlockConfig, rule: Rule | None) -> None:
        super().__init__()
        d_model = config.d_model
        self.embed = nn.Embedding(config.n_symbols + config.n_blocks, d_model)
        self.place = nn.Embedding(config.block_size, d_model)
        self.block = nn.Embedding(config.n_blocks, d_model)
        self.norms = nn.ModuleList([nn.LayerNorm(d_model), nn.LayerNorm(d_model)])
        self.attention = MultiHeadAttention(d_model, 1, pattern=rule)
        self.feed_forward = FeedForward(d_model, 2 * d_model)
        self.name = nn.Linear(d_model, config.n_symbols)

    def vectors(self, tokens: Int64[Tensor, "b n_blocks size"]) -> Float[Tensor, "b n d_model"]:
        """Token, place in the block, and number of the block, added up."""
        x = self.embed(tokens) + self.place.weight + self.block.weight[:, None]
        return x.flatten(1, 2)

    def forward(
        self, tokens: Int64[Tensor, "b n_blocks size"]
    ) -> Float[Tensor, "b n_blocks size n_symbols"]:
        x = self.vectors(tokens)
        x = x + self.attention(self.norms[0](x))
        x = self.feed_forward(self.norms[1](x))
        return self.name(x).unflatten(1, tokens.shape[1:])

    def sort(
        self, tokens: Int64[Tensor, "b n_blocks size"]
    ) -> Float[Tensor, "b n_blocks n_blocks"]:
        """S of the one head, if the rule sorts: of which blocks each is shown a mixture."""
        x = self.norms[0](self.vectors(tokens))
        q, k = (
            self.attention.split_heads(to(x)) for to in (self.attention.query, self.attention.key)
        )
        return self.attention.pattern.sort(q, k)[:, 0]


def build(config: MovingBlockConfig, seed: int, rule: str = "sinkhorn") -> BlockReader:
    """The untrained model of a seed; band and blocks have as many pairs as the sorted blocks."""
    size = config.block_size
    with seeded(seed):
        made: dict[str, Rule | None] = {
            "band": Window(size),
            "blocks": BlockLocal(2 * size),
            "dense": None,
            "sinkhorn": SinkhornRouter(
                1, config.d_model, block_size=size, n_blocks=config.n_blocks, noise=config.noise
            ),
        }
        return BlockReader(config, made[rule])


def fit(model: BlockReader, config: MovingBlockConfig, seed: int) -> list[float]:
    """Train on sequences that are drawn anew in each step."""

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        tokens, _, target = draw(config, config.batch_size, generator)
        logits = model(tokens)[:, :, 1:]  # an address has nothing to name
        return F.cross_entropy(logits.flatten(0, 2), target[:, :, 1:].flatten())

    return train(
        model,
        loss,
        config.steps,
        lr=config.lr,
        warmup=20,
        after_step=lambda: update_routers(model),
        seed=seed,
        label="moving block",
    )


def tested(config: MovingBlockConfig) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences that no training draws."""
    return draw(config, config.n_test, torch.Generator().manual_seed(1_000_000))


def accuracy(model: BlockReader, config: MovingBlockConfig) -> float:
    """Share of symbols that are named rightly."""
    tokens, _, target = tested(config)
    with evaluating(model):
        return float((model(tokens).argmax(dim=-1) == target)[:, :, 1:].double().mean())


def recovered(model: BlockReader, config: MovingBlockConfig) -> float:
    """Share of blocks next to which mostly the needed one is sorted."""
    tokens, needed, _ = tested(config)
    with evaluating(model):
        return float((model.sort(tokens).argmax(dim=-1) == needed).double().mean())
