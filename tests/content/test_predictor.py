"""The edge predictor: what it may draw, how likely that is, and that it draws no more."""

import itertools

import pytest
import torch

from tinyattn.content import EdgePredictor, Edges

from ..close import assert_same
from ..transformer.tiny import randn, scrambled, seeded

KINDS = [True, False]  # every_token


def a_predictor(every_token, d_node=3):
    return scrambled(EdgePredictor(d_node, 5, every_token=every_token))


def all_draws(n, n_edges, every_token):
    """Every sequence of edges that can be drawn, as (graphs, 1, n_edges) queries and keys."""
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    if every_token:
        sources = [edge // (n_edges // n) for edge in range(n_edges)]
        options = [[p for p in pairs if p[0] == source] for source in sources]
    else:
        options = [pairs] * n_edges
    draws = [d for d in itertools.product(*options) if len(set(d)) == len(d)]
    queries, keys = torch.tensor(draws).permute(2, 0, 1)[:, :, None]
    return Edges(queries, keys, torch.ones_like(queries, dtype=torch.bool))


@pytest.mark.parametrize("every_token", KINDS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "n_edges"), [(5, 5), (5, 10), (5, 0), (5, 25), (1, 1), (4, 40)])
def test_a_graph_keeps_its_budget_and_repeats_no_edge(n, n_edges, causal, every_token):
    predictor, x = a_predictor(every_token), randn(3, 2, n, 3)
    possible = n * (n - 1) // (2 if causal else 1)
    for generator in (None, seeded(1)):
        edges = predictor(x, n_edges, causal=causal, generator=generator).edges
        mask = edges.mask(n)
        assert edges.valid.shape == (3, 2, n_edges)
        assert torch.equal(mask.sum(dim=(2, 3)), edges.valid.sum(dim=2))  # no edge twice
        assert not mask.diagonal(dim1=2, dim2=3).any()
        assert not (causal and mask.triu(1).any())
        if every_token:
            each = n_edges // n
            most = torch.arange(n).clamp(max=each) if causal else min(each, n - 1)
            assert (mask.sum(dim=3) == most).all()
        else:
            assert (mask.sum(dim=(2, 3)) == min(n_edges, possible)).all()


@pytest.mark.parametrize("every_token", KINDS)
def test_padding_has_no_edges(every_token):
    predictor, x = a_predictor(every_token), randn(2, 1, 6, 3)
    real = torch.tensor([[True] * 6, [True, True, False, True, False, False]])
    mask = predictor(x, 12, real=real, generator=seeded(0)).edges.mask(6)
    assert not (mask & ~(real[:, None, :, None] & real[:, None, None, :])).any()
    assert mask[1].sum() == 6  # all pairs of three tokens


