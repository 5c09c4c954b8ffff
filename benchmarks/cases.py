"""What is measured: dense fused attention, every pattern and every router, on the same tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tinyattn import sparse_attention
from tinyattn.content import (
    RoutingRouter,
    lsh_attention,
    routing_attention,
    sinkhorn_attention,
)
from tinyattn.patterns import (
    BlockLocal,
    Dilated,
    Global,
    Pattern,
    Random,
    Window,
    axial_columns,
    axial_rows,
    bigbird,
    bp_transformer,
    etc,
    image_2d,
    longformer,
    sparse_fixed,
    sparse_strided,
    star_transformer,
)

BATCH, N_HEADS, D_HEAD = 1, 8, 64
THREADS = 2
DENSE = "dense/torch"  # what everything is compared with
DENSE_UP_TO = 16_384
UP_TO = 65_536


@dataclass(frozen=True)
class Ready:
    """A call that can be timed, and what gradients are taken of; the result is shaped like q."""

    inputs: tuple[Tensor, ...]
    call: Callable[..., Tensor]


@dataclass(frozen=True)
class Case:
    """One implementation of one piece of work.

    Args:
        name: "work/who does it"; cases with the same work answer the same question.
        make: gets q, k, v (b, h, n, d_head) and does all that is not to be timed.
        runs_at: whether the case can be run, and is worth it, at n tokens.
    """

    name: str
    make: Callable[[Tensor, Tensor, Tensor], Ready]
    runs_at: Callable[[int], bool] = lambda n: n <= UP_TO

    @property
    def work(self) -> str:
        return self.name.split("/")[0]


def _etc(n: int) -> Pattern:
    """64 summaries of 64 sentences, as equal in length as they can be."""
    n_global = 64
    length, rest = divmod(n - n_global, n_global)
    return etc(n_global, w=84, sentences=(length + 1,) * rest + (length,) * (n_global - rest))


def _tiles(n: int) -> Pattern:
    """Tiles of 16 × 16 and 8 pixels around, of a picture as square as its n pixels allow."""
    height = max(side for side in range(1, math.isqrt(n) + 1) if n % side == 0)
    return image_2d(height, n // height, block=16, flange=8, causal=False)


PATTERNS: dict[str, Callable[[int], Pattern]] = {
    "window": lambda n: Window(256),
    "longformer": lambda n: longformer(w=256, g=16),
    "bigbird": lambda n: bigbird(n, block_size=64, r=3, seed=0),
    "etc": _etc,
    "blocks": lambda n: BlockLocal(512),
    "random-blocks": lambda n: Random(n, r=min(5, n // 64), seed=0, block_size=64),
    "dilated": lambda n: Dilated(64, dilation=16),
    "image-2d": _tiles,
    "global": lambda n: Global(16),
    "star": lambda n: star_transformer(),
    "random-8": lambda n: Random(n, r=8, seed=0),
    "random-32": lambda n: Random(n, r=32, seed=0),
    "strided": lambda n: sparse_strided(128),
    "fixed": lambda n: sparse_fixed(128, c=8),
}
WORDS = {  # for readers of the results
    "dense": "every key",
    "window": "256 keys on each side",
    "longformer": "256 keys on each side, 16 global tokens",
    "bigbird": "blocks of 64: both neighbours, 3 random ones, the first and the last global",
    "etc": "84 keys on each side, 64 global tokens, each the summary of a sentence",
    "blocks": "blocks of 512",
    "random-blocks": "5 random blocks of 64",
    "dilated": "64 keys on each side, 16 apart",
    "image-2d": "tiles of 16 × 16 pixels and 8 more on each side",
    "axial": "the row of a pixel, plus its column: two calls, and their sum",
    "tree": "BP-Transformer, up to 4 nodes on each side at each step: half of the nodes are tokens",
    "global": "16 global tokens, which alone read every key",
    "star": "one key on each side, one relay",
    "random-8": "8 random keys",
    "random-32": "32 random keys",
    "strided": "the last 128 keys and every 128th before, causal",
    "fixed": "the own block of 128 and the last 8 keys of every earlier one, causal",
    "lsh": "4 rounds of hashing to n / 64 buckets, chunks of 64, one chunk back",
    "lsh-causal": "the same among earlier tokens: chunks begin where buckets do, and are a quarter as long",
    "routing": "about √n clusters, each with the √n queries and keys nearest to it",
    "sinkhorn": "blocks of 64: the own one and a mixture of all, after 8 iterations of Sinkhorn",
}
NOT_LINEAR = ("strided", "fixed")  # n² / 128 and n² / 16 pairs, halved by the causal rule
LINEAR = tuple(work for work in PATTERNS if work not in NOT_LINEAR)


def ours(work: str) -> str:
    """The name of tinyattn's case."""
    return f"{work}/tinyattn"


