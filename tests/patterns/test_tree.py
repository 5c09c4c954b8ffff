"""The tree of BP-Transformer: walked outwards token by token, tiled, counted, and reached."""

from collections import Counter

import pytest
import torch

from tinyattn import attention
from tinyattn.analysis import path_lengths
from tinyattn.engine import sparse_attention
from tinyattn.groups import schedule
from tinyattn.patterns import Global, Window, bp_transformer
from tinyattn.patterns.tree import BinaryTree, Branches

from ..close import assert_same
from . import by_hand

DEPTHS = pytest.mark.parametrize("depth", range(8))
SOME_K = pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 200])
BOTH = pytest.mark.parametrize("causal", [False, True])


def spans(n):
    """What each node of a tree over n tokens covers, n a power of two."""
    lengths = [2**level for level in range(n.bit_length())]
    return [range(start, start + size) for size in lengths for start in range(0, n, size)]


def contextual(n, k, causal=False):
    return bp_transformer(n, k, causal=causal).edges(2 * n - 1) - n * n.bit_length()


# ------------------------------------------------------------------------------- the builder


@DEPTHS
@SOME_K
@BOTH
def test_the_closed_form_is_the_walk_outwards(depth, k, causal):
    n = 2**depth
    mask = by_hand.bp_transformer(n, k, causal).mask(2 * n - 1)
    assert torch.equal(bp_transformer(n, k, causal=causal).mask(2 * n - 1), mask)


@DEPTHS
@SOME_K
@BOTH
def test_what_a_token_reads_tiles_the_sequence(depth, k, causal):
    n = 2**depth
    cover = spans(n)
    mask = bp_transformer(n, k, causal=causal).mask(2 * n - 1)
    for i in range(n):
        covered = Counter(at for node in mask[i].nonzero()[:, 0].tolist() for at in cover[node])
        assert covered == Counter(range(i + 1 if causal else n))  # each token exactly once


@DEPTHS
@BOTH
def test_a_span_reads_the_tokens_below_it_and_nothing_else(depth, causal):
    n = 2**depth
    mask = bp_transformer(n, 2, causal=causal).mask(2 * n - 1)
    for node, below in enumerate(spans(n)):
        if node >= n:
            assert mask[node].nonzero()[:, 0].tolist() == list(below)


def test_no_token_reads_a_span_that_it_lies_in():
    n = 32
    mask, cover = bp_transformer(n, 3).mask(2 * n - 1), spans(n)
    assert not any(
        mask[i, node] for i in range(n) for node in range(n, 2 * n - 1) if i in cover[node]
    )


def test_nodes_come_level_by_level_from_the_tokens_to_the_root():
    tree = BinaryTree(16, 1)
    level, place = tree.level_and_place(torch.arange(31))
    for node, below in enumerate(spans(16)):
        assert below == range(
            int(place[node]) << int(level[node]), int(place[node] + 1) << int(level[node])
        )
    assert [len(nodes) for nodes in tree.levels(31)] == [16, 8, 4, 2, 1]


def test_numbers_of_tokens_in_between_are_rounded_up():
    assert bp_transformer(13, 2) == bp_transformer(16, 2) != bp_transformer(17, 2)
    assert bp_transformer(1, 1).mask(1).all()


# ------------------------------------------------------------------------------------ counts


def test_counts_are_those_worked_out_on_paper():
    assert [contextual(16, k) for k in (1, 2, 4)] == [98, 136, 178]
    assert [contextual(64, k) for k in (1, 2, 4)] == [642, 992, 1490]


