"""SAC as a router: its budget, its variants, and that nothing leaks or drifts."""

import copy

import pytest
import torch

from tinyattn import MultiHeadAttention, attention
from tinyattn.content import SAC, SACRouter, SameGraph, policy_loss, update_routers
from tinyattn.patterns import Causal
from tinyattn.transformer import Decoder, Encoder

from ..close import assert_same
from ..transformer.tiny import randn, scrambled, small, some_tokens

N = 7


def a_router(**changes):
    return scrambled(SACRouter(2, 4, **{"edges_per_token": 2, "d_hidden": 5, **changes}))


def some_padding():
    return torch.arange(N)[None] < torch.tensor([[N], [4]])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("share_heads", [False, True])
@pytest.mark.parametrize("every_token", [False, True])
@pytest.mark.parametrize("real", [None, some_padding()], ids=["whole", "padded"])
def test_it_is_dense_attention_on_the_graph_and_oneself(real, every_token, share_heads, training):
    router = a_router(share_heads=share_heads, every_token=every_token).train(training)
    q, k, v = (x.requires_grad_() for x in randn(3, 2, 2, N, 4).unbind())
    out = router.attend(q, k, v, key_padding=real, scale=0.7)
    graph = router.last.edges.mask(N)
    assert graph.shape[:2] == (2, 1 if share_heads else 2)
    assert (graph.sum(dim=(2, 3)) <= 2 * N).all()
    own = torch.eye(N, dtype=torch.bool)
    mask = graph | own
    if real is not None:
        mask = mask & real[:, None, :, None] & real[:, None, None, :]
        assert torch.equal(mask[1], (graph | own & real[1][None])[1])
    expected = attention(q, k, v, mask, scale=0.7)
    assert_same(out, expected)
    assert_same(router.weights(q, k, key_padding=real, scale=0.7) @ v, out)
    out_gradient = randn(*out.shape, seed=5)
    for ours, theirs in zip(
        torch.autograd.grad(out, (q, k, v), out_gradient, retain_graph=True),
        torch.autograd.grad(expected, (q, k, v), out_gradient),
        strict=True,
    ):
        assert_same(ours, theirs)


def test_with_edges_for_all_keys_it_is_dense_attention():
    q, k, v = randn(3, 2, 2, N, 4).unbind()
    assert_same(a_router(edges_per_token=N - 1).attend(q, k, v), attention(q, k, v))
    causal = a_router(edges_per_token=N - 1, causal=True)
    assert_same(causal.attend(q, k, v), attention(q, k, v, Causal().mask(N)))


def test_shared_heads_are_drawn_from_all_heads_and_others_from_their_own():
    q, k, _ = randn(3, 1, 2, N, 4).unbind()
    other = q.clone()
    other[:, 1] += 3 * randn(1, N, 4, seed=4)
    apart = a_router(share_heads=False).eval()
    one, two = (apart.draw(x, k) for x in (q, other))
    assert torch.equal(one.log_p[:, 0], two.log_p[:, 0])
    assert not torch.equal(one.log_p[:, 1], two.log_p[:, 1])
    shared = a_router().eval()
    assert not torch.equal(shared.draw(q, k).log_p, shared.draw(other, k).log_p)


def test_layers_may_follow_one_graph():
    leader = a_router()
    layers = [
        scrambled(MultiHeadAttention(8, 2, pattern=rule), seed)
        for seed, rule in enumerate((leader, SameGraph(leader)))
    ]
    x, real = randn(2, N, 8), some_padding()
    x = layers[0](x, key_padding=real)
    out, weights = layers[1](x, key_padding=real, return_weights=True)
    mask = leader.last.edges.mask(N) | torch.eye(N, dtype=torch.bool)
    mask = mask & real[:, None, :, None] & real[:, None, None, :]
    assert torch.equal(weights > 0, mask.expand(2, 2, N, N))
    q, k, v = (
        layers[1].split_heads(to(x)) for to in (layers[1].query, layers[1].key, layers[1].value)
    )
    assert_same(out, layers[1].join_heads(attention(q, k, v, mask)))
    assert not list(layers[1].pattern.parameters())
    with pytest.raises(ValueError, match="has drawn no graph yet"):
        MultiHeadAttention(8, 2, pattern=SameGraph(SACRouter(2, 4, edges_per_token=1)))(x.float())


def test_graphs_are_drawn_in_training_only_and_again_after_an_update():
    router, (q, k, _) = a_router(seed=2), randn(3, 3, 2, N, 4).unbind()
    before = torch.get_rng_state()
    best = router.eval().draw(q, k).edges.mask(N)
    one = router.train().draw(q, k).edges.mask(N)
    assert not torch.equal(one, best)
    assert torch.equal(router.draw(q, k).edges.mask(N), one)
    update_routers(router)
    assert router.n_updates == 1
    assert not torch.equal(router.draw(q, k).edges.mask(N), one)
    assert torch.equal(router.eval().draw(q, k).edges.mask(N), best)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(a_router(seed=3).draw(q, k).edges.mask(N), one)
    twin = a_router(seed=2)
    twin.load_state_dict(router.state_dict())
    assert torch.equal(
        twin.train().draw(q, k).edges.mask(N), router.train().draw(q, k).edges.mask(N)
    )


