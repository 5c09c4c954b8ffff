"""Patterns as graphs: hops against plain search and layers, walks against closed forms."""

import math
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch.autograd.functional import jacobian

from tinyattn import attention
from tinyattn.analysis import (
    adjacency,
    first_seen,
    graphs,
    max_path_length,
    mixing_time,
    n_components,
    path_lengths,
    receptive_field,
    spectral_gap,
)
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Dilated,
    Full,
    Global,
    Random,
    Strided,
    Window,
    bigbird,
    longformer,
    sparse_fixed,
    sparse_fixed_factors,
    sparse_strided,
    star_transformer,
)

from ..patterns import by_hand

PUBLIC = by_hand.public(23)
EVERY = pytest.mark.parametrize("rule", PUBLIC.values(), ids=PUBLIC)


def hops(mask):
    """Layers until output i depends on input j, by letting every token collect what it reads."""
    n, reads = len(mask), [[j for j, read in enumerate(row) if read] for row in mask.tolist()]
    known = [{i: 0} for i in range(n)]  # the residual connection
    for layer in range(1, n + 1):
        before = [set(tokens) for tokens in known]
        for i in range(n):
            for j in set().union(*(before[j] for j in reads[i])):
                known[i].setdefault(j, layer)
    rows = [[known[i].get(j, math.inf) for j in range(n)] for i in range(n)]
    return torch.tensor(rows, dtype=torch.float32).view(n, n)


def path(n):
    """Each token reads the one before."""
    return torch.eye(n, dtype=torch.bool).roll(1, dims=0).tril()


