"""Schedules: every allowed pair once, no forbidden pair unmasked, and no n² on the way."""

import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError, dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tinyattn import groups
from tinyattn.edge_list import EDGES_PAY
from tinyattn.groups import lowering, schedule
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Dilated,
    Full,
    Global,
    Painted,
    Pattern,
    Random,
    Strided,
    Window,
    bigbird,
    sparse_strided,
)
from tinyattn.patterns.grid import ImageBlocks
from tinyattn.places import Places

from .close import assert_same
from .patterns import by_hand

PUBLIC = by_hand.public(131)
EVERY = pytest.mark.parametrize("rule", PUBLIC.values(), ids=PUBLIC)


def indices(places, n):
    """The positions a Places stands for, one by one."""
    return places.take(torch.arange(n)[None, :, None])[0, :, 0].tolist()


def assert_holds_each_pair_once(lowered, mask):
    """A pair is open in one group where it is allowed, and in none where it is not."""
    n, n_k = mask.shape
    assert (lowered.n, lowered.n_k) == (n, n_k)
    times, rows = torch.zeros(n, n_k, dtype=torch.long), Counter()
    for group in lowered.groups:
        queries, keys = indices(group.queries, n), indices(group.keys, n_k)
        assert (len(queries), len(keys)) == (group.queries.n, group.keys.n)
        assert len(set(keys)) == len(keys) > 0
        assert len(queries) > 0
        opened = torch.ones(len(queries), len(keys), dtype=torch.bool)
        for columns, added in group.masks:
            assert ((added == 0) | (added == -torch.inf)).all()
            assert (added[:, [0, -1]] < 0).any(dim=0).all()  # ends where something is forbidden
            opened[:, columns] = added == 0
        assert group.has_empty_rows == (not opened.any(dim=1).all())
        assert group.n_allowed == int(opened.sum())
        times[torch.tensor(queries)[:, None], torch.tensor(keys)] += opened.long()
        rows.update(queries)
    assert torch.equal(times, mask.long())
    if not lowered.split_rows:
        assert max(rows.values(), default=1) == 1


# ------------------------------------------------------------------------------- the meaning


@EVERY
@pytest.mark.parametrize(
    ("n", "n_k"), [(0, 0), (1, 1), (5, 5), (131, 131), (70, 131), (1, 131), (0, 131)]
)
def test_every_allowed_pair_of_a_public_pattern_is_in_one_group(rule, n, n_k):
    assert_holds_each_pair_once(schedule(rule.pattern, n, n_k), rule.mask(n, n_k))


@EVERY
@pytest.mark.parametrize("block_size", [1, 2, 7, 1000])
def test_the_size_of_a_group_does_not_change_the_meaning(rule, block_size):
    lowered = schedule(rule.pattern, 40, 43, block_size=block_size)
    assert_holds_each_pair_once(lowered, rule.mask(40, 43))
    ordered = rule.pattern.order is not None
    most = block_size * (groups.COPIES_PAY if ordered else groups.MOST_TOGETHER)
    assert all(group.queries.n <= most for group in lowered.groups)


@settings(max_examples=120)
@given(
    case=by_hand.cases(48),
    block_size=st.sampled_from([1, 2, 3, 5, 8, 16, 64]),
    runs=st.sampled_from([1, 3, 16]),
)
def test_every_allowed_pair_of_an_expression_is_in_one_group(case, block_size, runs):
    rule, n, n_k = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "MAX_RUNS", runs)  # slices or an index, both have to be right
        lowered = lowering.__wrapped__(rule.pattern, n, n_k, block_size=block_size)
    assert_holds_each_pair_once(lowered, rule.mask(n, n_k))


