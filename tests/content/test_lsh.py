"""LSH attention is one softmax over what the rounds find, and finds what its definition says."""

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tinyattn import MultiHeadAttention, attention
from tinyattn.content import LSHRouter, chunks, hashing, lsh, lsh_attention, lsh_buckets, lsh_mask
from tinyattn.transformer import Decoder, Encoder, RoPE

from ..close import assert_same
from ..transformer.tiny import randn, scrambled, seeded, small, some_tokens


def found_in_round(bucket, size, causal, real):
    """Pairs that one round finds, from the definition: sort, cut, look at home and one back.

    If causal, no further back than a chunk is long.
    """
    n = len(bucket)
    order = sorted(range(n), key=lambda i: (not real[i], bucket[i], i))
    place = {token: place for place, token in enumerate(order)}
    found = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(n):
            near = place[i] // size - place[j] // size in (0, 1)
            if causal:
                assert near or not 0 < place[i] - place[j] <= size  # it is in sight
                near = place[i] - place[j] <= size
            same = bucket[i] == bucket[j] and real[i] and real[j]
            found[i, j] = near and same and i != j and (j < i or not causal)
    return found


def by_hand(buckets, size, causal, real=None):
    """(b, h, n, n): the union of all rounds; oneself where that is nobody."""
    b, h, _, n = buckets.shape
    real = torch.ones(b, n, dtype=torch.bool) if real is None else real
    out = torch.zeros(b, h, n, n, dtype=torch.bool)
    for s in range(b):
        for head in range(h):
            rounds = buckets[s, head].tolist()
            for bucket in rounds:
                out[s, head] |= found_in_round(bucket, size, causal, real[s].tolist())
            for i in range(n):
                out[s, head, i, i] = bool(real[s, i]) and not out[s, head, i].any()
    return out


def inputs(n, *, b=2, h=2, d=4, d_v=3, seed=0, stretch=1.0):
    rng = seeded(seed)
    qk = stretch * torch.randn(b, h, n, d, generator=rng, dtype=torch.float64)
    v = torch.randn(b, h, n, d_v, generator=rng, dtype=torch.float64)
    return qk.requires_grad_(), v.requires_grad_()


def assert_equals_dense(out, qk, v, mask, scale=None):
    expected = attention(qk, F.normalize(qk, dim=-1), v, mask, scale=scale)
    assert_same(out, expected, rtol=1e-12, atol=1e-12)
    d_out = randn(*out.shape, seed=1)
    ours, theirs = (torch.autograd.grad((x * d_out).sum(), (qk, v)) for x in (out, expected))
    for mine, other in zip(ours, theirs, strict=True):
        assert_same(mine, other)


# ------------------------------------------------------------------------------- definition


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("n_hashes", [1, 4])
@pytest.mark.parametrize(("n", "size"), [(1, 1), (2, 1), (13, 4), (24, 5), (33, 8), (20, 50)])
def test_it_is_one_softmax_over_what_the_rounds_find(n, size, n_hashes, padded, causal):
    qk, v = inputs(n)
    real = torch.rand(2, n, generator=seeded(2)) < 0.7 if padded else None
    options = {"causal": causal, "key_padding": real}
    out = lsh_attention(qk, v, n_buckets=4, n_hashes=n_hashes, chunk_size=size, **options)
    buckets = lsh_buckets(qk, n_buckets=4, n_hashes=n_hashes)
    mask = by_hand(buckets, min(n, size), causal, real)
    assert torch.equal(lsh_mask(buckets, chunk_size=min(n, size), **options), mask)
    assert_equals_dense(out, qk, v, mask)