@contextmanager
def tracing():
    """Bytes that numpy asks for inside the block, at their highest."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cycle(n):
    """A ring in which each token reads its two neighbours."""
    eye = torch.eye(n, dtype=torch.bool)
    return eye.roll(1, dims=1) | eye.roll(-1, dims=1)


# -------------------------------------------------------------------------------------- hops


@EVERY
def test_path_lengths_are_the_layers_that_a_signal_needs(rule):
    mask = rule.mask(23)
    assert torch.equal(path_lengths(rule.pattern, 23), hops(mask))
    assert torch.equal(path_lengths(mask), hops(mask))
    assert max_path_length(rule.pattern, 23) == float(hops(mask).max())


@settings(max_examples=40)
@given(case=by_hand.cases(14))
def test_path_lengths_of_expressions_are_the_layers_that_a_signal_needs(case):
    rule, _, n = case
    expected = hops(rule.mask(n))
    assert torch.equal(path_lengths(rule.pattern, n), expected)
    for layers in range(4):
        assert torch.equal(receptive_field(rule.pattern, layers, n), expected <= layers)


def test_entry_i_j_goes_from_reader_to_what_is_read():
    # token 1 reads token 0, nobody reads token 1
    lengths = path_lengths(torch.tensor([[False, False], [True, False]]))
    assert lengths.tolist() == [[0, math.inf], [1, 0]]
    assert path_lengths(Causal(), 3).tolist() == [
        [0, math.inf, math.inf],
        [1, 0, math.inf],
        [1, 1, 0],
    ]


@pytest.mark.parametrize(("w", "n"), [(1, 9), (2, 12), (3, 10), (4, 5), (20, 5)])
def test_a_window_joins_its_ends_in_as_many_hops_as_fit(w, n):
    assert max_path_length(Window(w), n) == math.ceil((n - 1) / w)
    one_way = path_lengths(Window(w) & Causal(), n)
    assert one_way[-1, 0] == math.ceil((n - 1) / w)


@pytest.mark.parametrize(
    ("rule", "n", "length"),
    [
        (Full(), 9, 1), (Full(), 1, 0), (Full(), 0, 0), (Global(1), 9, 2), (star_transformer(), 13, 2),
        (longformer(2, 1), 40, 2), (bigbird(32, 2, 3, seed=0), 32, 2), (Dilated(2, 2), 20, math.inf),
        (Strided(4), 20, math.inf), (BlockLocal(5), 20, math.inf), (Window(2) & Causal(), 9, math.inf),
    ],
)  # fmt: skip
def test_longest_paths_are_those_of_the_papers(rule, n, length):
    assert max_path_length(rule, n) == length


def test_the_longest_path_is_searched_in_pieces_that_cover_every_output(monkeypatch):
    rules = [Window(2), Window(1) & Causal(), Global(1), Dilated(1, 3) | Global((5,))]
    whole = [max_path_length(rule, 23) for rule in rules]
    assert whole == [float(hops(rule.mask(23)).max()) for rule in rules]
    for distances in (1, 23, 50, 200):  # 1, 1, 2 and 8 outputs at a time
        monkeypatch.setattr(graphs, "DISTANCES_AT_ONCE", distances)
        assert [max_path_length(rule, 23) for rule in rules] == whole
    last = torch.eye(23, dtype=torch.bool).index_fill(0, torch.tensor(22), True)
    assert max_path_length(last) == math.inf
    late = path(23)
    assert max_path_length(late | late.T) == 22


def test_the_longest_path_of_many_tokens_needs_little_memory():
    with tracing() as peak:
        assert max_path_length(Global(1), 4096) == 2
    assert peak() < 100 * 2**20  # the matrix of all distances would take 128 MB, twice


@pytest.mark.parametrize("rule", [sparse_strided(5), sparse_fixed(5, 1), sparse_fixed(5, 2)])
def test_sparse_transformers_reach_every_earlier_token_in_two_hops(rule):
    lengths, past = path_lengths(rule, 30), Causal().mask(30)
    assert lengths[past].max() == 2
    assert lengths[~past].isinf().all()


def test_random_links_join_everything_in_a_logarithm_of_n_and_a_band_does_not():
    n, r = 512, 8
    assert max_path_length(Random(n, r, seed=0), n) <= 2 * math.log(n) / math.log(r)
    assert max_path_length(Window(r // 2), n) == math.ceil((n - 1) / 4)


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        (Dilated(3, 4), 4), (Dilated(3, 1), 1), (Strided(6), 6), (BlockLocal(6), 4),
        (BlockLocal(6, after=1), 1), (Window(0), 23), (Window(1), 1), (Causal(), 1), (Global(0), 23),
        (Global(1), 1), (Global(1, reads=False), 1),
        (sparse_fixed_factors(23, 1)[1], 23), (sparse_fixed_factors(12, 1)[1], 12),
    ],
)  # fmt: skip
def test_parts_that_never_meet_are_counted_whoever_reads_whom(rule, parts):
    assert n_components(rule, 23) == parts
    assert n_components(rule.mask(23)) == parts


def stacked(pattern, n_layers, n):
    """Who changes with whom, by autograd through layers with a residual connection each."""
    maps = torch.randn(
        n_layers, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )

    def layers(x):
        for w_q, w_k, w_v in maps:
            x = x + attention(x @ w_q, x @ w_k, x @ w_v / 4, pattern.mask(n), scale=0.01)
        return x

    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return jacobian(layers, x).abs().sum(dim=(1, 3)) > 0


@pytest.mark.parametrize("n_layers", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "rule",
    [
        Window(2),
        Dilated(1, 3),
        Window(1) & Causal(),
        star_transformer(),
        BlockLocal(4),
        Random(11, 2, 0),
    ],
)
def test_the_receptive_field_is_what_autograd_sees_through_layers(rule, n_layers):
    expected = stacked(rule, n_layers, 11) if n_layers else torch.eye(11, dtype=torch.bool)
    assert torch.equal(receptive_field(rule, n_layers, 11), expected)
    assert torch.equal(receptive_field(rule.mask(11), n_layers), expected)


# ------------------------------------------------------------------------------------- walks


@pytest.mark.parametrize("n", [3, 4, 5, 8, 17])
def test_the_gap_of_a_ring_is_that_of_its_cosines(n):
    # λ_k = cos(2πk / n); an even ring swings for ever between its odd and even tokens
    cosines = sorted(abs(math.cos(2 * math.pi * k / n)) for k in range(n))
    assert spectral_gap(cycle(n)) == pytest.approx(1 - cosines[-2], abs=1e-9)
    lazy = cycle(n) | torch.eye(n, dtype=torch.bool)  # λ_k = (1 + 2 cos(2πk / n)) / 3
    thirds = sorted(abs(1 + 2 * math.cos(2 * math.pi * k / n)) / 3 for k in range(n))
    assert spectral_gap(lazy) == pytest.approx(1 - thirds[-2], abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 8, 20])
def test_the_gaps_of_complete_graphs_with_and_without_loops(n):
    assert spectral_gap(Full(), n) == pytest.approx(1.0, abs=1e-6)
    without = ~torch.eye(n, dtype=torch.bool)
    assert spectral_gap(without) == pytest.approx(1 - 1 / (n - 1), abs=1e-9)


def test_a_causal_walk_forgets_half_at_each_step():
    # a triangular matrix has its diagonal, 1, 1/2, 1/3, …, as eigenvalues
    assert spectral_gap(Causal(), 9) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("rule", [Strided(2), BlockLocal(4), Window(0), Global(0), Dilated(1, 2)])
def test_a_pattern_that_falls_apart_has_no_gap_and_never_mixes(rule):
    assert spectral_gap(rule, 12) == pytest.approx(0.0, abs=1e-9)
    assert mixing_time(rule, 12) == math.inf


def test_random_links_mix_faster_than_a_band_of_the_same_budget():
    n = 128
    band, links = Window(4), Window(1) | Random(n, 6, seed=0, exclude=Window(1))
    assert links.edges(n) == pytest.approx(band.edges(n), rel=0.02)
    assert spectral_gap(links, n) > 20 * spectral_gap(band, n)
    assert mixing_time(links, n) < mixing_time(band, n) / 20


def walked(mask, distance):
    """Steps until the worst of all starts is near where all of them end, step by step."""
    n = len(mask)
    step = [[1 / sum(row) if sum(row) and row[j] else float(not sum(row) and i == j) for j in range(n)]
            for i, row in enumerate(mask.tolist())]  # fmt: skip
    at = [[float(i == j) for j in range(n)] for i in range(n)]

    def moved(p):
        return [sum(p[i] * step[i][j] for i in range(n)) for j in range(n)]

    end = at[0]
    for _ in range(3000):
        end = moved(end)
    for steps in range(200):
        if max(sum(abs(a - b) for a, b in zip(p, end, strict=True)) / 2 for p in at) <= distance:
            return steps
        at = [moved(p) for p in at]
    raise AssertionError("not within 200 steps")


@pytest.mark.parametrize("distance", [0.1, 0.25, 0.6])
@pytest.mark.parametrize(
    "rule",
    [
        Window(2),
        Full(),
        Causal(),
        star_transformer(),
        Window(1) | Random(9, 1, 0),
        Global(1) | Window(0),
    ],
)
def test_the_mixing_time_is_that_of_the_walk_from_the_worst_start(rule, distance):
    assert mixing_time(rule, 9, distance=distance) == walked(rule.mask(9), distance)


@pytest.mark.parametrize("n_steps", [1, 2, 3, 5])
@pytest.mark.parametrize("block_size", [1, 3, 5, 7])
def test_a_distance_that_is_met_exactly_is_near_enough(block_size, n_steps):
    # from the second block, which the first never reads, half of what is there leaves at each step
    rule = BlockLocal(block_size, before=1)
    assert mixing_time(rule, 2 * block_size, distance=0.5**n_steps) == n_steps
    assert mixing_time(rule, 2 * block_size, distance=0.5**n_steps - 1e-6) == n_steps + 1


def test_mixing_takes_no_step_for_one_token_and_for_ever_between_two_ends():
    assert mixing_time(Full(), 1) == 0
    assert mixing_time(torch.tensor([[False, True], [True, False]]), n_steps=50) == math.inf
    two_ends = torch.tensor([[1, 0, 0], [1, 0, 1], [0, 0, 1]]).bool()
    assert mixing_time(two_ends, n_steps=50) == math.inf
    assert mixing_time(Window(1), 64, n_steps=3) == math.inf


def test_a_token_that_reads_nothing_stays_where_it_is():
    # token 0 reads nothing, token 1 reads token 0: every walk ends at token 0
    mask = torch.tensor([[False, False], [True, False]])
    assert mixing_time(mask) == 1
    assert spectral_gap(mask) == pytest.approx(1.0)


# --------------------------------------------------------------------------------- the matrix


@EVERY
def test_the_matrix_holds_the_pairs_of_the_definition(rule):
    reads = adjacency(rule.pattern, 23)
    assert sparse.issparse(reads)
    assert reads.dtype == np.bool_
    assert np.array_equal(reads.toarray(), rule.mask(23).numpy())
    assert reads.nnz == rule.pattern.edges(23)


@settings(max_examples=30)
@given(case=by_hand.cases(100), data=st.data())
def test_the_matrix_of_an_expression_holds_its_pairs(case, data):
    rule, _, n = case
    assert np.array_equal(adjacency(rule.pattern, n).toarray(), rule.mask(n).numpy())


def test_the_matrix_of_a_long_window_is_built_from_its_pairs():
    reads = adjacency(Window(2), 100_000)  # n² would be ten billion
    assert reads.nnz == Window(2).edges(100_000)


# ------------------------------------------------------------------------------- who is seen


@pytest.mark.parametrize("rules", [[Window(2)], [Window(1), Dilated(1, 3)], [Causal(), Window(1)]])
def test_a_position_is_seen_through_as_many_layers_as_make_a_way_to_it(rules):
    n = 11
    steps = [rule.mask(n) | torch.eye(n, dtype=torch.bool) for rule in rules]
    for position in range(n):
        expected, seen = [0] * n, {position}
        for layers, step in enumerate(reversed(steps), start=1):
            seen = {j for i in seen for j in range(n) if step[i, j]}
            expected = [old or layers * (j in seen) for j, old in enumerate(expected)]
        assert first_seen(rules, position, n).tolist() == expected


# ---------------------------------------------------------------------------------- refusals


MASK = torch.eye(3, dtype=torch.bool)
REFUSED = {
    "a rule without n": ((Window(1),), ValueError, r"say how many tokens the graph of Window\(w=1\) has"),
    "a negative n": ((Window(1), -2), ValueError, r"0 <= n <= n_k .*, got n=-2"),
    "half a token": ((Window(1), 2.5), TypeError, r"n must be a whole number, got 2\.5"),
    "a strip": ((MASK[:2],), ValueError, r"must be \(n, n\), got \(2, 3\)"),
    "weights": ((MASK.float(),), TypeError, "must be bool, True = reads, got torch.float32"),
    "another n": ((MASK, 4), ValueError, "n=4 is not the 3 tokens of the mask; leave it out"),
    "nothing": ((None, 3), TypeError, r"a rule such as Causal\(\), got NoneType"),
    "an array": ((MASK.numpy(), 3), TypeError, r"a rule such as Causal\(\), got ndarray"),
    "more than was drawn": ((Random(4, 1, seed=0), 5), ValueError, "drawn for n=4 tokens, got 5"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    "ask", [adjacency, path_lengths, max_path_length, n_components, spectral_gap, mixing_time]
)
@pytest.mark.parametrize(("args", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_graph_is_refused(ask, args, error, sentence):
    with pytest.raises(error, match=sentence):
        ask(*args)


ODD = {
    "fewer layers than none": (lambda: receptive_field(Full(), -1, 3), ValueError, "n_layers must be 0 or more, got -1"),
    "half a layer": (lambda: receptive_field(Full(), 0.5, 3), TypeError, r"whole number, got 0\.5"),
    "the gap of one token": (lambda: spectral_gap(Full(), 1), ValueError, "two tokens or more, got n=1"),
    "the gap of none": (lambda: spectral_gap(Full(), 0), ValueError, "two tokens or more, got n=0"),
    "a walk without tokens": (lambda: mixing_time(Full(), 0), ValueError, "at least one token, got n=0"),
    "no distance": (lambda: mixing_time(Full(), 3, distance=0), ValueError, "got distance=0, n_steps=10000"),
    "any distance": (lambda: mixing_time(Full(), 3, distance=1.0), ValueError, r"got distance=1\.0"),
    "a token behind the last": (lambda: first_seen([Full()], 3, 3), ValueError, "position must be in 0 … 2, got 3"),
    "a token before the first": (lambda: first_seen([Full()], -1, 3), ValueError, "position must be in 0 … 2, got -1"),
    "a token at a fraction": (lambda: first_seen([Full()], 1.0, 3), TypeError, r"position must be a whole number, got 1\.0"),
    "a token at True": (lambda: first_seen([Full()], True, 3), TypeError, "position must be a whole number, got True"),
    "a fraction of a token": (lambda: first_seen([Full()], 1, 3.0), TypeError, r"n must be a whole number, got 3\.0"),
    "fewer steps than none": (lambda: mixing_time(Full(), 3, n_steps=-1), ValueError, "n_steps=-1"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "error", "sentence"), ODD.values(), ids=ODD)
def test_questions_without_an_answer_are_refused(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask()