def test_keys_in_a_few_runs_are_slices_and_keys_in_many_are_an_index():
    few = schedule(Window(3) | Global(1), 200)
    many = schedule(Random(2000, 2, seed=0) & Causal(), 2000)
    assert all(group.keys.index is None and len(group.keys.runs) <= 2 for group in few.groups)
    indexed = [group for group in many.groups if group.keys.index is not None]
    assert len(indexed) > len(many.groups) / 2
    for group in indexed:  # only keys that some query reads
        assert group.keys.n <= 2 * group.queries.n
        ((columns, mask),) = group.masks
        assert mask.shape[1] == len(range(*columns.indices(group.keys.n)))
        assert (mask == 0).any(dim=0).all()


@dataclass(frozen=True)
class EvenKeys(Pattern):
    """A rule of somebody else: it looks everywhere, and its masks depend on the keys alone."""

    def allowed(self, i, j):
        return (j % 2 == 0).expand(torch.broadcast_shapes(i.shape, j.shape))

    def footprint(self, queries, keys):
        return keys[0] % 2


@pytest.mark.parametrize("n", [1, 64, 131, 1100])  # more than 512 queries are cut
def test_a_rule_of_ones_own_is_lowered_like_any_other(n):
    for rule in (
        EvenKeys(),
        EvenKeys() | Window(1),
        EvenKeys() & Causal(),
        Strided(3) | EvenKeys(),
    ):
        assert_holds_each_pair_once(schedule(rule, n), rule.mask(n))


def test_runs_that_nobody_reads_are_left_out():
    # the reach of a painted rule is everything, that of the window is what is left of it
    nothing = Painted(torch.zeros(100, 100, dtype=torch.bool))
    assert schedule(nothing, 100).groups == ()
    assert schedule(nothing & Window(2), 100).groups == ()
    far = Global((0, 90)) & Window(3) & Causal()
    for group in schedule(far, 100, block_size=10).groups:
        for run in group.keys.runs:
            assert run.start in range(4) or run.start in range(80, 100)


# --------------------------------------------------------------------------------- the cost


def test_whole_blocks_compute_no_pair_that_is_not_allowed():
    exact = [
        Full(), Global(16), Global((3, 4, 5, 700)), Global(16, reads=False), BlockLocal(48),
        BlockLocal(200, before=1), BlockLocal(8) , Strided(4), Strided(100),
        Random(1000, 3, seed=0, block_size=64), BlockLocal(64, 1, 1) | Global(64),
    ]  # fmt: skip
    for rule in exact:
        lowered = schedule(rule, 1000)
        if isinstance(rule, BlockLocal) and rule.block_size < 64:
            assert lowered.n_pairs <= 1000 * max(64, rule.block_size)
            continue
        assert lowered.n_pairs == rule.edges(1000), rule
        assert all(group.masks == () for group in lowered.groups)


def test_queries_stay_together_as_long_as_that_adds_no_keys():
    for rule, sizes in [
        (BlockLocal(100), {100}),
        (BlockLocal(128, before=1), {128, 104}),
        (BlockLocal(200), {200}),
        (BlockLocal(800), {512, 800 - 512, 200}),
        (Strided(10), {100}),
        (Window(3), {64, 40}),
        (BlockLocal(100) & Causal(), {64, 36}),
    ]:
        assert {group.queries.n for group in schedule(rule, 1000).groups} == sizes, rule


