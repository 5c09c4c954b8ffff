"""LSH attention against reformer-pytorch with its strict options, on the buckets that it drew."""

import pytest
import torch

from tinyattn.content import lsh_attention

from ..close import assert_same

library = pytest.importorskip(
    "reformer_pytorch", reason="reformer-pytorch is in requirements-oracles.txt"
)

N, SIZE = 64, 8  # it makes N / SIZE buckets, and chunks of SIZE
N_SHORT = 16  # buckets in which N tokens find room without filling a chunk


def short_buckets(rng):
    """Buckets of N tokens, each of SIZE tokens at most."""
    while True:
        drawn = torch.randint(N_SHORT, (N,), generator=rng)
        if drawn.bincount().max() <= SIZE:
            return drawn


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("n_hashes", [2, 4])
def test_rounds_unite_as_there_without_duplicates_and_other_buckets(n_hashes, causal):
    rng = torch.Generator().manual_seed(0)
    qk, v = (
        torch.randn(3, N, 6, generator=rng, dtype=torch.float64).requires_grad_() for _ in range(2)
    )
    # there chunks are read whole: the same where no bucket is longer than one
    short = torch.stack([short_buckets(rng) for _ in range(3 * n_hashes)]).view(3, n_hashes, N)
    layer = library.LSHAttention(
        bucket_size=SIZE, n_hashes=n_hashes, causal=causal, attend_across_buckets=False,
        allow_duplicate_attention=False,
    ).eval()  # fmt: skip
    if causal:
        rounds = torch.arange(n_hashes)[:, None] * N_SHORT  # there each round counts on
        layer.hash_vectors = lambda *args, **named: (short + rounds).flatten(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs, _, buckets = layer(qk, v)
    buckets = buckets.view(3, 1, n_hashes, N) % (N_SHORT if causal else N // SIZE)
    ours = lsh_attention(
        qk[:, None], v[:, None], n_buckets=N_SHORT, chunk_size=SIZE, causal=causal,
        buckets=buckets,
    )[:, 0]  # fmt: skip
    # there duplicates are logarithms of counts plus 1e-9
    assert_same(ours, theirs, rtol=1e-7, atol=1e-7)
    weights = torch.randn(3, N, 6, generator=rng, dtype=torch.float64)
    mine, other = (torch.autograd.grad((x * weights).sum(), (qk, v)) for x in (ours, theirs))
    for one, two in zip(mine, other, strict=True):
        assert_same(one, two, rtol=1e-7, atol=1e-7)