@settings(max_examples=60)
@given(
    n=st.integers(1, 30),
    size=st.integers(1, 12),
    n_hashes=st.integers(1, 3),
    n_buckets=st.integers(1, 9),
    causal=st.booleans(),
    n_real=st.integers(0, 30),
    seed=st.integers(0, 99),
)
def test_any_buckets_are_found_as_defined(n, size, n_hashes, n_buckets, causal, n_real, seed):
    qk, v = inputs(n, h=1, seed=seed)
    size = min(n, size)
    buckets = torch.randint(n_buckets, (2, 1, n_hashes, n), generator=seeded(seed))
    real = torch.arange(n)[None] < torch.tensor([[n], [n_real]])
    out = lsh_attention(
        qk, v, n_buckets=2, chunk_size=size, causal=causal, key_padding=real, buckets=buckets
    )
    assert_equals_dense(out, qk, v, by_hand(buckets, size, causal, real))


@pytest.mark.parametrize("stretch", [1e-3, 100.0, 1e5])
def test_long_vectors_overflow_nothing(stretch):
    qk, v = inputs(40, stretch=stretch)
    buckets = torch.randint(3, (2, 2, 3, 40), generator=seeded(1))
    for causal in (False, True):
        out = lsh_attention(qk, v, n_buckets=2, chunk_size=7, buckets=buckets, causal=causal)
        mask = by_hand(buckets, 7, causal)
        expected = attention(qk, F.normalize(qk, dim=-1), v, mask)
        assert_same(out, expected, rtol=1e-9, atol=1e-9)
        single = lsh_attention(
            qk.float(), v.float(), n_buckets=2, chunk_size=7, buckets=buckets, causal=causal
        )
        assert single.isfinite().all()
        if stretch < 1e5:  # beyond, single precision does not know which score is larger
            assert_same(single.double(), expected, rtol=1e-3, atol=1e-3)


def test_counting_each_pair_once_is_subtracting_the_logarithm_of_how_often_it_is_found():
    """Equation of Kitaev et al. 2020, appendix A: rounds weighted by exp(z_r - z), minus log N."""
    qk, v = inputs(30, b=1, h=1)
    buckets = lsh_buckets(qk, n_buckets=4, n_hashes=4)
    real = [True] * 30
    rounds = torch.stack([found_in_round(x.tolist(), 8, False, real) for x in buckets[0, 0]])
    times = rounds.sum(dim=0)  # N_ij
    assert (times > 1).any()
    scores = (qk @ F.normalize(qk, dim=-1).transpose(-1, -2))[0, 0] / math.sqrt(4)

    def merged(correction):
        found = [(scores - correction).masked_fill(~one, -math.inf) for one in rounds]
        z = torch.stack([one.logsumexp(dim=-1) for one in found])
        outs = torch.stack([one.softmax(dim=-1).nan_to_num(0.0) @ v[0, 0] for one in found])
        return ((z - z.logsumexp(dim=0)).exp()[..., None] * outs).sum(dim=0)

    out = lsh_attention(qk, v, n_buckets=4, n_hashes=4, chunk_size=8)[0, 0]
    some = times.sum(dim=-1) > 0
    assert_same(out[some], merged(times.double().clamp(min=1).log())[some], rtol=1e-12, atol=1e-12)
    assert (out[some] - merged(torch.zeros_like(scores))[some]).abs().max() > 0.01


# --------------------------------------------------------------------------------- coverage


def test_looking_back_finds_whole_buckets_when_causal_and_loses_pairs_both_ways():
    lost = {True: 0, False: 0}
    for seed in range(40):
        buckets = torch.arange(48).div(6, rounding_mode="floor")  # all of 6, chunks of 7
        buckets = buckets[torch.randperm(48, generator=seeded(seed))][None, None, None]
        same = buckets[0, 0, 0][:, None] == buckets[0, 0, 0]
        for causal in (True, False):
            whole = (same.tril() if causal else same) & ~torch.eye(48, dtype=torch.bool)
            found = lsh_mask(buckets, chunk_size=7, causal=causal)[0, 0]
            lost[causal] += bool((whole & ~found).any())
    assert lost == {True: 0, False: 40}


def test_one_bucket_in_one_chunk_is_dense_attention_to_all_others():
    qk, v = inputs(20)
    for causal in (False, True):
        out = lsh_attention(qk, v, n_buckets=1, causal=causal)
        others = ~torch.eye(20, dtype=torch.bool)
        mask = others.tril() if causal else others
        mask = mask | (~mask.any(dim=-1))[:, None] & ~others
        assert_equals_dense(out, qk, v, mask)