@pytest.mark.parametrize("n", [1024, 4096])
def test_a_window_computes_two_triangles_of_a_block_too_much(n):
    w, size = 100, 64
    inner = size * (2 * w + size)
    assert schedule(Window(w), n).groups[n // size // 2].n_pairs == inner
    assert schedule(Window(w), n).n_pairs == n // size * inner - 2 * _cut_off(w, size)


def _cut_off(w, size):
    """Pairs that the blocks near one end would have beyond it."""
    return size * sum(w - size * block for block in range(n_blocks_beyond(w, size)))


def n_blocks_beyond(w, size):
    return -(-w // size)


def test_rows_of_a_tile_that_read_different_keys_all_get_theirs():
    rule = ImageBlocks(7, 3, (2, 1), (3, 5), causal=False) & Dilated(3, dilation=1)
    tiles = rule.order.groups(21)
    assert any(len({tuple(rule.reach(run, 21)) for run in tile}) > 1 for tile in tiles)
    assert_holds_each_pair_once(schedule(rule, 21), rule.mask(21))


def test_the_price_is_of_pairs_or_of_edges_in_their_stead():
    window = schedule(Window(4), 200)
    assert window.edges is None
    assert window.price == window.n_pairs
    rule = Random(600, 2, seed=0)
    random = schedule(rule, 600)
    assert random.price == EDGES_PAY * random.edges.keys.numel()
    assert random.edges.keys.numel() >= rule.edges(600)


def test_queries_of_a_stride_are_computed_with_the_keys_of_that_stride():
    lowered = schedule(Dilated(16, 8), 4096)
    for group in lowered.groups:
        (queries,), (keys,) = group.queries.runs, group.keys.runs
        assert queries.step == keys.step == 8
        assert queries.start % 8 == keys.start % 8
    assert lowered.n_pairs < 3 * Dilated(16, 8).edges(4096)


def test_a_stride_of_two_is_a_stride_too():
    for group in schedule(Dilated(16, 2), 4096).groups:
        assert {run.step for run in (*group.queries.runs, *group.keys.runs)} == {2}


def test_a_mask_is_shared_only_where_an_earlier_grouping_looks_the_same():
    # The four residue classes look alike to the stride; global tokens stand in three of them.
    rule = Global(3) | Strided(4)
    assert_holds_each_pair_once(schedule(rule, 16), rule.mask(16))


def test_strided_attention_is_a_window_and_a_stride_without_what_the_window_has():
    lowered = schedule(sparse_strided(32), 1024)
    assert lowered.split_rows
    steps = Counter(group.queries.runs[0].step for group in lowered.groups)
    assert set(steps) == {None, 1, 32} - {None}
    assert lowered.n_pairs < 0.2 * 1024**2


LINEAR = {
    "window and global": lambda n: Window(256) | Global(16),
    "dilated": lambda n: Window(64) | Dilated(64, 4),
    "blocks": lambda n: BlockLocal(512, before=1),
    "random blocks": lambda n: Random(n, 3, seed=0, block_size=64),
    "bigbird": lambda n: bigbird(n, 64, 3, seed=0),
}


@pytest.mark.parametrize("rule", LINEAR.values(), ids=LINEAR)
def test_pairs_and_groups_grow_in_proportion_to_n(rule):
    n = 8192
    small, large = schedule(rule(n), n), schedule(rule(2 * n), 2 * n)
    assert len(large.groups) <= 2 * len(small.groups)
    assert large.n_pairs <= 2.05 * small.n_pairs
    assert large.n_pairs <= 2 * rule(2 * n).edges(2 * n)


class Largest(TorchDispatchMode):
    """The largest tensor that any operator inside returns."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.numel())
        return out


@pytest.mark.parametrize("rule", LINEAR.values(), ids=LINEAR)
def test_lowering_builds_no_tensor_that_grows_faster_than_n(rule):
    n = 16_384
    with Largest() as largest:
        lowering.__wrapped__(rule(n), n, n)
    assert largest.size <= n**2 / 64


def test_a_long_schedule_takes_well_under_a_gigabyte():
    code = """
import resource
from tinyattn.groups import lowering, schedule
from tinyattn.patterns import Global, Window, bigbird
n = 1_048_576
print(schedule(Window(256) | Global(16), n).n_pairs, Window(256).edges(n))
n = 65_536
print(schedule(bigbird(n, 64, 3, seed=0), n).n_pairs, bigbird(n, 64, 3, seed=0).edges(n))
try:  # on Linux ru_maxrss is that of the parent, if it was larger when it started this process
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    pairs, edges, blocks, exact, kilobytes = map(int, done.stdout.split())
    assert edges < pairs < 1.25 * edges
    assert blocks == exact
    per_kilobyte = 1 if sys.platform != "darwin" else 1024
    assert kilobytes / per_kilobyte < 1_000_000


def test_a_mask_covers_the_ragged_edges_of_a_window_and_not_its_middle():
    inner = schedule(Window(256), 2048).groups[16]
    assert [(columns.start, columns.stop) for columns, _ in inner.masks] == [(0, 63), (513, 576)]
    narrow = schedule(Window(32), 2048).groups[16]
    assert [(columns.start, columns.stop) for columns, _ in narrow.masks] == [(0, 128)]


def test_masks_that_come_again_are_kept_once():
    seldom = {
        Window(100): 7, sparse_strided(64): 8, Dilated(64, 4): 7, Window(100) | Global(3): 8,
        Window(100) | Global((1, 4000, 8000)): 16, bigbird(8192, 64, 3, seed=0): 0,
        (Window(100) | BlockLocal(64, before=1)) & Causal(): 3,
    }  # fmt: skip
    for rule, most in seldom.items():
        masks = [group.masks for group in schedule(rule, 8192).groups]
        assert len({id(mask) for mask in masks if mask}) <= most, rule


def test_a_rule_is_not_asked_again_about_masks_that_come_again(monkeypatch):
    asked = []
    evaluate = groups._evaluate
    monkeypatch.setattr(
        groups, "_evaluate", lambda *args: asked.append(len(args[3])) or evaluate(*args)
    )
    lowering.__wrapped__(Window(100) | Global(3), 64 * 1000, 64 * 1000)
    assert sum(asked) < 20 * 300 + 64 * 1000  # about as many keys as one row of it has


def test_a_rule_is_never_asked_about_more_than_some_pairs_at_once():
    sizes = []

    class Watched(Global):
        def allowed(self, i, j):
            sizes.append(i.numel() * j.numel())
            return super().allowed(i, j)

    lowering.__wrapped__(Watched(64), 200_000, 200_000)
    assert max(sizes) <= groups.ASKED_AT_ONCE
    assert 8 * groups.ASKED_AT_ONCE <= 2**24  # bytes of one number for each pair


def test_nobody_changes_a_schedule_that_others_are_given_too():
    lowered = schedule(Window(1), 8)
    with pytest.raises(FrozenInstanceError):
        lowered.n = 9
    with pytest.raises(FrozenInstanceError):
        lowered.groups[0].masks = ()


# ------------------------------------------------------------------------------------ caching


def test_a_schedule_is_made_once_for_equal_rules_and_lengths():
    rule = Window(3) | Random(90, 2, seed=0)
    first = schedule(rule, 80, 90)
    assert schedule(Window(3) | Random(90, 2, seed=0), 80, 90) is first
    assert schedule(rule, 79, 90) is not first
    assert schedule(rule, 80, 89) is not first
    assert schedule(Window(4) | Random(90, 2, seed=0), 80, 90) is not first
    assert schedule(Window(3) | Random(90, 2, seed=1), 80, 90) is not first
    assert schedule(rule, 80, 90, block_size=8) is not first


def test_one_schedule_is_one_entry_however_it_is_asked_for():
    first = schedule(Window(3), 77)
    assert schedule(Window(3), 77, 77) is first
    assert schedule(pattern=Window(3), n=77, block_size=64) is first


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("n", [1.0, True, torch.tensor(1)])
def test_a_cached_schedule_is_not_given_for_a_length_that_only_equals_its_own(n):
    schedule(Window(1), 1)
    with pytest.raises(TypeError, match="n must be a whole number, got"):
        schedule(Window(1), n)


def test_the_cache_does_not_grow_for_ever():
    for n in range(100):
        schedule(Window(1), n)
    info = lowering.cache_info()
    assert info.currsize <= info.maxsize <= 64


def test_lowering_leaves_global_random_state_alone():
    before = torch.get_rng_state()
    lowering.__wrapped__(bigbird(512, 16, 2, seed=11), 512, 512)
    assert torch.equal(torch.get_rng_state(), before)


# ------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    "places",
    [
        Places([range(2, 6)]), Places([range(1, 9, 3)]), Places([range(2), range(5, 9)]),
        Places([], torch.tensor([7, 0, 3])),
        Places([range(2), range(3, 5), range(6, 8)]),  # the rows of a tile
        Places([range(0, 3, 2), range(3, 6, 2), range(6, 9, 2), range(9, 10)]),
    ],
)  # fmt: skip
def test_places_take_and_add_to_the_rows_they_name(places):
    x = torch.arange(40.0).view(2, 10, 2)
    rows = places.index.tolist() if places.index is not None else [
        at for run in places.runs for at in range(10)[run]
    ]  # fmt: skip
    assert places.n == len(rows)
    assert torch.equal(places.take(x), x[:, rows])
    out, expected = torch.ones(2, 10, 2), torch.ones(2, 10, 2)
    random = torch.Generator().manual_seed(0)
    left = torch.randn(2, len(rows), 3, generator=random)
    right = torch.randn(2, 3, 2, generator=random)
    places.add_product(out, left, [right], alpha=0.5)
    for at, row in enumerate(rows):
        expected[:, row] += 0.5 * (left[:, at : at + 1] @ right)[:, 0]
    assert_same(out, expected, rtol=1e-6, atol=1e-6)


def test_one_run_is_a_view_and_nothing_is_copied():
    x = torch.zeros(1, 10, 2)
    assert Places([range(2, 6)]).take(x).untyped_storage().data_ptr() == x.data_ptr()
    Places([range(2, 8, 3)]).put(x, torch.ones(1, 2, 2))
    assert x[0, :, 0].tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 0, 0]


