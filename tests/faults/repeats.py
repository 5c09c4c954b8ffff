"""Faults to plant where groups that are alike are computed as one batch."""

from tests.faults.fault import Fault

REPEATS = "test_repeats.py::"
APART = REPEATS + "test_groups_with_other_masks_or_at_other_distances_stay_apart"
DENSE = REPEATS + "test_batches_of_groups_equal_dense_attention"

FAULTS = [
    Fault(
        "a batch is formed whatever its masks are",
        "repeats.py",
        "same = last.masks is group.masks and last",
        "same = last",
        APART,
    ),
    Fault(
        "a batch goes on where the distance changes",
        "repeats.py",
        "if min(apart) < 0 or (self.apart and apart != self.apart):",
        "if min(apart) < 0:",
        APART,
    ),
    Fault(
        "a part of a batch starts at its beginning",
        "repeats.py",
        "first, times = self.groups[start], len",
        "first, times = self.groups[0], len",
        REPEATS + "test_a_part_of_a_batch_stands_where_its_groups_do",
    ),
    Fault(
        "every slice of the keys takes the gradient of the first",
        "repeats.py",
        "add_(product[:, some], alpha=alpha)",
        "add_(product[:, : len(range(len(self.run))[some])], alpha=alpha)",
        REPEATS + "test_repeated_runs_take_and_add_to_the_rows_they_name",
    ),
    Fault(
        "classes of a stride are thought to share keys",
        "repeats.py",
        "(times - 1) * apart >= run.step",
        "True",
        REPEATS + "test_copies_that_share_rows_are_added_in_slices_that_share_none",
    ),
    Fault(
        "the keys of windows with gaps are thought to be dense",
        "repeats.py",
        "self.disjoint = 0 if apart % run.step else apart // run.step",
        "self.disjoint = apart",
        REPEATS + "test_copies_that_share_rows_are_added_in_slices_that_share_none",
    ),
    Fault(
        "a view forgets where its tensor starts",
        "repeats.py",
        "x.storage_offset() + run.start * along",
        "run.start * along",
        REPEATS + "test_one_head_among_many_comes_out_as_if_it_were_alone",
    ),
    Fault(
        "global keys take the gradient of one group",
        "repeats.py",
        "            rows = left.transpose(0, 1).flatten(1)  # (length, times * m)\n            self.of(x)[0].addmm_(rows, whole.flatten(0, 1), alpha=alpha)",
        "            self.of(x)[0].addmm_(left[0], whole[0], alpha=alpha)",
        REPEATS + "test_repeated_runs_take_and_add_to_the_rows_they_name",
    ),
    Fault(
        "the second run of keys takes the gradient of the first",
        "repeats.py",
        "            start = stop\n",
        "            start = 0\n",
        DENSE,
    ),
    Fault(
        "rows that no group writes are left as they were in memory",
        "groups.py",
        "return not self.split_rows and sum(group.queries.n for group in self.groups) == self.n",
        "return True",
        "test_engine.py::test_a_query_that_may_read_nothing_gives_zeros_and_takes_no_gradient",
    ),
    Fault(
        "scores of the next piece overwrite those in use",
        "engine.py",
        "scratch, more_scratch = _Scratch(q), _Scratch(q)",
        "scratch = more_scratch = _Scratch(q)",
        "test_engine.py::test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "partial results are powers of e in the backward pass",
        "engine.py",
        "of_scores = ctx.scale if lse is None else ctx.scale * LOG2_E",
        "of_scores = ctx.scale",
        "test_engine.py::test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "queries are cut although all of them read the same keys",
        "groups.py",
        "size = min(max(size, room), MOST_TOGETHER * size)",
        "pass",
        "test_groups.py::test_queries_stay_together_as_long_as_that_adds_no_keys",
    ),
]