def test_further_rounds_only_add_keys():
    buckets = lsh_buckets(randn(1, 2, 60, 8), n_buckets=8, n_hashes=6)
    others = ~torch.eye(60, dtype=torch.bool)
    found = [lsh_mask(buckets[:, :, :r], chunk_size=8) & others for r in (1, 2, 4, 6)]
    for fewer, more in pairwise(found):
        assert (fewer <= more).all()
        assert more.sum() > fewer.sum()


def test_two_average_buckets_make_a_chunk_if_no_size_is_given():
    qk, v = inputs(50)
    assert torch.equal(
        lsh_attention(qk, v, n_buckets=4), lsh_attention(qk, v, n_buckets=4, chunk_size=25)
    )


def test_equal_vectors_share_every_bucket():
    qk = randn(1, 1, 1, 4).expand(1, 1, 12, 4)
    v = randn(1, 1, 12, 3)
    out = lsh_attention(qk, v, n_buckets=8, n_hashes=3, chunk_size=12)
    assert_same(out, (v.sum(dim=2, keepdim=True) - v) / 11)


# ---------------------------------------------------------------------------------- padding


def test_tokens_that_are_not_real_change_nothing_and_get_zeros():
    qk, v = inputs(26)
    real = torch.arange(26)[None] < torch.tensor([[26], [17]])
    options = {"n_buckets": 4, "n_hashes": 3, "chunk_size": 5, "causal": False}
    out = lsh_attention(qk, v, key_padding=real, **options)
    alone = lsh_attention(qk[1:, :, :17], v[1:, :, :17], **options)
    assert_same(out[1:, :, :17], alone)
    assert (out[1, :, 17:] == 0).all()
    d_qk, d_v = torch.autograd.grad(out.sum(), (qk, v))
    assert (d_qk[1, :, 17:] == 0).all()
    assert (d_v[1, :, 17:] == 0).all()
    nobody = lsh_attention(qk, v, key_padding=torch.zeros_like(real), **options)
    assert (nobody == 0).all()


# ------------------------------------------------------------------------------------ causal


SIZES = (3, 8, 40)  # of chunks: shorter than most buckets, than some, and longer than all


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("n_hashes", [1, 4])
def test_which_keys_are_read_depends_on_no_later_token(n_hashes, size):
    qk = randn(2, 2, 40, 4)
    v = torch.randint(99, (2, 2, 40, 3), generator=seeded(0)).double()
    # with equal weights outputs are exact sums of whole numbers: bits show who was chosen
    options = {"n_buckets": 4, "n_hashes": n_hashes, "causal": True, "chunk_size": size}
    out = lsh_attention(qk, v, scale=0.0, **options)
    hashed = lsh_buckets(qk, n_buckets=4, n_hashes=n_hashes)
    mask = lsh_mask(hashed, chunk_size=size, causal=True)
    for at in (1, 17, 39):
        other = torch.cat([qk[:, :, :at], 30 * randn(2, 2, 40 - at, 4, seed=at)], dim=2)
        changed = lsh_attention(other, v, scale=0.0, **options)
        assert torch.equal(changed[:, :, :at], out[:, :, :at])
        assert not torch.equal(changed, out)
        hashed = lsh_buckets(other, n_buckets=4, n_hashes=n_hashes)
        masks = lsh_mask(hashed, chunk_size=size, causal=True), mask
        assert torch.equal(*(some[:, :, :at] for some in masks))


