"""What stands where no token is reaches nothing: outputs, gradients and centroids of real tokens."""

import math

import pytest
import torch

from tinyattn import sparse_attention
from tinyattn.content import SAC, LSHRouter, RoutingRouter, SinkhornRouter
from tinyattn.patterns import BlockLocal, Causal, Full, Global, Random, Strided, Window

from ..close import assert_same
from ..transformer.tiny import randn

B, H, N, D = 2, 2, 12, 4
REAL = torch.arange(N) < torch.tensor([[N], [7]])
UNREAL = ~REAL[:, None, :, None].expand(B, H, N, D)
JUNK = pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e300])

ROUTERS = {
    "lsh": lambda causal: LSHRouter(4, 2, causal=causal),
    "routing": lambda causal: RoutingRouter(H, 3, D, causal=causal),
    "balanced routing": lambda causal: RoutingRouter(H, 3, D, membership="balanced", causal=causal),
    "sinkhorn": lambda causal: SinkhornRouter(H, D, block_size=4, n_blocks=3, causal=causal),
    "sac": lambda causal: SAC(H, D, edges_per_token=3, causal=causal),
}
PATTERNS = {
    "full": Full(),
    "window": Window(2),
    "blocks": BlockLocal(4),
    "two groupings": Window(1) | Strided(5),
    "globals": Window(1) | Global(2),
    "edges": Random(N, 3, seed=0) & Causal(),
}


def qkv():
    return randn(3, B, H, N, D).unbind()


def spoiled(x, junk):
    return x.masked_fill(UNREAL, junk)


def of_real(out):
    return out.transpose(1, 2)[REAL]


@JUNK
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ROUTERS)
def test_a_router_reads_no_padding(name, causal, junk):
    torch.manual_seed(0)
    router = ROUTERS[name](causal).double().eval()
    found = []
    for filler in (0.0, junk):
        q, k, v = qkv()
        if name in ("lsh", "routing", "balanced routing"):  # others answer padded queries as well
            q = spoiled(q, filler)
        q, k, v = (x.requires_grad_() for x in (q, spoiled(k, filler), spoiled(v, filler)))
        out = of_real(router.attend(q, k, v, key_padding=REAL))
        found.append((out, *torch.autograd.grad(out.square().sum(), (q, v))))
    for clean, dirty in zip(*found, strict=True):
        assert_same(dirty, clean)


@JUNK
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_reads_no_padding(name, junk):
    found = []
    for filler in (0.0, junk):
        q, k, v = qkv()
        k, v = (spoiled(x, filler).requires_grad_() for x in (k, v))
        q = q.clone().requires_grad_()
        out = of_real(sparse_attention(q, k, v, PATTERNS[name], key_padding=REAL))
        found.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for clean, dirty in zip(*found, strict=True):
        assert_same(dirty, clean)


@JUNK
def test_centroids_move_towards_real_tokens_alone(junk):
    found = []
    for filler in (0.0, junk):
        router = RoutingRouter(H, 3, D, decay=0.5).double()
        q, k, _ = (spoiled(x, filler) for x in qkv())
        router.initialise(q, k, key_padding=REAL)
        router.update(q, k, key_padding=REAL)
        found.append((router.centroids, router.counts))
    for clean, dirty in zip(*found, strict=True):
        assert_same(dirty, clean)
