"""Where groups would compute many pairs for each that is kept, edges are computed one by one."""

import pytest
import torch

from tinyattn import attention
from tinyattn.edge_list import EDGES_PAY, EdgeList
from tinyattn.engine import sparse_attention
from tinyattn.groups import schedule
from tinyattn.patterns import BlockLocal, Causal, Full, Global, Random, Window, bigbird, longformer

from .close import assert_same
from .test_engine import assert_equals_dense, inputs, some_padding

N = 301
SCATTERED = {
    "few": Random(400, 2, seed=0),
    "one each": Random(400, 1, seed=4),
    "none or more": Random(400, 3, seed=1) & Causal(),
    "with a window": Random(400, 3, seed=2) | Window(1),
    "far from each other": Random(400, 2, seed=3, exclude=Window(30)),
}
EVERY = pytest.mark.parametrize("pattern", SCATTERED.values(), ids=SCATTERED)


def edge_mask(edges: EdgeList):
    mask = torch.zeros(len(edges.keys), edges.n_k, dtype=torch.long)
    return mask.scatter_add_(1, edges.keys, (edges.mask == 0).long())


# ------------------------------------------------------------------------------------ lists


@EVERY
@pytest.mark.parametrize(("n", "n_k"), [(N, N), (200, N)])
def test_a_list_holds_every_allowed_pair_once(pattern, n, n_k):
    edges = schedule(pattern, n, n_k).edges
    assert torch.equal(edge_mask(edges), pattern.mask(n, n_k).long())
    assert set(edges.mask.unique().tolist()) <= {0.0, -torch.inf}


def test_edges_are_chosen_where_groups_compute_many_times_their_pairs():
    for pattern in SCATTERED.values():
        lowered = schedule(pattern, N)
        assert EDGES_PAY * lowered.edges.keys.numel() < lowered.n_pairs
    blocks = Random(N, 2, seed=0, block_size=10)
    for pattern in (
        Window(3),
        Window(2) & Causal(),
        Window(40),
        longformer(3, 2),
        Full(),
        Causal(),
        blocks,
        Global(1),
    ):
        assert schedule(pattern, N).edges is None, pattern
    assert schedule(bigbird(512, 64, 1, seed=0), 512).edges is None
    assert schedule(Random(N, 100, seed=0), N).edges is None
    assert schedule(Random(N, 2, seed=0) | Global(1), N).edges is None  # a list as long as n


@pytest.mark.parametrize("n", [0, 1])
def test_where_there_is_nothing_to_skip_groups_are_kept(n):
    assert schedule(Random(400, 2, seed=0), n).edges is None


def test_the_memory_of_a_list_grows_with_the_edges():
    for n in (1000, 2000):
        edges = schedule(Random(n, 3, seed=0), n).edges
        held = [edges.keys, edges.mask, edges.matrix.values(), *edges.by_key]
        assert max(x.numel() for x in held) <= 3 * n


def test_sums_over_edges_are_products_with_the_matrix_of_their_weights():
    edges = schedule(SCATTERED["none or more"], 200, N).edges
    rng = torch.Generator().manual_seed(0)
    weights = torch.randn(edges.keys.shape, generator=rng, dtype=torch.float64)
    matrix = torch.zeros(200, N, dtype=torch.float64).scatter_add_(1, edges.keys, weights)
    of_queries, of_keys = (torch.randn(n, 4, generator=rng, dtype=torch.float64) for n in (200, N))
    assert_same(edges.into_queries(weights, of_keys), matrix @ of_keys)
    assert_same(edges.into_keys(weights, of_queries), matrix.T @ of_queries)
    products = (of_queries @ of_keys.T).gather(1, edges.keys)
    assert_same(edges.products(of_queries, of_keys), products)


# -------------------------------------------------------------------------------- the meaning


@EVERY
@pytest.mark.parametrize("situation", ["odd n", "padded", "n_q < n_k", "per head", "views"])
def test_edges_equal_dense_attention(pattern, situation):
    n_q, n_k = (200, N) if situation == "n_q < n_k" else (N, N)
    q, k, v = inputs(n_q, n_k)
    mask, options, rule, used = pattern.mask(n_q, n_k), {}, pattern, (q, k, v)
    if situation == "padded":
        options["key_padding"] = some_padding(2, n_k)
        mask = mask & options["key_padding"][:, None, None]
    if situation == "per head":
        rule = (pattern, Causal(), pattern)
        mask = torch.stack([mask, Causal().mask(n_q, n_k), mask])
    if situation == "views":
        used = [
            x.repeat_interleave(2, dim=-1).transpose(1, 2)[..., ::2].transpose(1, 2) for x in used
        ]
    assert_equals_dense(sparse_attention(*used, rule, **options), q, k, v, mask)


@EVERY
def test_edges_in_half_precision_are_rounded_once(pattern):
    q, k, v = (x.detach() for x in inputs(N, dtype=torch.bfloat16))
    single = sparse_attention(q.float(), k.float(), v.float(), pattern)
    assert torch.equal(sparse_attention(q, k, v, pattern), single.bfloat16())
    expected = attention(q.double(), k.double(), v.double(), pattern.mask(N))
    assert_same(single.double(), expected, rtol=1e-4, atol=1e-4)


@EVERY
@pytest.mark.parametrize("scale", [None, 0.0, -2.0, 300.0])
def test_edges_are_scaled_and_large_scores_do_not_overflow(pattern, scale):
    q, k, v = inputs(N, b=1, h=2)
    out = sparse_attention(q, k, v, pattern, scale=scale)
    expected = attention(q, k, v, pattern.mask(N), scale=scale)
    assert_same(out, expected)


def test_second_derivatives_of_edges_are_refused():
    q, k, v = inputs(N, b=1, h=1)
    loss = sparse_attention(q, k, v, SCATTERED["few"]).sum()
    with pytest.raises(NotImplementedError, match=r"no second derivatives \(create_graph=True\)"):
        torch.autograd.grad(loss, q, create_graph=True)


def test_groups_that_forbid_nothing_have_lists_of_their_own_lengths():
    """All share one empty mask; the first has 64 keys, the last 2,880."""
    n = 64 * 130
    pattern = Random(n, 45, seed=0, block_size=64, exclude=BlockLocal(64, after=200))
    groups = schedule(pattern, n).groups
    assert len({group.keys.n for group in groups if not group.masks}) > 2
    q, k, v = inputs(n, b=1, h=1)
    rows = [64, 64 * 20, n - 1]
    mask = pattern.allowed(torch.tensor(rows)[:, None], torch.arange(n))
    ours = sparse_attention(q, k, v, pattern)[:, :, rows]
    dense = attention(q[:, :, rows], k, v, mask)
    assert_same(ours, dense)
    found, expected = (torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (ours, dense))
    for of_edges, of_rows in zip(found, expected, strict=True):
        assert_same(of_edges, of_rows)