def test_chunks_that_are_read_whole_would_let_the_future_choose():
    counts = []
    for last in (2, 0):  # the tenth token comes after a long bucket, or before it
        buckets = torch.tensor([1] * 9 + [last]).view(1, 1, 1, 10)
        whole = lsh_mask(buckets, chunk_size=3)[0, 0].tril()
        ours = lsh_mask(buckets, chunk_size=3, causal=True)[0, 0]
        counts.append([mask[:9].sum(dim=1).tolist() for mask in (whole, ours)])
    assert counts[0][0] != counts[1][0]
    assert counts[0][1] == counts[1][1] == [1, 1, 2, 3, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("n_hashes", [1, 4])
def test_a_later_token_changes_no_bit_of_earlier_outputs_and_gets_no_gradient_from_them(
    n_hashes, size, dtype
):
    qk, v = (x.detach().to(dtype) for x in inputs(40))
    options = {"n_buckets": 4, "n_hashes": n_hashes, "causal": True, "chunk_size": size}
    out = lsh_attention(qk, v, **options)
    for at, factor in itertools.product((1, 17, 39), (1, 30, 1000)):  # 1000: scores exp can't take
        other_qk, other_v = qk.clone(), v.clone()
        other_qk[:, :, at:] = (factor * randn(2, 2, 40 - at, 4, seed=at)).to(dtype)
        other_v[:, :, at:] = (factor * randn(2, 2, 40 - at, 3, seed=at)).to(dtype)
        changed = lsh_attention(other_qk, other_v, **options)
        assert torch.equal(changed[:, :, :at], out[:, :, :at])
        assert not torch.allclose(changed[:, :, at:], out[:, :, at:])
        leaves = [x.clone().requires_grad_() for x in (qk, v)]
        early = lsh_attention(*leaves, **options)[:, :, :at].sum()
        assert all((d[:, :, at:] == 0).all() for d in torch.autograd.grad(early, leaves))


@pytest.mark.parametrize("n", [333, 1024])
def test_no_bit_changes_in_heads_of_64_among_hundreds_of_tokens(n):
    qk, v = (x.detach().float() for x in (randn(1, 2, n, 64), randn(1, 2, n, 64, seed=1)))
    options = {"n_buckets": 16, "n_hashes": 3, "causal": True}
    out = lsh_attention(qk, v, **options)
    for at in (n // 3, n - 1):
        other_qk, other_v = qk.clone(), v.clone()
        other_qk[:, :, at:] = randn(1, 2, n - at, 64, seed=at).float()
        other_v[:, :, at:] *= 100
        changed = lsh_attention(other_qk, other_v, **options)
        assert torch.equal(changed[:, :, :at], out[:, :, :at])
        assert not torch.equal(changed, out)


def test_a_later_token_of_great_length_changes_no_way_of_computing_for_earlier_ones():
    # its scores need their largest subtracted; those of the others do not, and sums would differ
    qk, v = (x.detach() for x in inputs(30))
    options = {"n_buckets": 2, "causal": True, "chunk_size": 10}
    longer = qk.clone()
    longer[:, :, -1] *= 1e3 / longer[:, :, -1].norm(dim=-1, keepdim=True)
    out, changed = (lsh_attention(x, v, **options) for x in (qk, longer))
    assert torch.equal(changed[:, :, :-1], out[:, :, :-1])
    buckets = lsh_buckets(longer, n_buckets=2)
    mask = by_hand(buckets, 10, True)
    expected = attention(longer, F.normalize(longer, dim=-1), v, mask)
    assert_same(changed, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_buckets", [2, 16, 64, 1024])
@pytest.mark.parametrize("size", [4, 32, 256])
def test_filling_up_causal_chunks_costs_few_places(n_buckets, size):
    n = 1024
    buckets = torch.randint(n_buckets, (1, 1, n), generator=seeded(0))
    together = lsh._together(n, n_buckets, size)
    used = len(buckets.unique()) + 1  # those who are not real are one more
    for n_real in (n, 100):
        real = torch.arange(n)[None] < n_real
        places = chunks.Chunks.sort(buckets, real, size, together)
        assert places.order.shape[1] <= n + used * (together - 1) + places.window
    assert together <= 8 or used * together <= 2 * n  # a few times as many as tokens at most


@pytest.mark.parametrize(("n", "dtype"), [(900, torch.int16), (1500, torch.int32)])
def test_cells_that_do_not_fit_16_bits_are_wider(n, dtype):
    size = 64
    qk, v = randn(1, 1, n, 4), randn(1, 1, n, 3)
    one, other = (torch.randperm(n, generator=seeded(seed)) for seed in (1, 2))
    # a bucket for each token, whose cells are far apart, then some of 40 and of 3
    buckets = torch.stack([one, other // 40, one // 3])[None, None]
    cells = chunks.Chunks.sort(buckets[0], torch.ones(1, n).bool(), size, 16).cell
    assert cells.dtype == dtype
    options = {"n_buckets": 2, "chunk_size": size, "causal": True, "buckets": buckets}
    mask = lsh_mask(buckets, chunk_size=size, causal=True)
    expected = attention(qk, F.normalize(qk, dim=-1), v, mask)
    assert_same(lsh_attention(qk, v, **options), expected)


# -------------------------------------------------------------------------- numbers, company


def test_sequences_and_heads_do_not_see_each_other():
    qk, v = inputs(30, b=3, h=2)
    options = {"n_buckets": 4, "chunk_size": 6}
    hashed = lsh_buckets(qk, n_buckets=4, n_hashes=2)
    for buckets in (hashed, torch.zeros_like(hashed)):  # one bucket goes on in the next row
        out = lsh_attention(qk, v, buckets=buckets, **options)
        for s in range(3):
            for head in range(2):
                one = (slice(s, s + 1), slice(head, head + 1))
                own = lsh_attention(qk[one], v[one], buckets=buckets[one], **options)
                assert_same(out[one], own)


def test_it_is_cut_into_pieces_that_do_not_show(monkeypatch):
    qk, v = inputs(70)
    options = {"n_buckets": 4, "n_hashes": 3, "chunk_size": 6}
    whole = lsh_attention(qk, v, **options)
    monkeypatch.setattr(chunks, "SCORES_AT_ONCE", 3 * 72)
    pieces = lsh_attention(qk, v, **options)
    assert_same(pieces, whole)
    for one, other in zip(
        torch.autograd.grad(pieces.sum(), (qk, v)),
        torch.autograd.grad(whole.sum(), (qk, v)),
        strict=True,
    ):
        assert_same(one, other)


def test_high_numbers_of_buckets_change_nothing():
    qk, v = inputs(20, b=1, h=1)
    buckets = torch.randint(3, (1, 1, 2, 20), generator=seeded(0))
    few = lsh_attention(qk, v, n_buckets=2, chunk_size=6, buckets=buckets)
    many = lsh_attention(qk, v, n_buckets=2, chunk_size=6, buckets=buckets * 2**16)
    assert torch.equal(few, many)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_and_rounded_once(dtype):
    qk, v = (x.detach().to(dtype) for x in inputs(30))
    options = {"n_buckets": 4, "n_hashes": 2, "chunk_size": 8}
    out = lsh_attention(qk, v, **options)
    assert out.dtype == dtype
    assert torch.equal(out, lsh_attention(qk.float(), v.float(), **options).to(dtype))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(out, lsh_attention(qk, v, **options))


def test_strides_do_not_matter():
    qk, v = (x.detach() for x in inputs(30))
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (qk, v)]
    assert not turned[0].is_contiguous()
    options = {"n_buckets": 4, "chunk_size": 8}
    assert torch.equal(lsh_attention(*turned, **options), lsh_attention(qk, v, **options))


def largest_tensor(n):
    """Numbers in the largest tensor that one call makes, forward and backward."""

    class Watching(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            made = [x for x in (out if isinstance(out, tuple) else (out,)) if torch.is_tensor(x)]
            Watching.most = max([Watching.most, *(x.untyped_storage().nbytes() for x in made)])
            return out

    qk, v = inputs(n, b=1, h=1, d=8)
    with Watching():
        out = lsh_attention(qk, v, n_buckets=n // 16, n_hashes=2)
        torch.autograd.grad(out.sum(), (qk, v))
    return Watching.most


def test_memory_grows_with_the_length_and_no_faster(monkeypatch):
    monkeypatch.setattr(chunks, "SCORES_AT_ONCE", 2**12)
    monkeypatch.setattr(hashing, "HASHED_AT_ONCE", 2**12)
    assert largest_tensor(8192) <= 2.2 * largest_tensor(4096)


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 0, 5), (2, 2, 0)])
def test_nothing_gives_nothing(shape):
    out = lsh_attention(torch.ones(*shape, 4), torch.ones(*shape, 3), n_buckets=4)
    assert out.shape == (*shape, 3)


def test_a_seed_decides_and_the_global_generator_is_left_alone():
    qk, v = (x.detach() for x in inputs(30))
    before = torch.get_rng_state()
    one, again, other = (lsh_attention(qk, v, n_buckets=8, chunk_size=4, seed=s) for s in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_second_derivatives_are_refused():
    qk, v = inputs(9)
    out = lsh_attention(qk, v, n_buckets=2, chunk_size=3)
    with pytest.raises(NotImplementedError, match=r"no second derivatives .*; .*lsh_mask has"):
        torch.autograd.grad(out.sum(), qk, create_graph=True)


def test_what_does_not_fit_is_refused(refusals):
    qk, v = inputs(12)
    with pytest.raises(ValueError, match="n_buckets must be even"):
        lsh_attention(qk, v, n_buckets=5)
    with pytest.raises(ValueError, match="chunk_size must be 1 token or more, got 0"):
        lsh_attention(qk, v, n_buckets=4, chunk_size=0)
    with pytest.raises(ValueError, match="must share b and h"):
        lsh_attention(qk, v[:1], n_buckets=4)
    with pytest.raises(TypeError, match="one float dtype"):
        lsh_attention(qk.float(), v, n_buckets=4)
    with pytest.raises(ValueError, match=r"buckets must be \(b, h, n_hashes, n\)"):
        lsh_attention(qk, v, n_buckets=4, buckets=torch.zeros(2, 2, 12, dtype=torch.long))
    with pytest.raises(ValueError, match="numbered from 0, got -1"):
        lsh_attention(qk, v, n_buckets=4, buckets=torch.full((2, 2, 1, 12), -1))
    with pytest.raises(ValueError, match="scale must be a finite number"):
        lsh_attention(qk, v, n_buckets=4, scale=math.inf)
    with pytest.raises(ValueError, match="n_hashes must be 1 round or more, got 0"):
        LSHRouter(4, n_hashes=0)
    with pytest.raises(ValueError, match="n_buckets must be even"):
        LSHRouter(7)
    with pytest.raises(ValueError, match="even numbers of at most 2"):
        MultiHeadAttention(8, 2, pattern=LSHRouter(22))


# ------------------------------------------------------------------------------------ router


@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_with_the_router_is_dense_attention_under_its_mask(causal):
    router = LSHRouter(4, n_hashes=2, causal=causal, chunk_size=7, seed=2)
    layer = scrambled(MultiHeadAttention(8, 2, pattern=router, positions=RoPE(4), scale=0.8))
    x, real = randn(2, 30, 8), torch.arange(30)[None] < torch.tensor([[30], [21]])
    out, weights = layer(x, key_padding=real, return_weights=True)
    assert_same(out, layer.join_heads(weights @ layer.split_heads(layer.value(x))))
    q = layer.positions.rotate(layer.split_heads(layer.query(x)), torch.arange(30))
    mask = by_hand(router.buckets(q), 7, causal, real)
    assert torch.equal(weights > 0, mask)
    again = lsh_attention(
        q, layer.split_heads(layer.value(x)), n_buckets=4, n_hashes=2, causal=causal,
        chunk_size=7, seed=2, scale=0.8, key_padding=real,
    )  # fmt: skip
    assert_same(out, layer.join_heads(again))


def test_models_take_it():
    tokens = some_tokens(2, 12)
    router = LSHRouter(4, n_hashes=2, causal=True)
    decoder = scrambled(Decoder(small(), pattern=router))
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 11
    assert_same(decoder(tokens)[:, :7], decoder(changed)[:, :7])
    assert Encoder(small(), pattern=LSHRouter(4))(tokens).shape == (2, 12, 8)
    assert repr(router) == "LSHRouter(n_buckets=4, n_hashes=2, causal=True)"


def test_a_router_reads_both_ways_with_the_first_seed_if_nothing_is_said():
    q, v = randn(1, 2, 30, 4), randn(1, 2, 30, 4, seed=1)
    said = {"n_hashes": 1, "causal": False, "seed": 0, "chunk_size": 15}
    plain = LSHRouter(4).attend(q, q, v)
    assert torch.equal(plain, lsh_attention(q, v, n_buckets=4, **said))
    assert torch.equal(plain, lsh_attention(q, v, n_buckets=4))


def test_a_chunk_of_nobody_still_has_a_place():
    assert [lsh.check_chunks(0, 2, size) for size in (None, 5)] == [1, 1]


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 2, 0)])
def test_nothing_has_gradients_too(shape):
    qk, v = (torch.ones(*shape, 4, requires_grad=True) for _ in range(2))
    out = lsh_attention(qk, v, n_buckets=2)
    assert [g.shape for g in torch.autograd.grad(out.sum(), (qk, v))] == [qk.shape] * 2


def test_with_a_chunk_size_a_text_that_goes_on_reads_its_beginning_as_before(refusals):
    q, v = randn(2, 1, 2, 40, 4).unbind()
    router = LSHRouter(np.int64(8), np.int8(2), causal=True, chunk_size=np.uint32(8))
    whole = router.attend(q, q, v)
    for n in (1, 8, 13, 39):
        assert torch.equal(router.attend(q[:, :, :n], q[:, :, :n], v[:, :, :n]), whole[:, :, :n])
    alike = torch.ones_like(q)  # one bucket for all
    default = LSHRouter(8, 2, causal=True)  # whose chunks grow with n, as its docstring warns
    whole, part = (default.attend(x, x, v[:, :, : x.shape[2]]) for x in (alike, alike[:, :, :8]))
    assert not torch.allclose(part, whole[:, :, :8])


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_a_chunk_of_no_size_is_refused(size, error, refusals):
    with pytest.raises(error, match="chunk_size must be"):
        lsh_mask(torch.zeros(1, 1, 1, 4, dtype=torch.long), chunk_size=size)


def test_the_mask_of_nothing_is_empty():
    real = torch.ones(1, 0, dtype=torch.bool)
    buckets = torch.zeros(1, 2, 1, 0, dtype=torch.long)
    assert lsh_mask(buckets, chunk_size=2, key_padding=real).shape == (1, 2, 0, 0)


def test_a_zero_vector_has_finite_weights_in_half_precision():
    q = randn(1, 2, 6, 4).half()
    q[0, 0, 2] = 0.0
    router = LSHRouter(1)
    weights = router.weights(q, q)
    assert bool(weights.isfinite().all())
    v = randn(1, 2, 6, 3, seed=1).half()
    assert_same(weights @ v, router.attend(q, q, v), atol=5e-3)


def test_buckets_that_are_none_are_refused(refusals):
    qk, v = randn(2, 1, 1, 6, 4).unbind()
    buckets = lsh_buckets(qk, n_buckets=2, n_hashes=2)
    options = {"n_buckets": 2}
    assert lsh_attention(qk, v, buckets=buckets, **options).shape == v.shape
    with pytest.raises(ValueError, match=r"\(1, 1, 1 or more, 6\), got \(1, 1, 0, 6\)"):
        lsh_attention(qk, v, buckets=buckets[:, :, :0], **options)
    with pytest.raises(TypeError, match=r"buckets must be int64, got torch\.float64"):
        lsh_attention(qk, v, buckets=buckets.double(), **options)
    with pytest.raises(TypeError, match="buckets must be a tensor, got list"):
        lsh_attention(qk, v, buckets=buckets.tolist(), **options)
    with pytest.raises(ValueError, match="key_padding must have one entry for each token"):
        lsh_mask(buckets, chunk_size=2, key_padding=torch.ones(2, 6, dtype=torch.bool))