@DEPTHS
def test_with_one_node_of_each_size_the_count_has_a_closed_form(depth):
    n = 2**depth
    assert bp_transformer(n, 1).edges(2 * n - 1) == 3 * n * depth - n + 2
    assert contextual(n, 1, causal=True) == n * depth - (n - 1)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_pairs_grow_with_n_times_the_logarithm_of_n_over_k(k):
    for n in (256, 1024, 4096):
        assert contextual(n, k) <= 2 * k * n * ((n // k).bit_length() + 1)


# ---------------------------------------------------------------------------------- two hops


@DEPTHS
@pytest.mark.parametrize("k", [1, 3])
@BOTH
def test_any_token_reaches_any_other_or_earlier_one_in_two_hops(depth, k, causal):
    n = 2**depth
    lengths = path_lengths(bp_transformer(n, k, causal=causal), 2 * n - 1)[:n, :n]
    reached = torch.as_tensor(lengths) <= 2
    expected = torch.ones(n, n).tril() if causal else torch.ones(n, n)
    assert torch.equal(reached, expected.bool())


def test_no_number_of_layers_brings_the_future_of_a_causal_tree_to_a_token():
    n, cover = 32, spans(32)
    mask = bp_transformer(n, 2, causal=True).mask(2 * n - 1)
    reads = mask.float()
    for _ in range(4):
        reads = (reads @ mask.float() + mask > 0).float()
    assert torch.equal(reads[:n, :n], torch.ones(n, n).tril())
    for i in range(n):  # nor a span with some of it
        assert all(max(cover[node]) <= i for node in reads[i].nonzero()[:, 0].tolist())


def test_a_changed_future_changes_no_bit_of_the_past_through_two_layers():
    n, rule = 32, bp_transformer(32, 2, causal=True)
    x = torch.randn(1, 2, 2 * n - 1, 4, generator=torch.Generator().manual_seed(0))

    def outputs(x):
        once = sparse_attention(x, x, x, rule)
        return sparse_attention(once, once, once, rule)

    for i in (0, 7, 20):
        changed = x.clone()
        for node, below in enumerate(spans(n)):
            if max(below) > i:
                changed[:, :, node] = 50.0
        assert torch.equal(outputs(changed)[:, :, : i + 1], outputs(x)[:, :, : i + 1])


# --------------------------------------------------------------------------------- edge types


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("clip", [1, 9])
def test_edges_are_numbered_by_level_side_and_distance(k, clip):
    n = 32
    tree = BinaryTree(n, k)
    at = torch.arange(2 * n - 1)
    types = tree.edge_types(at[:, None], at, clip)
    assert torch.equal(types >= 0, tree.mask(2 * n - 1))
    number = {(below.start, len(below)): node for node, below in enumerate(spans(n))}
    for i in range(n):
        expected = {i: 2 * k}
        for side, direction in ((0, -1), (k, 1)):
            turn, slot, edge = 0, 0, i + (direction > 0)
            for start, length in by_hand._outwards(i, n, k, direction):
                expected[number[start, length]] = (2 * k + 1) * min(turn, clip) + side + slot
                edge += direction * length
                turn, slot = (turn, slot + 1) if slot + 1 < k else (turn + 1, 0)
        assert {j: int(types[i, j]) for j in types[i].ge(0).nonzero()[:, 0].tolist()} == expected
    level, _ = tree.level_and_place(at)
    for node in range(n, 2 * n - 1):
        own = types[node][types[node] >= 0]
        assert (own == (2 * k + 1) * min(int(level[node]), clip) + 2 * k).all()


def test_a_causal_tree_numbers_its_edges_like_the_other():
    at = torch.arange(31)
    both = BinaryTree(16, 2).edge_types(at[:, None], at, 3)
    causal = BinaryTree(16, 2, causal=True)
    types = causal.edge_types(at[:, None], at, 3)
    assert torch.equal(types, torch.where(causal.mask(31), both, -1))


# --------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(
    "rule",
    [
        bp_transformer(128, 1), bp_transformer(128, 5), bp_transformer(128, 3, causal=True),
        bp_transformer(256, 2) | Global(1), bp_transformer(128, 2) | Window(4),
        bp_transformer(128, 2) & Window(60),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_nodes", [255, 200])
def test_the_schedule_equals_dense_attention(rule, n_nodes):
    rng = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, 2, n_nodes, 4, generator=rng, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    )
    weights = torch.randn(2, 2, n_nodes, 4, generator=rng, dtype=torch.float64)
    ours, expected = sparse_attention(q, k, v, rule), attention(q, k, v, rule.mask(n_nodes))
    assert_same(ours, expected)
    grads = [torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (ours, expected)]
    for mine, other in zip(*grads, strict=True):
        assert_same(mine, other)


@BOTH
@pytest.mark.parametrize("length", [1, 2, 4])
def test_spans_with_equal_footprints_read_alike(causal, length):
    rule = bp_transformer(16, 2, causal=causal)
    mask, seen, n_known = rule.mask(31), {}, 0
    for first in range(32 - length):
        for start in range(16 - 4 + 1):
            queries, keys = range(first, first + length), range(start, start + 4)
            footprint = rule.footprint(queries, keys)
            if footprint is not None:
                n_known += footprint in seen
                look = mask[queries, :][:, keys]
                assert torch.equal(seen.setdefault(footprint, look), look), (queries, keys)
    assert n_known > 10  # some come again


@pytest.mark.parametrize("n", [1, 2, 32, 64, 512])
def test_branches_are_each_node_once(n):
    for n_nodes in (0, 1, n, 2 * n - 1):
        groups = Branches(n).groups(n_nodes)
        assert sorted(at for group in groups for run in group for at in run) == list(range(n_nodes))


def test_pairs_computed_grow_like_the_pairs_of_the_rule():
    small, large = (schedule(bp_transformer(n, 4), 2 * n - 1).n_pairs for n in (2048, 8192))
    assert large <= 4 * 1.2 * small
    rule = bp_transformer(8192, 4)
    assert large <= 4 * rule.edges(2 * 8192 - 1)


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: bp_transformer(0, 1), "n must be 1 or more tokens, got 0"),
        (lambda: bp_transformer(4, 0), "k must be 1 or more nodes, got 0"),
        (lambda: BinaryTree(6, 1), "n must be a power of two, got 6; bp_transformer rounds up"),
        (lambda: bp_transformer(4, 1).mask(8), "over n=4 tokens has 7 nodes, got 8"),
    ],
)
def test_impossible_trees_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.usefixtures("refusals")
def test_a_number_of_tokens_that_is_no_whole_one_is_refused():
    with pytest.raises(TypeError, match=r"n must be a whole number, got 2\.5"):
        bp_transformer(2.5, 1)