def test_equal_runs_at_equal_distances_are_one_view():
    tile = [range(at, at + 4) for at in range(3, 60, 10)]
    assert len(Places(tile).strips) == 1
    assert len(Places([range(2), *tile, range(90, 95)]).strips) == 3
    assert len(Places([*tile[:3], range(34, 38), *tile[4:]]).strips) == 4
    assert len(Places(tile[:2]).strips) == 2  # not worth it
    x = torch.zeros(1, 80, 2)
    Places(tile).put(x, torch.ones(1, 24, 2))
    assert x[0, :, 0].nonzero()[:, 0].tolist() == [at for run in tile for at in run]


# ---------------------------------------------------------------------------------- refusals


REFUSED = {
    "fewer keys than queries": ((Window(1), 5, 3), {}, ValueError, r"0 <= n <= n_k .* got n=5, n_k=3, block_size=64"),
    "a negative length": ((Window(1), -1), {}, ValueError, "got n=-1, n_k=-1, block_size=64"),
    "empty groups": ((Window(1), 5), {"block_size": 0}, ValueError, "block_size=0"),
    "half a query": ((Window(1), 5.5), {}, TypeError, r"n must be a whole number, got 5\.5"),
    "half a key": ((Window(1), 5, 7.5), {}, TypeError, r"n_k must be a whole number, got 7\.5"),
    "broken groups": (
        (Window(1), 5), {"block_size": 2.5}, TypeError, r"block_size must be a whole number, got 2\.5",
    ),
    "a matrix": (
        (torch.eye(3), 3), {}, TypeError,
        r"a pattern must be a rule such as Causal\(\), got Tensor; Painted\(mask\) makes one",
    ),
    "nothing": ((None, 3), {}, TypeError, r"must be a rule such as Causal\(\), got NoneType"),
    "more than was drawn": ((Random(4, 1, 0), 2, 5), {}, ValueError, "drawn for n=4 tokens, got 5"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_scheduled_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        schedule(*args, **options)