@pytest.mark.parametrize(
    ("n", "n_edges", "every_token"),
    [(2, 2, True), (3, 3, True), (4, 4, True), (3, 6, True), (3, 2, False), (3, 3, False)],
)
def test_the_probabilities_of_all_draws_sum_to_one(n, n_edges, every_token):
    predictor, given = a_predictor(every_token), all_draws(n, n_edges, every_token)
    x = randn(1, 1, n, 3).expand(len(given.queries), 1, n, 3)
    drawn = predictor(x, n_edges, given=given)
    assert torch.equal(drawn.edges.mask(n), given.mask(n))
    assert_same(drawn.log_p.sum(dim=-1).exp().sum(), torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("every_token", KINDS)
def test_probabilities_are_those_of_the_lstm_step_by_step(every_token):
    predictor, x = a_predictor(every_token), randn(1, 1, 4, 3)
    drawn = predictor(x, 4, generator=seeded(2))
    inputs, nodes = predictor.read(x[0, 0]), predictor.nodes(x[0, 0])
    zeros = torch.zeros(5, dtype=torch.float64)
    state = predictor.cell(zeros, (zeros, zeros))
    free = {(i, j) for i in range(4) for j in range(4) if i != j}
    for edge, (i, j) in enumerate(zip(*(p.flatten().tolist() for p in pairs(drawn)), strict=True)):
        log_p, entropy = torch.zeros(2, dtype=torch.float64)
        for token, choices in (
            (i, [i] if every_token else sorted({i for i, _ in free})),
            (j, sorted(k for at, k in free if at == i)),
        ):
            scores = torch.stack([nodes[c] @ state[0] / 5**0.5 for c in choices])
            p = scores.exp() / scores.exp().sum()
            log_p = log_p + p[choices.index(token)].log()
            entropy = entropy - (p * p.log()).sum()
            state = predictor.cell(inputs[token], state)
        free.remove((i, j))
        assert_same(drawn.log_p[0, 0, edge], log_p)
        assert_same(drawn.entropy[0, 0, edge], entropy)


def pairs(drawn):
    return drawn.edges.queries, drawn.edges.keys


@pytest.mark.parametrize("every_token", KINDS)
def test_draws_come_as_often_as_their_probabilities_say(every_token):
    n_edges, n_draws = (3, 20_000) if every_token else (2, 20_000)
    predictor, given = a_predictor(every_token), all_draws(3, n_edges, every_token)
    x = randn(1, 1, 3, 3)
    p = predictor(x.expand(len(given.queries), 1, 3, 3), n_edges, given=given).log_p.sum(-1).exp()
    drawn = predictor(x.expand(n_draws, 1, 3, 3), n_edges, generator=seeded(0)).edges
    code = torch.tensor([9 ** (2 * e) for e in range(n_edges)])
    codes = [(code * (3 * e.queries + e.keys)).sum(dim=-1).flatten() for e in (given, drawn)]
    counts = (codes[0][:, None] == codes[1][None]).sum(dim=1)
    assert counts.sum() == n_draws
    error = (p[:, 0] * (1 - p[:, 0]) / n_draws).sqrt()
    assert ((counts / n_draws - p[:, 0]).abs() < 4 * error).all()


@pytest.mark.parametrize("every_token", KINDS)
def test_without_a_generator_each_edge_is_the_likeliest(every_token):
    predictor, x = a_predictor(every_token).requires_grad_(False), randn(1, 1, 4, 3)
    best = predictor(x, 4)
    for place in range(4):
        for i, j in itertools.permutations(range(4), 2):
            queries, keys = (p.clone() for p in pairs(best))
            if every_token and i != place:
                continue
            if not every_token and i != int(queries[0, 0, place]):
                continue
            taken = list(
                zip(queries[0, 0, :place].tolist(), keys[0, 0, :place].tolist(), strict=True)
            )
            if (i, j) in taken:
                continue
            queries[0, 0, place], keys[0, 0, place] = i, j
            given = Edges(queries, keys, torch.ones_like(keys, dtype=torch.bool))
            other = predictor(x, 4, given=given).log_p[0, 0, place]
            assert float(other) <= float(best.log_p[0, 0, place]) + 1e-12


@pytest.mark.parametrize("every_token", KINDS)
def test_draws_follow_their_generator_and_nothing_else(every_token):
    predictor, x = a_predictor(every_token), randn(2, 2, 5, 3)
    before = torch.get_rng_state()
    one, same, other = (predictor(x, 5, generator=seeded(s)).edges for s in (1, 1, 2))
    assert torch.equal(one.mask(5), same.mask(5))
    assert not torch.equal(one.mask(5), other.mask(5))
    assert torch.equal(torch.get_rng_state(), before)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="d_node and d_hidden must be 1 or more, got d_node=0"):
        EdgePredictor(0, 4)
    predictor, x = a_predictor(True), randn(1, 1, 4, 3)
    for n_edges in (5, -4):
        with pytest.raises(ValueError, match=f"a multiple of n=4 .* got {n_edges}"):
            predictor(x, n_edges)
    assert a_predictor(False)(x, 5).edges.valid.sum() == 5
    assert predictor(randn(1, 1, 0, 3), 0).log_p.shape == (1, 1, 0)


def test_edges_that_could_not_be_drawn_have_no_probability():
    predictor, x = a_predictor(True), randn(1, 1, 3, 3)
    keys = torch.tensor([[[1, 2, 0]]])

    def given(queries, keys=keys):
        queries = torch.tensor([[queries]])
        return Edges(queries, keys, torch.ones_like(queries, dtype=torch.bool))

    assert predictor(x, 3, given=given([0, 1, 2])).log_p.shape == (1, 1, 3)
    with pytest.raises(ValueError, match=r"given.queries must be \[0, 1, 2\] in each graph"):
        predictor(x, 3, given=given([2, 0, 1]))
    with pytest.raises(
        ValueError, match=r"3 edges for each graph, .* = \(1, 1, 3\), got \(1, 1, 2\)"
    ):
        predictor(x, 3, given=given([0, 1], keys[..., :2]))
    free = a_predictor(False)
    assert free(x, 3, given=given([2, 0, 1])).log_p.shape == (1, 1, 3)
    nothing = Edges(
        *(torch.zeros(1, 1, 0, dtype=kind) for kind in (torch.long, torch.long, torch.bool))
    )
    assert free(randn(1, 1, 0, 3), 2, given=nothing).log_p.shape == (1, 1, 0)
