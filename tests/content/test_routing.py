"""Routing attention meets its definition for both memberships, and its centroids are means."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import MultiHeadAttention, attention_weights
from tinyattn.content import (
    RoutingRouter,
    chosen,
    clusters,
    nearest,
    routing_attention,
    routing_weights,
    update_routers,
)
from tinyattn.content.membership import largest
from tinyattn.patterns import Causal, Window
from tinyattn.transformer import Decoder, RoPE

from ..close import assert_same
from ..transformer.tiny import randn, scrambled, seeded, small, some_tokens

MEMBERSHIPS = pytest.mark.parametrize("membership", ["argmax", "balanced"])


def clusters_by_hand(x, centroids, membership, size, real):
    """For each cluster the positions in it, of one sequence and head: x (n, d), centroids (c, d)."""
    cosine = [
        [float(u @ c) / float(u.norm() * c.norm()) for c in centroids] if is_real else None
        for u, is_real in zip(x, real, strict=True)
    ]
    tokens = [i for i, is_real in enumerate(real) if is_real]
    if membership == "balanced":
        order = [sorted(tokens, key=lambda i: -cosine[i][c]) for c in range(len(centroids))]
        return [set(best[:size]) for best in order]
    home = {i: cosine[i].index(max(cosine[i])) for i in tokens}
    return [{i for i in tokens if home[i] == c} for c in range(len(centroids))]


def weights_by_hand(q, k, centroids, membership, size, causal, real, scale=None):
    """(n, n) of one sequence and head: the average over the clusters that answer a query."""
    n = len(q)
    total, n_answers = q.new_zeros(n, n), [0] * n
    found = [clusters_by_hand(x.detach(), centroids, membership, size, real) for x in (q, k)]
    for asks, is_read in zip(*found, strict=True):
        mask = torch.zeros(n, n, dtype=torch.bool)
        for i in asks:
            for j in is_read:
                mask[i, j] = j <= i or not causal
            n_answers[i] += bool(mask[i].any())
        total = total + attention_weights(q, k, mask, scale=scale)
    return total / torch.tensor(n_answers).clamp(min=1)[:, None]


def by_hand(q, k, centroids, membership, causal=False, size=None, real=None, scale=None):
    b, h, n, _ = q.shape
    size = min(n, size or math.ceil(n / centroids.shape[1]))
    real = torch.ones(b, n, dtype=torch.bool) if real is None else real
    return torch.stack(
        [
            torch.stack(
                [
                    weights_by_hand(
                        q[s, t], k[s, t], centroids[t], membership, size, causal,
                        real[s].tolist(), scale,
                    )
                    for t in range(h)
                ]
            )
            for s in range(b)
        ]
    )  # fmt: skip


def inputs(n, *, b=2, h=2, d=4, d_v=3, n_clusters=3, seed=0):
    rng = seeded(seed)
    sizes = ((b, h, n, d), (b, h, n, d), (b, h, n, d_v))
    q, k, v = (torch.randn(*s, generator=rng, dtype=torch.float64).requires_grad_() for s in sizes)
    return q, k, v, torch.randn(h, n_clusters, d, generator=rng, dtype=torch.float64)


def assert_equals(out, weights, q, k, v):
    expected = weights @ v
    assert_same(out, expected)
    d_out = randn(*out.shape, seed=1)
    ours, theirs = (torch.autograd.grad((x * d_out).sum(), (q, k, v)) for x in (out, expected))
    for mine, other in zip(ours, theirs, strict=True):
        assert_same(mine, other)


# ------------------------------------------------------------------------------- definition


@MEMBERSHIPS
@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize(("n", "n_clusters"), [(1, 1), (2, 3), (13, 3), (40, 7)])
def test_it_is_dense_attention_inside_clusters(n, n_clusters, padded, causal, membership):
    q, k, v, centroids = inputs(n, n_clusters=n_clusters)
    real = torch.rand(2, n, generator=seeded(3)) < 0.7 if padded else None
    options = {"membership": membership, "causal": causal, "scale": 0.8}
    out = routing_attention(q, k, v, centroids, key_padding=real, **options)
    weights = by_hand(q, k, centroids, real=real, **options)
    assert_equals(out, weights, q, k, v)
    router = RoutingRouter(2, n_clusters, 4, membership=membership, causal=causal).double()
    router.centroids.copy_(centroids)
    assert_same(router.weights(q, k, key_padding=real, scale=0.8), weights)
    assert_same(router.attend(q, k, v, key_padding=real, scale=0.8), out)


@settings(max_examples=60)
@given(
    n=st.integers(1, 25),
    n_clusters=st.integers(1, 6),
    size=st.integers(1, 30),
    causal=st.booleans(),
    n_real=st.integers(0, 25),
    at_once=st.sampled_from([1, 50, 2**19]),
    seed=st.integers(0, 99),
)
def test_any_clusters_are_attended_as_defined(n, n_clusters, size, causal, n_real, at_once, seed):
    q, k, v, centroids = inputs(n, h=1, n_clusters=n_clusters, seed=seed)
    real = torch.arange(n)[None] < torch.tensor([[n], [n_real]])
    for membership in ("argmax", "balanced"):
        options = {"membership": membership, "causal": causal}
        taken = size if membership == "balanced" else None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clusters, "SCORES_AT_ONCE", at_once)
            out = routing_attention(
                q, k, v, centroids, key_padding=real, cluster_size=taken, **options
            )
            weights = by_hand(q, k, centroids, real=real, size=taken, **options)
            assert_equals(out, weights, q, k, v)


def test_one_cluster_of_all_is_dense_attention():
    q, k, v, centroids = inputs(11, n_clusters=1)
    for membership in ("argmax", "balanced"):
        for causal in (False, True):
            out = routing_attention(q, k, v, centroids, membership=membership, causal=causal)
            mask = Causal().mask(11) if causal else None
            assert_equals(out, attention_weights(q, k, mask), q, k, v)


def test_every_cluster_may_be_empty_but_one():
    q, k, v, centroids = inputs(12)
    with torch.no_grad():
        for x in (q, k):
            x.copy_(centroids[None, :, 1:2] + 0.01 * x)
    out = routing_attention(q, k, v, centroids)
    assert_equals(out, attention_weights(q, k), q, k, v)


def test_a_query_whose_cluster_holds_no_key_gets_zeros_and_no_gradient():
    q, k, v, _ = inputs(6, h=1)
    centroids = torch.eye(4, dtype=torch.float64)[None, :2]
    with torch.no_grad():
        q[:, :, :3] = centroids[:, None, :1] + 0.01 * q[:, :, :3]
        q[:, :, 3:] = centroids[:, None, 1:] + 0.01 * q[:, :, 3:]
        k.copy_(centroids[:, None, 1:] + 0.01 * k)
    out = routing_attention(q, k, v, centroids)
    assert (out[:, :, :3] == 0).all()
    assert (out[:, :, 3:] != 0).all()
    (d_q,) = torch.autograd.grad(out.sum(), q)
    assert (d_q[:, :, :3] == 0).all()


def test_equal_tokens_go_the_same_way():
    q = randn(1, 1, 1, 4).expand(1, 1, 9, 4)
    v = randn(1, 1, 9, 3)
    out = routing_attention(q, q, v, randn(1, 3, 4, seed=2))
    assert_same(out, v.mean(dim=2, keepdim=True).expand_as(v))
    taken = chosen(q, randn(1, 3, 4, seed=2), 4)
    assert all(len(set(one.tolist())) == 4 for one in taken[0, 0])


def test_lengths_of_centroids_and_tokens_do_not_decide_and_turning_all_changes_nothing():
    q, k, v, centroids = inputs(30, n_clusters=5)
    turn, _ = torch.linalg.qr(randn(4, 4))
    stretch = torch.rand(2, 5, 1, generator=seeded(4), dtype=torch.float64) + 0.5
    for membership in ("argmax", "balanced"):
        out = routing_attention(q, k, v, centroids, membership=membership)
        longer = routing_attention(q, k, v, stretch * centroids, membership=membership)
        assert_same(longer, out)
        turned = routing_attention(q @ turn, k @ turn, v, centroids @ turn, membership=membership)
        assert_same(turned, out)
    lengths = torch.rand(2, 2, 30, 1, generator=seeded(4), dtype=torch.float64) + 0.5
    assert torch.equal(nearest(lengths * q, centroids), nearest(q, centroids))
    same = (chosen(x, centroids, 6).sort().values for x in (lengths * q, q))
    assert torch.equal(*same)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (7, 7), (40, 3), (1000, 10), (1003, 30), (999, 1)])
def test_the_largest_numbers_are_found_by_way_of_strands(n, size):
    x = randn(5, n)
    found = largest(x, size)
    assert torch.equal(found.sort().values, x.topk(size).indices.sort().values)
    tied = torch.randint(3, (5, n), generator=seeded(0)).double()
    found = largest(tied, size)
    assert torch.equal(tied.gather(1, found).sort().values, tied.topk(size).values.flip(1))
    assert all(len(set(row.tolist())) == size for row in found)


def test_padded_tokens_are_taken_only_where_real_ones_run_out():
    x, centroids = randn(1, 1, 20, 4), randn(1, 3, 4, seed=1)
    real = torch.arange(20)[None] < 8
    assert (chosen(x, centroids, 8, key_padding=real) < 8).all()
    assert ((chosen(x, centroids, 10, key_padding=real) < 8).sum(dim=-1) == 8).all()


# ------------------------------------------------------------------------------------ causal


def outputs_before(at, membership):
    """The outputs before a position, with all tokens from it on as they are, and changed."""
    q, k, v, centroids = (x.detach() for x in inputs(40, n_clusters=5))
    for changed in (False, True):
        if changed:
            q, k, v = (
                torch.cat([x[:, :, :at], 9 * randn(*x[:, :, at:].shape)], 2) for x in (q, k, v)
            )
        out = routing_attention(q, k, v, centroids, membership=membership, causal=True)
        yield out[:, :, :at]


def test_with_argmax_a_later_token_changes_no_earlier_output():
    for at in (1, 17, 39):
        assert_same(*outputs_before(at, "argmax"))


def test_with_balanced_clusters_a_later_token_leaks_into_earlier_outputs_by_being_chosen():
    """Each output reads earlier keys only, and still depends on later ones: they take places."""
    before, after = outputs_before(20, "balanced")
    assert (before - after).abs().amax() > 0.1


def test_a_decoder_takes_argmax_and_refuses_balanced():
    argmax = RoutingRouter(2, 3, 4, causal=True)
    decoder = scrambled(Decoder(small(), pattern=argmax))
    tokens = some_tokens(2, 12)
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 11
    assert_same(decoder(tokens)[:, :7], decoder(changed)[:, :7])
    for router in (
        RoutingRouter(2, 3, 4, membership="balanced", causal=True),
        RoutingRouter(2, 3, 4),
    ):
        with pytest.raises(ValueError, match="a decoder needs a causal router"):
            Decoder(small(), pattern=router)


# -------------------------------------------------------------------------- numbers, company


def test_sequences_and_heads_do_not_see_each_other():
    q, k, v, centroids = inputs(30, b=3)
    for membership in ("argmax", "balanced"):
        out = routing_attention(q, k, v, centroids, membership=membership)
        for s in range(3):
            for head in range(2):
                one = [x[s : s + 1, head : head + 1] for x in (q, k, v)]
                own = routing_attention(*one, centroids[[head]], membership=membership)
                assert_same(out[s : s + 1, head : head + 1], own)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_and_rounded_once(dtype):
    q, k, v, centroids = (x.detach().to(dtype) for x in inputs(30))
    out = routing_attention(q, k, v, centroids, causal=True)
    wide = routing_attention(*(x.float() for x in (q, k, v, centroids)), causal=True)
    assert torch.equal(out, wide.to(dtype))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(out, routing_attention(q, k, v, centroids, causal=True))


def test_strides_do_not_matter():
    q, k, v, centroids = (x.detach() for x in inputs(30))
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    for membership in ("argmax", "balanced"):
        options = {"membership": membership}
        out = routing_attention(q, k, v, centroids, **options)
        assert_same(routing_attention(*turned, centroids, **options), out)


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 2, 0)])
def test_nothing_gives_nothing(shape):
    x = torch.ones(*shape, 4)
    for membership in ("argmax", "balanced"):
        out = routing_attention(x, x, x, torch.ones(2, 3, 4), membership=membership)
        assert out.shape == x.shape


def test_second_derivatives_are_refused():
    q, k, v, centroids = inputs(9)
    out = routing_attention(q, k, v, centroids)
    with pytest.raises(
        NotImplementedError, match=r"no second derivatives .*; .*mask of each cluster has"
    ):
        torch.autograd.grad(out.sum(), q, create_graph=True)


def test_what_does_not_fit_is_refused(refusals):
    q, k, v, centroids = inputs(12)
    with pytest.raises(ValueError, match="'argmax' or 'balanced', got 'topk'"):
        routing_attention(q, k, v, centroids, membership="topk")
    with pytest.raises(ValueError, match=r"centroids must be \(h, n_clusters, d_head\)"):
        routing_attention(q, k, v, centroids[:1])
    with pytest.raises(ValueError, match="1 or more"):
        routing_attention(q, k, v, centroids[:, :0])
    with pytest.raises(ValueError, match="q and k must have one shape"):
        routing_attention(q[:, :, :5], k, v, centroids)
    with pytest.raises(ValueError, match="cluster_size must be 1 token or more, got 0"):
        routing_attention(q, k, v, centroids, membership="balanced", cluster_size=0)
    with pytest.raises(ValueError, match="clusters have the size they have"):
        routing_attention(q, k, v, centroids, cluster_size=3)
    with pytest.raises(TypeError, match="one float dtype"):
        routing_attention(q, k.float(), v, centroids)
    with pytest.raises(ValueError, match="n_clusters must be 1 or more, got 0"):
        RoutingRouter(2, 0, 4)
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\), got 1"):
        RoutingRouter(2, 3, 4, decay=1.0)
    with pytest.raises(ValueError, match=r"\(n_heads, d_head\) = \(2, 4\), got one for \(3, 4\)"):
        MultiHeadAttention(8, 2, pattern=RoutingRouter(3, 3, 4))
    router = RoutingRouter(2, 3, 4)
    with pytest.raises(ValueError, match="needs a call in training mode"):
        router.update()
    with pytest.raises(ValueError, match="q and k, or neither"):
        router.update(q)
    with pytest.raises(ValueError, match="a token for each of the 3 clusters, got 2"):
        router.initialise(q[:1, :, :1], k[:1, :, :1])


# -------------------------------------------------------------------------------- centroids


def members_by_hand(q, k, centroids, real):
    """For one head, sums and counts of queries and keys at unit length, nearest to each."""
    sums, counts = torch.zeros_like(centroids), torch.zeros(len(centroids), dtype=torch.float64)
    for x in (q, k):
        for s in range(len(x)):
            for i in range(x.shape[1]):
                if real[s, i]:
                    unit = x[s, i] / x[s, i].norm()
                    near = max(
                        range(len(centroids)),
                        key=lambda c: float(unit @ centroids[c]) / float(centroids[c].norm()),
                    )
                    sums[near] += unit
                    counts[near] += 1
    return sums, counts


@pytest.mark.parametrize("decay", [0.0, 0.7])
@pytest.mark.parametrize("membership", ["argmax", "balanced"])
def test_an_update_moves_running_sums_and_counts(decay, membership):
    router = RoutingRouter(2, 4, 4, decay=decay, membership=membership).double()
    sums, counts = router.sums.clone(), router.counts.clone()
    for step in range(3):
        q, k = (x.detach() for x in inputs(15, seed=step)[:2])
        real = torch.arange(15)[None] < torch.tensor([[15], [9]])
        centroids = router.centroids.clone()
        router.update(q, k, key_padding=real)
        for head in range(2):
            own = members_by_hand(q[:, head], k[:, head], centroids[head], real)
            sums[head] = decay * sums[head] + (1 - decay) * own[0]
            counts[head] = decay * counts[head] + (1 - decay) * own[1]
            assert_same(router.sums[head], sums[head])
            assert_same(router.counts[head], counts[head])
            moved = own[1] > 0
            means = sums[head] / counts[head][:, None]
            assert_same(router.centroids[head][moved], means[moved])
            assert_same(router.centroids[head][~moved], centroids[head][~moved])
            if decay == 0:
                assert_same(router.centroids[head][moved], (own[0] / own[1][:, None])[moved])


def test_a_centroid_without_members_stays_however_long_and_comes_back():
    router = RoutingRouter(1, 2, 4, decay=0.5).double()
    router.centroids.copy_(torch.eye(4)[None, :2])
    near_first = torch.eye(4, dtype=torch.float64)[None, None, :1] + 0.1 * randn(1, 1, 6, 4)
    for _ in range(2000):  # its sum and count are zero by then
        router.update(near_first, near_first)
    assert torch.equal(router.centroids[0, 1], torch.eye(4, dtype=torch.float64)[1])
    near_second = torch.eye(4, dtype=torch.float64)[None, None, 1:2] + 0.1 * randn(1, 1, 6, 4)
    router.update(near_second, near_second)
    assert_same(router.centroids[0, 1], F.normalize(near_second, dim=-1).mean(dim=(0, 1, 2)))


def test_the_first_update_does_not_shrink_centroids():
    router = RoutingRouter(1, 1, 4).double()
    x = router.centroids.clone()[None].expand(2, 1, 5, 4)
    router.update(x, x)
    assert_same(router.centroids, x[0, :, :1], rtol=1e-6, atol=1e-6)


def test_training_calls_are_remembered_once_and_others_not():
    router = RoutingRouter(2, 3, 4)
    q, k, v, _ = (x.detach().float() for x in inputs(10))
    twin = RoutingRouter(2, 3, 4)
    twin.update(q, k)
    before = router.centroids.clone()
    router.attend(q, k, v)
    assert torch.equal(router.centroids, before)
    update_routers(torch.nn.ModuleList([router]))
    assert torch.equal(router.centroids, twin.centroids)
    router.eval()
    router.attend(q, k, v)
    with pytest.raises(ValueError, match="since the last one"):
        router.update()


def test_initialising_is_k_means_among_the_tokens():
    q, k, _, _ = (x.detach() for x in inputs(40, h=2))
    real = torch.arange(40)[None] < torch.tensor([[40], [25]])
    router, again = (RoutingRouter(2, 4, 4, seed=3).double() for _ in range(2))
    before = torch.get_rng_state()
    router.initialise(q, k, key_padding=real, n_iters=50)
    again.initialise(q, k, key_padding=real, n_iters=50)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(router.centroids, again.centroids)
    for head in range(2):
        sums, counts = members_by_hand(q[:, head], k[:, head], router.centroids[head], real)
        assert (counts > 0).all()
        assert_same(router.centroids[head], sums / counts[:, None])  # a fixed point
        assert_same(router.counts[head], counts)
        assert_same(router.sums[head], sums)
    drawn = RoutingRouter(2, 4, 4).double()
    drawn.initialise(q, k, key_padding=real, n_iters=0)
    tokens = F.normalize(torch.cat([q[0], k[0], q[1, :, :25], k[1, :, :25]], dim=1), dim=-1)
    gaps = (drawn.centroids[:, :, None] - tokens[:, None]).norm(dim=-1).amin(dim=-1)
    assert (gaps < 1e-12).all()


def test_half_local_half_routing_heads_learn_and_are_stored():
    router = RoutingRouter(1, 3, 4)
    layer = scrambled(MultiHeadAttention(8, 2, pattern=(Window(2), router), positions=RoPE(4)))
    x = randn(2, 20, 8)
    out, weights = layer(x, return_weights=True)
    assert_same(out, layer.join_heads(weights @ layer.split_heads(layer.value(x))))
    before = layer.state_dict()["routers.0.centroids"].clone()
    update_routers(layer)
    assert not torch.equal(layer.state_dict()["routers.0.centroids"], before)
    twin = MultiHeadAttention(8, 2, pattern=(Window(2), RoutingRouter(1, 3, 4)), positions=RoPE(4))
    twin.double().load_state_dict(layer.state_dict())
    assert torch.equal(twin(x), layer(x))


@pytest.mark.parametrize(("n", "n_clusters", "n_real"), [(31, 5, 3), (65, 8, 3), (33, 4, 2)])
def test_a_sequence_of_few_real_tokens_reads_no_other_sequence(n, n_clusters, n_real):
    q, k, v, _ = inputs(n)
    centroids = randn(2, n_clusters, q.shape[-1], seed=3)
    real = torch.ones(len(q), n, dtype=torch.bool)
    real[0, n_real:] = False
    options = {"membership": "balanced", "key_padding": real}
    out = routing_attention(q, k, v, centroids, **options)
    weights = routing_weights(q, k, centroids, **options)
    assert_same(out, weights @ v)
    for s in range(len(q)):
        one = (x[s : s + 1] for x in (q, k, v))
        alone = routing_attention(
            *one, centroids, membership="balanced", key_padding=real[s : s + 1]
        )
        assert_same(out[s : s + 1], alone)


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 2, 0)])
def test_nothing_has_gradients_too(shape):
    q, k, v = (torch.ones(*shape, 4, requires_grad=True) for _ in range(3))
    out = routing_attention(q, k, v, torch.ones(2, 3, 4))
    assert [g.shape for g in torch.autograd.grad(out.sum(), (q, k, v))] == [q.shape] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_sums_stay_in_single_precision_whatever_the_model_is_cast_to(dtype):
    router = RoutingRouter(2, 3, 4)
    before = router.centroids.clone()
    router.to(dtype)
    assert {x.dtype for x in (router.centroids, router.sums, router.counts)} == {torch.float32}
    assert torch.equal(router.centroids, before)
    q, k, v = randn(3, 1, 2, 9, 4).to(dtype).unbind()
    assert router.train().attend(q, k, v).dtype == dtype
    for _ in range(2000):
        router.update(q, k)
    assert_same(router.counts.sum(dim=1), torch.full((2,), 18.0), rtol=0.2)
    assert {x.dtype for x in router.double().buffers()} == {torch.float64}


def test_tokens_that_do_not_fit_are_refused_and_the_last_good_ones_stay(refusals):
    router = RoutingRouter(2, 3, 4).train()
    q, k = randn(2, 1, 2, 9, 4).float().unbind()
    router.attend(q, k, k)
    for wrong in ((q[:, :1], k[:, :1]), (q, k[:, :, :5]), (q[0], k[0]), (q[..., :3], k[..., :3])):
        with pytest.raises(ValueError, match="must"):
            router.update(*wrong)
        with pytest.raises(ValueError, match="must"):
            router.initialise(*wrong)
    with pytest.raises(TypeError, match="key_padding must be bool"):
        router.update(q, k, key_padding=torch.ones(1, 9))
    router.update()
    assert router.centroids.isfinite().all()


def test_a_cluster_of_one_token_has_its_centroid_where_the_token_is():
    router = RoutingRouter(1, 4, 3)
    q, k = randn(2, 1, 1, 2, 3).float().unbind()
    router.initialise(q, k)  # four tokens, four clusters
    lengths = router.centroids.norm(dim=-1)
    assert_same(lengths, torch.ones_like(lengths), rtol=1e-6, atol=1e-6)