def test_a_router_that_has_drawn_can_be_copied():
    layer = scrambled(MultiHeadAttention(8, 2, pattern=a_router()))
    x = randn(1, N, 8)
    twin = copy.deepcopy(layer.eval())
    assert_same(layer(x), twin(x))
    again = copy.deepcopy(layer)
    assert again.pattern.last is None
    assert layer.pattern.last is not None


@pytest.mark.parametrize("share_heads", [False, True])
def test_a_causal_graph_does_not_know_later_tokens(share_heads):
    router = a_router(causal=True, share_heads=share_heads)
    layer = scrambled(MultiHeadAttention(8, 2, pattern=router)).eval()
    x = randn(1, N, 8)
    for token in range(N):
        changed = x.clone()
        changed[:, token] += 100 * randn(8, seed=token)
        assert torch.equal(layer(changed)[:, :token], layer(x)[:, :token])


def test_padding_and_other_sequences_change_no_graph_that_is_used():
    layer = scrambled(MultiHeadAttention(8, 2, pattern=a_router())).eval()
    x, real = randn(2, N, 8), some_padding()
    out = layer(x, key_padding=real)
    assert_same(out[1:, :4], layer(x[1:, :4]))
    assert_same(out[:1], layer(x[:1]))


@pytest.mark.parametrize("every_token", [False, True])
def test_the_policy_finds_a_graph_that_is_rewarded(every_token):
    n, target = 5, torch.tensor([3, 4, 0, 1, 2])
    torch.manual_seed(0)
    router = SACRouter(1, 4, edges_per_token=1, d_hidden=24, every_token=every_token)
    q, k = torch.randn(2, 1, 1, n, 4).expand(2, 64, 1, n, 4)
    optimizer = torch.optim.Adam(router.parameters(), lr=0.02)
    for _ in range(150):
        drawn = router.draw(q, k)
        hits = drawn.edges.mask(n)[:, 0, torch.arange(n), target].float().mean(dim=-1, keepdim=True)
        loss = policy_loss(drawn.log_p, hits, hits.mean()) - 0.01 * drawn.entropy.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        router.update()
    assert float(hits.mean()) > 0.9


def test_routers_fit_into_models_and_are_made_for_their_heads():
    assert SAC is SACRouter
    encoder = Encoder(small(), pattern=SAC(2, 4, edges_per_token=1))
    assert encoder(some_tokens(2, N)).shape == (2, N, 8)
    decoder = Decoder(small(), pattern=SAC(2, 4, edges_per_token=1, causal=True))
    assert decoder(some_tokens(2, N)).shape == (2, N, 11)
    with pytest.raises(ValueError, match="made for 2 heads of 4, got 4 of 2"):
        MultiHeadAttention(8, 4, pattern=a_router())
    with pytest.raises(ValueError, match="made for 2 heads of 4, got 4 of 2"):
        MultiHeadAttention(8, 4, pattern=SameGraph(a_router()))
    with pytest.raises(ValueError, match="edges_per_token must be 0 or more, got -1"):
        SACRouter(2, 4, edges_per_token=-1)
    with pytest.raises(ValueError, match="must be drawn with every_token=True"):
        SACRouter(2, 4, edges_per_token=1, causal=True, every_token=False)


def test_a_budget_of_no_edges_leaves_every_token_to_itself():
    q, k, v = randn(3, 2, 2, N, 4).unbind()
    assert_same(a_router(edges_per_token=0).attend(q, k, v), v)


def test_a_router_of_which_nothing_more_is_said_has_a_state_of_32_and_draws_from_seed_0():
    router = SACRouter(2, 4, edges_per_token=1)
    shapes = {tuple(parameter.shape) for parameter in router.parameters()}
    assert any(4 * 32 in shape for shape in shapes)  # the four gates of the LSTM
    assert (router.seed, router.share_heads, router.causal) == (0, True, False)


def test_a_graph_is_followed_by_sequences_of_its_own_length_only():
    leader = a_router()
    q, k, v = randn(3, 2, 2, N, 4).unbind()
    leader.attend(q, k, v)
    longer = torch.cat([q, q], dim=2)
    with pytest.raises(ValueError, match=f"drawn for .b, n. = .2, {N}., got .2, {2 * N}."):
        SameGraph(leader).attend(longer, longer, longer)


def test_a_copy_follows_the_copy_of_its_leader_or_else_the_leader(refusals):
    leader = a_router()
    layers = torch.nn.ModuleList([leader, SameGraph(leader)])
    first, second = copy.deepcopy(layers)
    assert second._leader[0] is first
    assert copy.deepcopy(layers[1])._leader[0] is leader
    with pytest.raises(TypeError, match="must be a SACRouter, got Linear"):
        SameGraph(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("kind", ["leader", "follower"])
def test_padding_is_that_of_every_sequence(kind, refusals):
    leader = a_router()
    q, k, v = randn(3, 2, 2, N, 4).unbind()
    leader.attend(q, k, v)
    router = leader if kind == "leader" else SameGraph(leader)
    for padding, error, sentence in [
        (torch.ones(1, N, dtype=torch.bool), ValueError, "must have one entry for each key"),
        (torch.ones(2, N - 1, dtype=torch.bool), ValueError, "must have one entry for each key"),
        (torch.ones(2, N, dtype=torch.long), TypeError, "key_padding must be bool"),
    ]:
        with pytest.raises(error, match=sentence):
            router.attend(q, k, v, key_padding=padding)
        with pytest.raises(error, match=sentence):
            router.weights(q, k, key_padding=padding)
