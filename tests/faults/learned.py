"""Faults to plant in what learns its connections: Sinkhorn attention, its sort, and SAC."""

from tests.faults.fault import Fault

SINKHORN = "content/sinkhorn.py"
SINKHORN_TESTS = "content/test_sinkhorn.py::test_"
LOOPS = SINKHORN_TESTS + "it_equals_the_loops_in_outputs_and_gradients"
BY_SUMS = SINKHORN_TESTS + "normalising_with_logarithms_equals_dividing_by_sums"
PAIRS = "content/block_pairs.py"
SORTING = "content/sorting.py"
SORTING_TESTS = "content/test_sorting.py::test_"
MATCHED = "patterns/matched.py"

FAULTS = [
    Fault(
        "only rows are normalised",
        SINKHORN,
        "            log_s = log_s - log_s.logsumexp(dim=-2, keepdim=True)\n",
        "",
        SINKHORN_TESTS + "rows_sum_to_one_exactly_and_columns_better_with_every_iteration",
    ),
    Fault(
        "columns are normalised last",
        SINKHORN,
        """            log_s = log_s - log_s.logsumexp(dim=-2, keepdim=True)
            log_s = log_s - log_s.logsumexp(dim=-1, keepdim=True)
""",
        """            log_s = log_s - log_s.logsumexp(dim=-1, keepdim=True)
            log_s = log_s - log_s.logsumexp(dim=-2, keepdim=True)
""",
        BY_SUMS,
    ),
    Fault(
        "the temperature multiplies",
        SINKHORN,
        "scores.to(wide) / temperature",
        "scores.to(wide) * temperature",
        BY_SUMS,
    ),
    Fault(
        "a causal sort sums its columns over later rows",
        SINKHORN,
        "columns = log_s.logcumsumexp(-2) if causal else",
        "columns = log_s.logsumexp(-2, keepdim=True) if causal else",
        SINKHORN_TESTS + "causal_rows_are_mixed_of_earlier_blocks_and_know_no_later_row",
    ),
    Fault(
        "a causal sort takes the own block",
        SINKHORN,
        "torch.ones_like(never).triu()",
        "torch.ones_like(never).triu(1)",
        SINKHORN_TESTS + "causal_rows_are_mixed_of_earlier_blocks_and_know_no_later_row",
    ),
    Fault(
        "forbidden blocks come back with each division of rows",
        SINKHORN,
        "(log_s - log_s.logsumexp(-1, keepdim=True)).masked_fill(never, FORBIDDEN)",
        "log_s - log_s.logsumexp(-1, keepdim=True)",
        BY_SUMS,
    ),
    Fault(
        "forbidden blocks are at minus infinity",
        SINKHORN,
        "FORBIDDEN = -1e30",
        "FORBIDDEN = -math.inf",
        SINKHORN_TESTS + "nothing_is_nan_at_a_tiny_temperature_in_single_precision",
    ),
    Fault(
        "blocks of padding take part in the sort",
        SINKHORN,
        "        never = never | ~(real[..., None] & real[..., None, :])\n",
        "        pass\n",
        SINKHORN_TESTS + "masked_blocks_leave_the_others_as_if_they_were_alone",
    ),
    Fault(
        "the noise has the wrong sign",
        SINKHORN,
        "noise = -torch.log(",
        "noise = torch.log(",
        SINKHORN_TESTS + "the_noise_is_gumbels_and_drawn_from_its_generator_alone",
    ),
    Fault(
        "hard choices have no gradient",
        SINKHORN,
        "return chosen + (sort - sort.detach())",
        "return chosen",
        SINKHORN_TESTS + "hardening_rounds_forward_and_not_backward",
    ),
    Fault(
        "a row that may choose nothing chooses the first block",
        SINKHORN,
        "    chosen = chosen.where(sort.sum(dim=-1, keepdim=True) > 0, 0.0)\n",
        "",
        SINKHORN_TESTS + "hardening_rounds_forward_and_not_backward",
    ),
    Fault(
        "the pattern of a causal sort is not causal",
        SINKHORN,
        "return pattern & Causal() if causal else pattern",
        "return pattern",
        SINKHORN_TESTS + "hard_attention_is_dense_attention_under_a_pattern",
    ),
    Fault(
        "values are taken from the keys",
        SINKHORN,
        "keys, values = (torch.cat([_mixed(sort.to(wide), x) / divisor, x], dim=3) for x in (k, v))",
        "keys, values = (\n"
        "        torch.cat([_mixed(sort.to(wide), x[..., : v.shape[-1]]) / divisor, y], dim=3)\n"
        "        for x, y in ((k, k), (torch.cat([k, k], dim=-1), v))\n"
        "    )",
        LOOPS,
    ),
    Fault(
        "padding is mixed into sorted keys",
        SINKHORN,
        "share = _mixed(sort.to(wide), real.to(wide).expand(*k.shape[:-1], 1))",
        "share = _mixed(sort.to(wide), torch.ones_like(k[..., :1]))",
        LOOPS,
    ),
    Fault(
        "half a key counts like a whole one",
        SINKHORN,
        "divisor.log().masked_fill(~known, -math.inf)",
        "divisor.log().mul(0).masked_fill(~known, -math.inf)",
        LOOPS,
    ),
    Fault(
        "padded attention is never causal",
        SINKHORN,
        "mask = mask.tril(block_size) if causal else mask",
        "mask = mask",
        LOOPS,
    ),
    Fault(
        "sortcut keeps the last blocks",
        SINKHORN,
        "(hardened(sort) if hard else sort)[:, :, :n_kept]",
        "(hardened(sort) if hard else sort)[:, :, -n_kept:]",
        SINKHORN_TESTS + "sortcut_reads_the_first_sorted_blocks",
    ),
    Fault(
        "the transposed sort is mixed",
        PAIRS,
        "mixed = (sort[rows] @ x.flatten(1))",
        "mixed = (sort.T[rows] @ x.flatten(1))",
        LOOPS,
    ),
    Fault(
        "own and sorted block change places backward",
        PAIRS,
        "    d_x[rows] += d_pair[:, block_size:]\n",
        "    d_x[rows] += d_pair[:, :block_size]\n",
        LOOPS,
    ),
    Fault(
        "the sort gets no gradient from values",
        PAIRS,
        "_back(d_values, v[head], sort[head], d_v[head], d_sort[head], rows)",
        "_back(d_values, v[head], sort[head], d_v[head], d_sort[head].clone(), rows)",
        LOOPS,
    ),
    Fault(
        "equal blocks look ahead in their own block",
        PAIRS,
        "dtype=torch.bool, device=q.device).triu(1)",
        "dtype=torch.bool, device=q.device).triu(2)",
        SINKHORN_TESTS + "a_token_behind_the_query_is_never_seen",
    ),
    Fault(
        "the first block reads a mixture of nothing",
        PAIRS,
        "if rows.start == 0:",
        "if False:",
        LOOPS,
    ),
    Fault(
        "every stretch of blocks takes itself for the first",
        PAIRS,
        "if rows.start == 0:",
        "if True:",
        SINKHORN_TESTS + "blocks_are_computed_as_many_at_a_time_as_the_cache_holds",
    ),
    Fault(
        "equal blocks forget that weights sum to one",
        PAIRS,
        "                    d_scores -= (d_rows * out[head, rows]).sum(dim=-1, keepdim=True)\n",
        "",
        LOOPS,
    ),
    Fault(
        "a second derivative of blocks is silently left out",
        PAIRS,
        "        if torch.is_grad_enabled():  # create_graph=True\n",
        "        if False:\n",
        SINKHORN_TESTS + "second_derivatives_are_refused_and_not_silently_left_out",
    ),
    Fault(
        "a causal summary knows its whole block",
        SORTING,
        "return x.cumsum(dim=2)[:, :, ::block_size]",
        "return x.cumsum(dim=2)[:, :, block_size - 1 :: block_size]",
        SORTING_TESTS + "no_output_depends_on_a_later_token_not_even_through_the_sort",
    ),
    Fault(
        "summaries are means",
        SORTING,
        ".unflatten(2, (-1, block_size)).sum(dim=3)",
        ".unflatten(2, (-1, block_size)).mean(dim=3)",
        SORTING_TESTS + "a_summary_adds_the_tokens_that_it_may_know",
    ),
    Fault(
        "padding is summed",
        SORTING,
        "        x = x.where(key_padding[:, None, :, None], 0.0)\n",
        "        pass\n",
        SORTING_TESTS + "a_summary_adds_the_tokens_that_it_may_know",
    ),
    Fault(
        "the sorting network is linear",
        SORTING,
        "(summaries @ self.expand + self.expand_bias).relu()",
        "(summaries @ self.expand + self.expand_bias)",
        SORTING_TESTS + "each_head_has_two_layers_of_its_own",
    ),
    Fault(
        "there is noise when the model is used",
        SORTING,
        "if not (self.training and self.noise):",
        "if not self.noise:",
        SORTING_TESTS + "noise_is_for_training_and_moves_with_updates_only",
    ),
    Fault(
        "the noise never changes",
        SORTING,
        "        self.n_updates += 1\n",
        "        pass\n",
        SORTING_TESTS + "noise_is_for_training_and_moves_with_updates_only",
    ),
    Fault(
        "a router that fills up its last block believes it",
        SORTING,
        "F.pad(real, (0, missing), value=False)",
        "F.pad(real, (0, missing), value=True)",
        SORTING_TESTS + "the_weights_are_what_values_are_multiplied_by",
    ),
    Fault(
        "a block does not read itself",
        MATCHED,
        "return (read == own) | (read == order[own])",
        "return read == order[own]",
        "patterns/test_composition.py::test_every_pattern_matches_its_definition",
    ),
    Fault(
        "partners are looked for where they are not",
        MATCHED,
        "for block in (own, self.order[own])",
        "for block in (own,)",
        "test_engine.py::test_every_pattern_equals_dense_attention",
    ),
]
