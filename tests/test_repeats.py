"""Groups that differ only in where they stand are computed as one batch, and nothing changes."""

from dataclasses import dataclass

import pytest
import torch

from tinyattn import attention, engine
from tinyattn.engine import sparse_attention
from tinyattn.groups import Group, schedule
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Dilated,
    Pattern,
    Random,
    Strided,
    Window,
    axial_columns,
    longformer,
    sparse_strided,
)
from tinyattn.places import Places
from tinyattn.repeats import Repeated, Run, batches

from .close import assert_same
from .test_engine import assert_equals_dense, inputs, some_padding

N = 701  # odd; many times as many groups as heads
REPEATING = {
    "window": Window(30),
    "wider than many groups": Window(200),
    "causal window": Window(70) & Causal(),
    "window and global": longformer(20, 3),
    "window and two runs of global": longformer(20, (0, 1, 400)),
    "blocks": BlockLocal(16),
    "blocks and their neighbours": BlockLocal(30, before=2, after=1),
    "dilated": Dilated(5, 9),
    "dilated, few to a class": Dilated(40, 50),
    "stride": Strided(26),
    "causal stride": Strided(13) & Causal(),
    "window and stride": sparse_strided(26),
    "columns": axial_columns(100),
}
EVERY = pytest.mark.parametrize("pattern", REPEATING.values(), ids=REPEATING)


def places(run, apart, times):
    return [[at + apart * time for at in run] for time in range(times)]


# ------------------------------------------------------------------------------------ batches


@EVERY
def test_every_group_is_in_one_batch_in_the_order_of_the_schedule(pattern):
    lowered = schedule(pattern, N)
    batched = [group for batch in lowered.batches for group in batch.groups]
    assert [id(group) for group in batched] == [id(group) for group in lowered.groups]
    assert max(len(batch.groups) for batch in lowered.batches) > 2


@EVERY
def test_a_part_of_a_batch_stands_where_its_groups_do(pattern):
    x = torch.arange(N)[None, :, None]
    for batch in schedule(pattern, N).batches:
        if len(batch.groups) > 1:
            some = batch.groups[1:4]
            part = batch.part(1, 4)
            assert part.masks is some[0].masks
            for ours, theirs in [
                (part.queries, [group.queries for group in some]),
                (part.keys, [group.keys for group in some]),
            ]:
                assert torch.equal(ours.take(x), torch.cat([each.take(x) for each in theirs]))
                assert ours.n == theirs[0].n


def test_the_inside_of_a_window_is_one_batch_and_its_ends_are_not():
    sizes = [len(batch.groups) for batch in schedule(Window(128), 64 * 40).batches]
    assert sizes == [1, 1, 36, 1, 1]


def test_the_number_of_batches_does_not_grow_with_the_sequence():
    for pattern in (Window(100), longformer(100, 4), BlockLocal(64), Strided(32)):
        short, long = (len(schedule(pattern, n).batches) for n in (4096, 16384))
        assert long <= short, pattern


def test_groups_that_are_not_alike_stay_alone():
    for pattern in (Causal(), Random(N, 3, seed=0), Random(N, 2, seed=0, block_size=10)):
        assert all(len(batch.groups) == 1 for batch in schedule(pattern, N, N).batches), pattern


@dataclass(frozen=True)
class Sieve(Pattern):
    """A window in which some pairs are missing, others in each of its groups."""

    def allowed(self, i, j):
        return ((j - i).abs() <= 20) & ((i * i + 3 * j) % 7 > 0)

    def reach(self, queries, n_k):
        return Window(20).reach(queries, n_k)


@pytest.mark.parametrize("pattern", [Sieve(), Random(N, 1, seed=0, block_size=64)])
def test_groups_with_other_masks_or_at_other_distances_stay_apart(pattern):
    q, k, v = inputs(N, b=1, h=1)
    assert_equals_dense(sparse_attention(q, k, v, pattern), q, k, v, pattern.mask(N))


def test_a_group_that_is_further_on_than_the_others_begins_a_batch():
    masks = ()
    lowered = [
        Group(Places([range(a, a + 4)]), Places([range(a, a + 4)]), masks, False)
        for a in (0, 10, 22, 34, 44)
    ]
    assert [len(batch.groups) for batch in batches(lowered)] == [2, 2, 1]


