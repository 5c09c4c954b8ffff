"""Faults to plant in schedules."""

from tests.faults.fault import Fault

SCHEDULE = "test_groups.py::"
ENGINE_TESTS = "test_engine.py::"

FAULTS = [
    Fault(
        "fewer queries start at the first key",
        "groups.py",
        "first = n_k - n\n",
        "first = 0\n",
        SCHEDULE + "test_every_allowed_pair_of_a_public_pattern_is_in_one_group",
    ),
    Fault(
        "a pair that two groupings have is counted twice",
        "groups.py",
        "ok = ok & ~done.allowed(i, j)",
        "pass",
        SCHEDULE + "test_every_allowed_pair_of_a_public_pattern_is_in_one_group",
    ),
    Fault(
        "borders are ignored",
        "groups.py",
        "for b in part.borders(n_k) if first < b < n_k",
        "for b in () if first < b < n_k",
        SCHEDULE + "test_whole_blocks_compute_no_pair_that_is_not_allowed",
    ),
    Fault(
        "masks are shared by groups of different lengths",
        "groups.py",
        "looks.append((len(run), run.step))",
        "looks.append(run.step)",
        SCHEDULE + "test_a_rule_of_ones_own_is_lowered_like_any_other",
    ),
    Fault(
        "masks are shared by keys of different lengths",
        "groups.py",
        "looks.append((footprint, len(keys), keys.step))",
        "looks.append((footprint, keys.step))",
        SCHEDULE + "test_the_size_of_a_group_does_not_change_the_meaning",
    ),
    Fault(
        "masks are shared whatever an earlier grouping has",
        "groups.py",
        "for rule in (part,) if done is None else (part, done):",
        "for rule in (part,):",
        SCHEDULE + "test_a_mask_is_shared_only_where_an_earlier_grouping_looks_the_same",
    ),
    Fault(
        "a rule that promises nothing is taken at its word",
        "groups.py",
        "                if footprint is None:\n                    return None\n",
        "",
        SCHEDULE + "test_the_size_of_a_group_does_not_change_the_meaning",
    ),
    Fault(
        "no mask is ever recognised",
        "groups.py",
        "                known[look] = lowered\n",
        "                pass\n",
        SCHEDULE + "test_masks_that_come_again_are_kept_once",
    ),
    Fault(
        "runs are sliced from the start of the sequence",
        "places.py",
        "[slice(run.start, run.stop, run.step) for run in runs]",
        "[slice(run.start, run.stop) for run in runs]",
        SCHEDULE + "test_places_take_and_add_to_the_rows_they_name",
    ),
    Fault(
        "the mask forbids with a large number",
        "groups.py",
        "masked_fill(~part, -math.inf)",
        "masked_fill(~part, -1e4)",
        SCHEDULE + "test_every_allowed_pair_of_a_public_pattern_is_in_one_group",
    ),
    Fault(
        "the mask of a group means the opposite",
        "groups.py",
        "masked_fill(~part, -math.inf)",
        "masked_fill(part, -math.inf)",
        SCHEDULE + "test_every_allowed_pair_of_a_public_pattern_is_in_one_group",
    ),
    Fault(
        "no row is taken for empty",
        "groups.py",
        "self.has_empty_rows = not bool(ok.any(dim=1).all())",
        "self.has_empty_rows = False",
        ENGINE_TESTS + "test_a_query_that_may_read_nothing_gives_zeros_and_takes_no_gradient",
    ),
    Fault(
        "all groupings claim their rows for themselves",
        "groups.py",
        "split_rows=len(alike) > 1",
        "split_rows=False",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "the cache of schedules grows for ever",
        "groups.py",
        "@lru_cache(maxsize=64)",
        "@lru_cache(maxsize=None)",
        SCHEDULE + "test_the_cache_does_not_grow_for_ever",
    ),
    Fault(
        "keys that nobody reads are gathered",
        "groups.py",
        "lowered = _Lowered(ok[:, used], [])\n            keys = Places([], index[used])",
        "lowered = _Lowered(ok, [])\n            keys = Places([], index)",
        SCHEDULE + "test_keys_in_a_few_runs_are_slices_and_keys_in_many_are_an_index",
    ),
    Fault(
        "a rule is asked about all columns at once",
        "groups.py",
        "max(1, ASKED_AT_ONCE // len(i))",
        "len(keys)",
        SCHEDULE + "test_a_rule_is_never_asked_about_more_than_some_pairs_at_once",
    ),
]