def tensors(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random q, k, v of which gradients can be taken."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, BATCH, N_HEADS, n, D_HEAD, generator=generator).unbind()
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def _dense(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    return Ready((q, k, v), F.scaled_dot_product_attention)


def _sparse(work: str) -> Callable[[Tensor, Tensor, Tensor], Ready]:
    def make(q: Tensor, k: Tensor, v: Tensor) -> Ready:
        pattern = PATTERNS[work](q.shape[2])
        return Ready((q, k, v), lambda q, k, v: sparse_attention(q, k, v, pattern))

    return make


def _axial(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    width = math.isqrt(q.shape[2])
    rows, columns = axial_rows(width), axial_columns(width)
    return Ready(
        (q, k, v),
        lambda q, k, v: sparse_attention(q, k, v, rows) + sparse_attention(q, k, v, columns),
    )


def _tree(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    n = q.shape[2] // 2
    pattern = bp_transformer(n, k=4)
    nodes = tuple(x.detach()[:, :, : 2 * n - 1].contiguous().requires_grad_() for x in (q, k, v))
    return Ready(nodes, lambda q, k, v: sparse_attention(q, k, v, pattern))


def is_square(n: int) -> bool:
    return math.isqrt(n) ** 2 == n


LAYOUTS: dict[str, Callable[[Tensor, Tensor, Tensor], Ready]] = {"axial": _axial, "tree": _tree}


def _lsh(*, causal: bool) -> Callable[[Tensor, Tensor, Tensor], Ready]:
    def make(q: Tensor, k: Tensor, v: Tensor) -> Ready:
        n_buckets = q.shape[2] // 64
        options = {"n_buckets": n_buckets, "n_hashes": 4, "chunk_size": 64, "causal": causal}
        return Ready((q, v), lambda qk, v: lsh_attention(qk, v, **options))

    return make


def cluster_size(n: int) -> int:
    """A power of two near √n, and at least 64."""
    return max(64, 2 ** round(math.log2(math.sqrt(n))))


def _routing(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    size = cluster_size(q.shape[2])
    router = RoutingRouter(N_HEADS, q.shape[2] // size, D_HEAD)
    router.initialise(q.detach(), k.detach())
    options = {"membership": "balanced", "cluster_size": size}
    return Ready((q, k, v), lambda q, k, v: routing_attention(q, k, v, router.centroids, **options))


def _sinkhorn(q: Tensor, k: Tensor, v: Tensor) -> Ready:
    n_blocks = q.shape[2] // 64
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(BATCH, N_HEADS, n_blocks, n_blocks, generator=generator)
    return Ready((q, k, v, scores.requires_grad_()), sinkhorn_attention)


ROUTERS: dict[str, Callable[[Tensor, Tensor, Tensor], Ready]] = {
    "lsh": _lsh(causal=False),
    "lsh-causal": _lsh(causal=True),
    "routing": _routing,
    "sinkhorn": _sinkhorn,
}
CASES = [
    Case(DENSE, _dense, runs_at=lambda n: n <= DENSE_UP_TO),
    *(Case(ours(work), _sparse(work)) for work in PATTERNS),
    *(
        Case(ours(work), make, runs_at=lambda n: 512 <= n <= UP_TO)
        for work, make in ROUTERS.items()
    ),
    Case(ours("axial"), _axial, runs_at=lambda n: n <= UP_TO and is_square(n)),
    Case(ours("tree"), _tree, runs_at=lambda n: n <= UP_TO and n & (n - 1) == 0),
]