# ------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("run", "apart", "times"),
    [
        (range(3, 9), 6, 4),  # blocks
        (range(3, 9), 10, 3),
        (range(10), 3, 5),  # windows, which overlap
        (range(10), 1, 4),
        (range(2, 6), 0, 3),  # global tokens
        (range(1, 25, 5), 1, 4),  # classes of a stride, between each other
        (range(0, 24, 4), 4, 3),  # windows with gaps
        (range(0, 24, 4), 8, 3),
        (range(5, 6), 7, 3),
    ],
)
def test_repeated_runs_take_and_add_to_the_rows_they_name(run, apart, times):
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(1, 40, 2, generator=rng)
    rows = torch.tensor(places(run, apart, times))
    named = Repeated([Run(run, apart, times)])
    assert torch.equal(named.take(x), x[0, rows])
    assert named.n == len(run)
    left = torch.randn(times, 3, len(run), generator=rng).transpose(1, 2)
    right = torch.randn(times, 3, 2, generator=rng)
    out, expected = torch.ones(1, 40, 2), torch.ones(1, 40, 2)
    named.add_product(out, left, [right], alpha=0.5)
    expected[0].index_add_(0, rows.flatten(), 0.5 * (left @ right).flatten(0, 1))
    assert_same(out, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("run", "apart"), [(range(3, 9), 6), (range(3, 9), 8), (range(0, 30, 5), 1)]
)
def test_rows_are_written_where_their_copy_stands(run, apart):
    rng = torch.Generator().manual_seed(0)
    left, right = torch.randn(4, 6, 3, generator=rng), torch.randn(4, 3, 2, generator=rng)
    rows = torch.tensor(places(run, apart, 4))
    named = Repeated([Run(run, apart, 4)])
    expected = torch.zeros(1, 40, 2)
    expected[0, rows] = left @ right
    out, again = torch.zeros(1, 40, 2), torch.zeros(1, 40, 2)
    named.put_product(out, left, [right])
    named.put(again, left @ right)
    assert_same(out, expected, rtol=1e-6, atol=1e-6)
    assert_same(again, expected, rtol=1e-6, atol=1e-6)


def test_copies_that_share_rows_are_added_in_slices_that_share_none():
    for run, apart, times, slices in [
        (range(10), 10, 5, 1), (range(10), 12, 5, 1), (range(10), 5, 3, 2),
        (range(10), 4, 3, 3), (range(0, 40, 8), 1, 8, 1), (range(0, 40, 8), 16, 3, 3),
        (range(7), 0, 9, 1),
    ]:  # fmt: skip
        assert Run(run, apart, times).n_slices == slices, (run, apart, times)
    assert Run(range(0, 40, 8), 3, 5).n_slices > 16  # in no slices: a batch of these is refused


# -------------------------------------------------------------------------------- the meaning


@EVERY
@pytest.mark.parametrize("situation", ["one head", "padded", "n_q < n_k", "small cache", "views"])
def test_batches_of_groups_equal_dense_attention(monkeypatch, pattern, situation):
    n_q, n_k = (N - 100, N + 50) if situation == "n_q < n_k" else (N, N)
    if situation == "small cache":
        monkeypatch.setattr(engine, "CACHED_SCORES", 40_000)
    q, k, v = inputs(n_q, n_k, b=2 if situation == "padded" else 1, h=1, d=3, d_v=2)
    mask, real = pattern.mask(n_q, n_k), None
    if situation == "padded":
        real = some_padding(2, n_k)
        mask = mask & real[:, None, None]
    used = (q, k, v)
    if situation == "views":  # the heads between each other, and every second entry of a row
        used = [
            x.repeat_interleave(2, dim=-1).transpose(1, 2)[..., ::2].transpose(1, 2) for x in used
        ]
    out = sparse_attention(*used, pattern, key_padding=real)
    assert_equals_dense(out, q, k, v, mask)


@EVERY
def test_batches_in_half_precision_are_rounded_once(pattern):
    q, k, v = (x.detach() for x in inputs(N, b=1, h=1, dtype=torch.bfloat16))
    single = sparse_attention(q.float(), k.float(), v.float(), pattern)
    assert torch.equal(sparse_attention(q, k, v, pattern), single.bfloat16())
    expected = attention(q.double(), k.double(), v.double(), pattern.mask(N))
    assert_same(single.double(), expected, rtol=1e-4, atol=1e-4)


@EVERY
def test_large_scores_of_a_batch_do_not_overflow(pattern):
    q, k, v = (x.detach() * 300 for x in inputs(N, b=1, h=1))
    assert_same(sparse_attention(q, k, v, pattern), attention(q, k, v, pattern.mask(N)))


@EVERY
def test_one_head_among_many_comes_out_as_if_it_were_alone(pattern):
    q, k, v = inputs(N, b=1, h=5)
    out = sparse_attention(q, k, v, pattern)  # some batches are of heads, some of groups
    assert_equals_dense(out, q, k, v, pattern.mask(N))
