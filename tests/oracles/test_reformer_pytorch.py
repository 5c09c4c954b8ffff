"""LSH attention against reformer-pytorch with its strict options, on the buckets that it drew."""

import pytest
import torch

from tinyattn.content import lsh_attention

from ..close import assert_same

library = pytest.importorskip(
    "reformer_pytorch", reason="reformer-pytorch is in requirements-oracles.txt"
)

N, SIZE = 64, 8  # it makes N / SIZE buckets, and chunks of SIZE


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("n_hashes", [2, 4])
def test_rounds_unite_as_there_without_duplicates_and_other_buckets(n_hashes, causal):
    rng = torch.Generator().manual_seed(0)
    qk, v = (
        torch.randn(3, N, 6, generator=rng, dtype=torch.float64).requires_grad_() for _ in range(2)
    )
    layer = library.LSHAttention(
        bucket_size=SIZE, n_hashes=n_hashes, causal=causal, attend_across_buckets=False,
        allow_duplicate_attention=False,
    ).eval()  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs, _, buckets = layer(qk, v)
    buckets = buckets.view(3, 1, n_hashes, N) % (N // SIZE)  # there each round counts on
    ours = lsh_attention(
        qk[:, None], v[:, None], n_buckets=N // SIZE, chunk_size=SIZE, causal=causal,
        buckets=buckets,
    )[:, 0]  # fmt: skip
    # there duplicates are logarithms of counts plus 1e-9
    assert_same(ours, theirs, rtol=1e-7, atol=1e-7)
    weights = torch.randn(3, N, 6, generator=rng, dtype=torch.float64)
    mine, other = (torch.autograd.grad((x * weights).sum(), (qk, v)) for x in (ours, theirs))
    for one, two in zip(mine, other, strict=True):
        assert_same(one, two, rtol=1e-7, atol=1e-7)
