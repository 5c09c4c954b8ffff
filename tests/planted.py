"""Faults to plant in the package, each with the test that must find it.

A test suite is worth the faults it finds. Here are plausible ones, many of them made by somebody
in a published library. `python tests/planted.py [WORD ...]` plants them one at a time (those whose
file or description holds a word) in a copy of the package, runs the named test there, and prints a
table; tests/test_planted.py does the same and fails for a fault that survives, and for a line that
no longer stands in the package exactly once.

To add one: copy the line from the source, break it, name the test. A name without [parameters]
stands for all of that test's cases.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tinyattn"


@dataclass(frozen=True)
class Fault:
    what: str
    file: str  # below src/tinyattn
    old: str  # stands there once
    new: str
    test: str  # below tests


DENSE = [
    Fault(
        "scores are not scaled",
        "dense.py",
        "(q * scale) @",
        "q @",
        "test_dense.py::test_outputs_and_weights_equal_the_loops",
    ),
    Fault(
        "the scale divides by d_head instead of its root",
        "dense.py",
        "1.0 / math.sqrt(q.shape[-1])",
        "1.0 / q.shape[-1]",
        "test_dense.py::test_the_default_scale_is_one_over_the_root_of_d_head",
    ),
    Fault(
        "the scale comes after a product that float16 cannot hold",
        "dense.py",
        "(q * scale) @ k.transpose(-2, -1)",
        "q @ k.transpose(-2, -1) * scale",
        "test_dense.py::test_products_that_float16_cannot_hold_are_scaled_before_they_overflow",
    ),
    Fault(
        "the softmax runs over the queries",
        "dense.py",
        ".softmax(dim=-1, dtype=wide)",
        ".softmax(dim=-2, dtype=wide)",
        "test_dense.py::test_rows_sum_to_one_or_to_zero_where_nothing_may_be_read",
    ),
    Fault(
        "the mask means the opposite",
        "dense.py",
        "masked_fill(~mask, -math.inf)",
        "masked_fill(mask, -math.inf)",
        "test_dense.py::test_gradients_reach_exactly_the_allowed_keys_and_values",
    ),
    Fault(
        "forbidden scores become zero instead of -inf",
        "dense.py",
        "masked_fill(~mask, -math.inf)",
        "masked_fill(~mask, 0.0)",
        "test_dense.py::test_rows_sum_to_one_or_to_zero_where_nothing_may_be_read",
    ),
    Fault(
        "forbidden scores become the smallest float",
        "dense.py",
        "masked_fill(~mask, -math.inf)",
        "masked_fill(~mask, torch.finfo(scores.dtype).min)",
        "test_dense.py::test_a_query_that_may_read_nothing_is_zero_both_ways_and_poisons_nobody",
    ),
    Fault(
        "the mask comes after the softmax",
        "dense.py",
        "scores = scores.masked_fill(~mask, -math.inf)",
        "return scores.softmax(dim=-1).masked_fill(~mask, 0.0)",
        "test_dense.py::test_rows_sum_to_one_or_to_zero_where_nothing_may_be_read",
    ),
    Fault(
        "a row with nothing allowed is NaN",
        "dense.py",
        "scores.masked_fill(nothing, 0.0).softmax",
        "scores.softmax",
        "test_dense.py::test_a_query_that_may_read_nothing_is_zero_both_ways_and_poisons_nobody",
    ),
    Fault(
        "a row with nothing allowed is a uniform average",
        "dense.py",
        "weights.masked_fill(nothing, 0.0).to",
        "weights.to",
        "test_dense.py::test_rows_sum_to_one_or_to_zero_where_nothing_may_be_read",
    ),
    Fault(
        "one empty row empties its whole head",
        "dense.py",
        ".all(dim=-1, keepdim=True)",
        ".all(dim=-1, keepdim=True).any(dim=-2, keepdim=True)",
        "test_dense.py::test_outputs_and_weights_equal_the_loops",
    ),
    Fault(
        "the softmax stays in half precision",
        "dense.py",
        "wide = torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype",
        "wide = torch.float32",
        "test_dense.py::test_gradients_equal_the_chain_rule_on_paper",
    ),
    Fault(
        "the bias is scaled with the product",
        "dense.py",
        "scores = scores + bias.to(scores.dtype)",
        "scores = scores + bias.to(scores.dtype) * scale",
        "test_dense.py::test_scale_multiplies_the_products_and_bias_joins_after_it",
    ),
    Fault(
        "a bool bias is taken for numbers",
        "dense.py",
        "if bias.dtype == torch.bool:",
        "if False:",
        "test_dense.py::test_wrong_types_are_refused_with_a_sentence",
    ),
    Fault(
        "a mask of any dtype is taken",
        "dense.py",
        "if mask.dtype != torch.bool:",
        "if False:",
        "test_dense.py::test_wrong_types_are_refused_with_a_sentence",
    ),
]

PATTERNS = [
    Fault(
        "causal is aligned at the top left",
        "patterns/base.py",
        "torch.arange(n_k - n, n_k)",
        "torch.arange(n)",
        "patterns/test_positional.py::test_causal_matches_the_definition_at_the_bottom_right",
    ),
    Fault(
        "causal leaves out the query itself",
        "patterns/positional.py",
        "return j <= i",
        "return j < i",
        "patterns/test_positional.py::test_causal_equals_torchs_lower_right_bias",
    ),
    Fault(
        "causal looks ahead",
        "patterns/positional.py",
        "return j <= i",
        "return j >= i",
        "patterns/test_positional.py::test_causal_matches_the_definition_at_the_bottom_right",
    ),
    Fault(
        "causal edges leave out the diagonal",
        "patterns/positional.py",
        "n * (n + 1) // 2\n",
        "n * (n - 1) // 2\n",
        "patterns/test_base.py::test_edges_count_the_true_entries_each_once",
    ),
    Fault(
        "`and` is `or`",
        "patterns/base.py",
        "self.left.allowed(i, j) & self.right.allowed(i, j)",
        "self.left.allowed(i, j) | self.right.allowed(i, j)",
        "patterns/test_base.py::test_or_and_and_act_pair_by_pair",
    ),
    Fault(
        "masks share the storage of an expanded row",
        "patterns/base.py",
        ".expand(len(i), len(j)).contiguous()",
        ".expand(len(i), len(j))",
        "patterns/test_base.py::test_a_mask_is_bool_owns_its_numbers_and_asks_only_for_whole_positions",
    ),
]

ATTENTION = [
    Fault(
        "the scale uses d_model instead of d_head",
        "transformer/attention.py",
        "1.0 / math.sqrt(d_head) if scale",
        "1.0 / math.sqrt(d_model) if scale",
        "transformer/test_attention.py::test_it_is_the_sum_of_heads_times_their_blocks_of_the_output_map",
    ),
    Fault(
        "the reshape to heads mixes tokens",
        "transformer/attention.py",
        "return x.unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2)",
        "return x.reshape(x.shape[0], self.n_heads, x.shape[1], self.d_head)",
        "transformer/test_attention.py::test_a_token_that_reads_itself_alone_depends_on_itself_alone",
    ),
    Fault(
        "heads are flattened without being moved back",
        "transformer/attention.py",
        "heads.transpose(1, 2).flatten(2)",
        "heads.reshape(x.shape[0], x.shape[1], -1)",
        "transformer/test_attention.py::test_a_token_that_reads_itself_alone_depends_on_itself_alone",
    ),
    Fault(
        "the output map is missing",
        "transformer/attention.py",
        "self.out(heads.transpose(1, 2).flatten(2))",
        "heads.transpose(1, 2).flatten(2)",
        "transformer/test_attention.py::test_it_is_the_sum_of_heads_times_their_blocks_of_the_output_map",
    ),
    Fault(
        "values are made by the map of keys",
        "transformer/attention.py",
        "v = self.split_heads(self.value(x))",
        "v = self.split_heads(self.key(x))",
        "transformer/test_attention.py::test_self_attention_reads_x_itself",
    ),
    Fault(
        "padding means the opposite",
        "transformer/attention.py",
        "real = key_padding[:, None, None, :]",
        "real = ~key_padding[:, None, None, :]",
        "transformer/test_attention.py::test_padded_keys_get_no_gradient_and_change_no_output",
    ),
    Fault(
        "padding silences queries instead of keys",
        "transformer/attention.py",
        "real = key_padding[:, None, None, :]",
        "real = key_padding[:, None, :, None]",
        "transformer/test_attention.py::test_pattern_mask_and_padding_all_have_to_allow",
    ),
    Fault(
        "any one of pattern, mask and padding may allow",
        "transformer/attention.py",
        "readable & real",
        "readable | real",
        "transformer/test_attention.py::test_pattern_mask_and_padding_all_have_to_allow",
    ),
    Fault(
        "an indivisible width is rounded down",
        "transformer/attention.py",
        "if d_model % n_heads:",
        "if False:",
        "transformer/test_attention.py::test_a_layer_that_cannot_be_is_refused",
    ),
    Fault(
        "one context serves the whole batch",
        "transformer/attention.py",
        "if context.shape[0] != x.shape[0]:",
        "if False:",
        "transformer/test_attention.py::test_input_that_does_not_fit_is_refused",
    ),
    Fault(
        "the cache puts new keys in front",
        "transformer/attention.py",
        "torch.cat([self.k, k], dim=-2)",
        "torch.cat([k, self.k], dim=-2)",
        "transformer/test_attention.py::test_a_cache_grows_by_the_tokens_it_is_shown_and_keeps_their_order",
    ),
    Fault(
        "the cache forgets older values",
        "transformer/attention.py",
        "self.v = v if self.v is None else",
        "self.v = v if True else",
        "transformer/test_attention.py::test_a_cache_grows_by_the_tokens_it_is_shown_and_keeps_their_order",
    ),
    Fault(
        "a prefill with a cache drops the pattern",
        "transformer/attention.py",
        "readable = torch.stack(rules)",
        "readable = torch.stack(rules) | (len(j) > len(i))",
        "transformer/test_cache.py::test_every_way_to_cut_a_prompt_gives_the_logits_of_one_pass[Positions-True-False]",
    ),
    Fault(
        "rotary positions start again at every piece",
        "transformer/attention.py",
        "self._places(x.shape[1], x) + n_cached",
        "self._places(x.shape[1], x)",
        "transformer/test_cache.py::test_every_way_to_cut_a_prompt_gives_the_logits_of_one_pass[RoPE-True-False]",
    ),
    Fault(
        "the cached context is projected and appended again at every step",
        "transformer/attention.py",
        "if cache is not None and cache.k is not None and cache.v is not None:",
        "if False:",
        "transformer/test_attention.py::test_a_context_is_projected_once_and_then_read_from_the_cache",
    ),
    Fault(
        "cross-attention keeps the context of an earlier call",
        "transformer/attention.py",
        "if context.shape[:2] != (b, n_k):",
        "if False:",
        "transformer/test_attention.py::test_a_cached_context_is_not_exchanged_for_another",
    ),
    Fault(
        "keys are not rotated",
        "transformer/attention.py",
        "k = self.positions.rotate(self.split_heads(self.key(x)), i)",
        "k = self.split_heads(self.key(x))",
        "transformer/test_relative.py::test_rope_attention_equals_the_loops",
    ),
    Fault(
        "Shaw's value part is missing",
        "transformer/attention.py",
        "if extra is not None:",
        "if False:",
        "transformer/test_relative.py::test_shaw_equals_the_loop_over_pairs",
    ),
]

POSITIONS = [
    Fault(
        "sinusoids have a frequency for each dimension",
        "transformer/positions.py",
        "table[:, 1::2] = angles.cos()[:, : d_model // 2]",
        "table[:, 1::2] = (angles * base ** (-1 / d_model)).cos()[:, : d_model // 2]",
        "transformer/test_positions.py::test_products_depend_on_the_distance_alone",
    ),
    Fault(
        "all sines stand before all cosines",
        "transformer/positions.py",
        "    return table.to(torch",
        "    table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)\n    return table.to(torch",
        "transformer/test_positions.py::test_every_entry_equals_the_formula",
    ),
    Fault(
        "sinusoids ignore where a piece starts",
        "transformer/positions.py",
        "x.shape[2], start=start, dtype=x.dtype)",
        "x.shape[2], dtype=x.dtype)",
        "transformer/test_positions.py::test_sinusoids_are_added_in_the_precision_of_the_vectors",
    ),
    Fault(
        "sinusoids are rounded to float32 on the way",
        "transformer/positions.py",
        "angles = t[:, None] * frequencies",
        "angles = (t[:, None] * frequencies).float().double()",
        "transformer/test_positions.py::test_every_entry_equals_the_formula",
    ),
    Fault(
        "learned positions start at zero in every piece",
        "transformer/positions.py",
        "return x + self.table[start:stop]",
        "return x + self.table[: x.shape[1]]",
        "transformer/test_positions.py::test_learned_rows_are_added_from_the_start_on_and_only_they_get_gradients",
    ),
    Fault(
        "learned positions past the table wrap around",
        "transformer/positions.py",
        "        if stop > max_len:",
        "        if False:",
        "transformer/test_positions.py::test_positions_past_the_table_are_refused",
    ),
    Fault(
        "Shaw's distance has the other sign",
        "transformer/relative.py",
        "distance = j[None, :] - i[:, None]",
        "distance = i[:, None] - j[None, :]",
        "transformer/test_relative.py::test_shaw_equals_the_loop_over_pairs",
    ),
    Fault(
        "Shaw's distances are not clipped where the formula clips them",
        "transformer/relative.py",
        "distance.clamp(-self.max_distance, self.max_distance)",
        "distance.clamp(1 - self.max_distance, self.max_distance)",
        "transformer/test_relative.py::test_shaw_equals_the_loop_over_pairs",
    ),
    Fault(
        "Shaw's key part is not scaled",
        "transformer/relative.py",
        "q @ self.a_key.T * scale",
        "q @ self.a_key.T",
        "transformer/test_relative.py::test_shaw_equals_the_loop_over_pairs",
    ),
    Fault(
        "T5's halves for past and future are swapped",
        "transformer/relative.py",
        "torch.where(distance > 0, n_buckets, 0)",
        "torch.where(distance < 0, n_buckets, 0)",
        "transformer/test_relative.py::test_buckets_equal_their_borders_as_numbers",
    ),
    Fault(
        "T5's one-sided buckets count the future",
        "transformer/relative.py",
        "back = (-distance).clamp(min=0)",
        "back = distance.clamp(min=0)",
        "transformer/test_relative.py::test_buckets_equal_their_borders_as_numbers",
    ),
    Fault(
        "T5's exact buckets end one late",
        "transformer/relative.py",
        "torch.where(back < exact, back",
        "torch.where(back <= exact + 1, back",
        "transformer/test_relative.py::test_buckets_equal_their_borders_as_numbers",
    ),
    Fault(
        "T5's bias belongs to the key's view of the query",
        "transformer/relative.py",
        "self.bucket(j[None, :] - i[:, None])",
        "self.bucket(i[:, None] - j[None, :])",
        "transformer/test_relative.py::test_the_bias_of_a_pair_is_its_heads_number_for_its_bucket",
    ),
    Fault(
        "RoPE turns the wrong way",
        "transformer/relative.py",
        "[even * cos - odd * sin, even * sin + odd * cos]",
        "[even * cos + odd * sin, odd * cos - even * sin]",
        "transformer/test_relative.py::test_rope_turns_pairs_like_complex_numbers",
    ),
    Fault(
        "RoPE scales instead of turning",
        "transformer/relative.py",
        "even * sin + odd * cos",
        "even * sin - odd * cos",
        "transformer/test_relative.py::test_rope_keeps_norms_and_leaves_position_zero_alone",
    ),
    Fault(
        "RoPE stores turned pairs in halves",
        "transformer/relative.py",
        "torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)",
        "torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-2)",
        "transformer/test_relative.py::test_rope_turns_pairs_like_complex_numbers",
    ),
    Fault(
        "RoPE for narrower heads turns every pair alike",
        "transformer/relative.py",
        "        if x.shape[-1] != self.d_head:",
        "        if False:",
        "transformer/test_attention.py::test_a_scheme_for_other_heads_is_refused",
    ),
]

BLOCKS = [
    Fault(
        "the last chunk is dropped",
        "transformer/feedforward.py",
        "for chunk in x.split(size, dim=1)]",
        "for chunk in x.split(size, dim=1)[: x.shape[1] // size]]",
        "transformer/test_feedforward.py::test_chunks_change_neither_outputs_nor_gradients",
    ),
    Fault(
        "chunks come back in another order",
        "transformer/feedforward.py",
        "for chunk in x.split(size, dim=1)]",
        "for chunk in reversed(x.split(size, dim=1))]",
        "transformer/test_feedforward.py::test_chunks_change_neither_outputs_nor_gradients",
    ),
    Fault(
        "the number of chunks is taken for their size",
        "transformer/feedforward.py",
        "size = self.chunk_size or -(-x.shape[1] // self.n_chunks)",
        "size = self.chunk_size or self.n_chunks",
        "transformer/test_feedforward.py::test_no_inner_activation_is_longer_than_a_chunk",
    ),
    Fault(
        "the feed-forward layer is linear",
        "transformer/feedforward.py",
        "self.contract(self.activation(self.expand(x)))",
        "self.contract(self.expand(x))",
        "transformer/test_feedforward.py::test_it_expands_cuts_and_contracts_every_token",
    ),
    Fault(
        "pre- and post-norm are swapped",
        "transformer/blocks.py",
        "        if self.norm_first:",
        "        if not self.norm_first:",
        "transformer/test_blocks.py::test_the_norm_stands_where_the_order_puts_it",
    ),
    Fault(
        "post-norm forgets the residual",
        "transformer/blocks.py",
        "self.norm(x + self.dropout(sublayer(x)))",
        "self.norm(self.dropout(sublayer(x)))",
        "transformer/test_blocks.py::test_the_norm_stands_where_the_order_puts_it",
    ),
    Fault(
        "pre-norm adds to the normalised input",
        "transformer/blocks.py",
        "return x + self.dropout(sublayer(self.norm(x)))",
        "return self.norm(x) + self.dropout(sublayer(self.norm(x)))",
        "transformer/test_blocks.py::test_pre_norm_around_nothing_is_the_identity",
    ),
    Fault(
        "dropout falls on the residual path as well",
        "transformer/blocks.py",
        "return x + self.dropout(sublayer(self.norm(x)))",
        "return self.dropout(x + sublayer(self.norm(x)))",
        "transformer/test_blocks.py::test_dropout_falls_on_what_the_sublayer_says_and_on_nothing_else",
    ),
    Fault(
        "epsilon keeps torch's default",
        "transformer/blocks.py",
        "nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)",
        "nn.LayerNorm(config.d_model)",
        "transformer/test_blocks.py::test_epsilon_stands_inside_the_root",
    ),
    Fault(
        "both attentions of a layer share one cache",
        "transformer/blocks.py",
        "kept = None if cache is None else cache.memory",
        "kept = None if cache is None else cache.own",
        "transformer/test_blocks.py::test_layer_caches_hold_own_keys_and_those_of_the_memory_apart",
    ),
    Fault(
        "the padding of the memory is lost",
        "transformer/blocks.py",
        "key_padding=memory_padding, cache=kept",
        "cache=kept",
        "transformer/test_blocks.py::test_a_decoder_layer_reads_its_past_and_the_whole_memory",
    ),
    Fault(
        "an encoder layer ignores padding",
        "transformer/blocks.py",
        "self.attention(x, key_padding=key_padding)",
        "self.attention(x)",
        "transformer/test_models.py::test_padding_changes_nothing_for_real_tokens[Sinusoidal-True]",
    ),
]

MODELS = [
    Fault(
        "a pre-norm stack has no last norm",
        "transformer/models.py",
        "    if config.norm_first:\n",
        "    if False:\n",
        "transformer/test_models.py::test_an_encoder_equals_the_loops",
    ),
    Fault(
        "a post-norm stack is normalised twice",
        "transformer/models.py",
        "    if config.norm_first:\n",
        "    if True:\n",
        "oracles/test_torch.py::test_an_encoder_equals_torchs_stack_with_the_norm_that_belongs_to_it",
    ),
    Fault(
        "a decoder reads the future",
        "transformer/models.py",
        "return Causal()",
        "return None",
        "transformer/test_models.py::test_the_jacobian_of_a_decoder_is_lower_triangular",
    ),
    Fault(
        "a cached decoder starts again at position 0",
        "transformer/models.py",
        "start=0 if cache is None else len(cache)",
        "start=0",
        "transformer/test_cache.py::test_every_way_to_cut_a_prompt_gives_the_logits_of_one_pass[Sinusoidal-True-False]",
    ),
    Fault(
        "the source's padding is lost between encoder and decoder",
        "transformer/models.py",
        "self.decoder(target, memory, memory_padding=source_padding)",
        "self.decoder(target, memory)",
        "transformer/test_models.py::test_padded_source_changes_no_logit_and_gets_no_gradient",
    ),
    Fault(
        "tied weights are copied instead of shared",
        "transformer/models.py",
        "self.to_logits.weight = self.embedding.table.weight",
        "self.to_logits.weight.data = self.embedding.table.weight.data.clone()",
        "transformer/test_models.py::test_tied_maps_share_storage_and_untied_ones_do_not",
    ),
    Fault(
        "a causal T5 decoder spends half its buckets on the future",
        "transformer/models.py",
        "_positions(config, bidirectional=False)",
        "_positions(config, bidirectional=True)",
        "transformer/test_models.py::test_decoders_use_one_sided_buckets_and_encoders_two_sided_ones",
    ),
    Fault(
        "layers share tables that they should own",
        "transformer/models.py",
        "    if scheme.shared:\n",
        "    if True:\n",
        "transformer/test_models.py::test_a_shared_scheme_is_one_and_shaws_tables_are_one_a_layer",
    ),
    Fault(
        "embeddings are not scaled",
        "transformer/embedding.py",
        "self.table(tokens.long()) * math.sqrt(d_model)",
        "self.table(tokens.long())",
        "transformer/test_models.py::test_an_encoder_equals_the_loops",
    ),
    Fault(
        "embeddings start as large as torch makes them",
        "transformer/embedding.py",
        "nn.init.normal_(self.table.weight, std=config.d_model**-0.5)",
        "nn.init.normal_(self.table.weight)",
        "transformer/test_models.py::test_embeddings_start_at_the_size_that_scaling_wants",
    ),
    Fault(
        "a negative token counts from the end",
        "transformer/embedding.py",
        "not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size",
        "not int(tokens.max()) < vocab_size",
        "transformer/test_models.py::test_tokens_that_do_not_fit_are_refused",
    ),
    Fault(
        "an instance of a scheme is rebuilt without its settings",
        "transformer/config.py",
        "if not (isinstance(self.positions, type) and issubclass(self.positions, Positions)):",
        "if False:",
        "transformer/test_config.py::test_a_config_that_cannot_be_is_refused",
    ),
]

GENERATION = [
    Fault(
        "a stop token does not stop",
        "transformer/generate.py",
        "chosen = torch.where(stopped, stop_token, chosen)",
        "pass",
        "transformer/test_generate.py::test_after_a_stop_token_a_sequence_is_filled_up_with_it",
    ),
    Fault(
        "one stopped sequence stops all",
        "transformer/generate.py",
        "stopped = stopped | (chosen == stop_token)",
        "stopped = stopped | (chosen == stop_token).any()",
        "transformer/test_generate.py::test_after_a_stop_token_a_sequence_is_filled_up_with_it",
    ),
    Fault(
        "the first position's logits choose the token",
        "transformer/generate.py",
        "next_token(logits[:, -1], temperature",
        "next_token(logits[:, 0], temperature",
        "transformer/test_generate.py::test_with_and_without_cache_the_likeliest_tokens_follow",
    ),
    Fault(
        "with a cache the last token is shown twice",
        "transformer/generate.py",
        "tokens[:, len(cache) :]",
        "tokens[:, max(len(cache) - 1, 0) :]",
        "transformer/test_generate.py::test_with_and_without_cache_the_likeliest_tokens_follow",
    ),
    Fault(
        "sampling draws from the global random state",
        "transformer/generate.py",
        "torch.multinomial(probabilities, 1, generator=generator)",
        "torch.multinomial(probabilities, 1)",
        "transformer/test_generate.py::test_generation_leaves_the_random_state_alone",
    ),
    Fault(
        "sampling without a generator is allowed",
        "transformer/generate.py",
        "if temperature > 0 and generator is None:",
        "if False:",
        "transformer/test_generate.py::test_a_single_step_refuses_like_generation",
    ),
    Fault(
        "the temperature multiplies",
        "transformer/generate.py",
        "(logits / temperature).softmax",
        "(logits * temperature).softmax",
        "transformer/test_generate.py::test_tokens_are_drawn_from_the_softmax_at_the_temperature",
    ),
    Fault(
        "top_k keeps the least likely",
        "transformer/generate.py",
        "logits.topk(top_k, dim=-1)",
        "logits.topk(top_k, dim=-1, largest=False)",
        "transformer/test_generate.py::test_top_k_draws_among_the_likeliest_in_their_proportions",
    ),
    Fault(
        "top_k leaves the rest a score of zero",
        "transformer/generate.py",
        "torch.full_like(logits, -torch.inf)",
        "torch.zeros_like(logits)",
        "transformer/test_generate.py::test_top_k_draws_among_the_likeliest_in_their_proportions",
    ),
    Fault(
        "the model stays in evaluation mode",
        "transformer/generate.py",
        "part.training = training",
        "pass",
        "transformer/test_generate.py::test_dropout_sleeps_while_generating_and_modes_come_back",
    ),
    Fault(
        "frozen parts are put back into training",
        "transformer/generate.py",
        "part.training = training",
        "part.training = modes[0][1]",
        "transformer/test_generate.py::test_dropout_sleeps_while_generating_and_modes_come_back",
    ),
    Fault(
        "dropout stays on while generating",
        "transformer/generate.py",
        "    model.eval()\n",
        "    pass\n",
        "transformer/test_generate.py::test_generation_leaves_the_random_state_alone",
    ),
    Fault(
        "a memory is forgotten after the prompt",
        "transformer/generate.py",
        "model(unseen, memory, memory_padding=memory_padding, cache=cache)",
        "model(unseen, memory, cache=cache)",
        "transformer/test_generate.py::test_a_memory_and_its_padding_reach_every_step",
    ),
    Fault(
        "a translation keeps its start token",
        "transformer/models.py",
        "return out[:, 1:]",
        "return out",
        "transformer/test_generate.py::test_translate_starts_stops_and_leaves_the_start_out",
    ),
]

CHECKS = [
    Fault(
        "yes and no are taken for numbers",
        "checks.py",
        "whole = not isinstance(value, bool)",
        "whole = True",
        "transformer/test_attention.py::test_a_layer_that_cannot_be_is_refused",
    ),
    Fault(
        "2.5 is taken for a whole number",
        "checks.py",
        "            whole = False",
        "            whole = True",
        "patterns/test_base.py::test_a_length_that_is_no_whole_number_is_refused",
    ),
]

DATA = [
    Fault(
        "held-out days are trained on",
        "data.py",
        "return days[n_held:], days[:n_held]",
        "return days, days[:n_held]",
        "test_data.py::test_held_out_days_are_unseen_in_every_format",
    ),
    Fault(
        "the last block reaches past the end",
        "data.py",
        "min((block + 1) * block_size, n)",
        "(block + 1) * block_size",
        "test_data.py::test_blocks_cover_every_position_once",
    ),
    Fault(
        "a paragraph with other line breaks is another paragraph",
        "data.py",
        'first.setdefault(" ".join(paragraph.split()), paragraph)',
        "first.setdefault(paragraph, paragraph)",
        "test_data.py::test_a_paragraph_said_twice_is_kept_once_where_it_first_stood",
    ),
    Fault(
        "the 11th is the 11st",
        "data.py",
        "teen = number // 10 % 10 == 1",
        "teen = False",
        "test_data.py::test_ordinals_of_a_month",
    ),
]

NGRAM = [
    Fault(
        "an n-gram forgets how many characters followed",
        "ngram.py",
        "(count + kinds * p)",
        "(count + p)",
        "test_ngram.py::test_probabilities_follow_the_definition",
    ),
    Fault(
        "a history crosses from one piece to the next",
        "ngram.py",
        "found = reach >= m - 1",
        "found = reach >= 0",
        "test_ngram.py::test_no_history_crosses_from_one_piece_to_the_next",
    ),
    Fault(
        "bits count what is only read",
        "ngram.py",
        "self.probabilities(ids)[start:]",
        "self.probabilities(ids)",
        "test_ngram.py::test_bits_are_the_mean_surprise_of_the_scored_part",
    ),
    Fault(
        "fitting again adds to what was counted",
        "ngram.py",
        "        self._levels = []\n",
        "",
        "test_ngram.py::test_fitting_again_starts_afresh",
    ),
]

TRAINING = [
    Fault(
        "gradients add up from step to step",
        "training.py",
        "            optimizer.zero_grad()\n",
        "",
        "test_training.py::test_it_learns_what_least_squares_would",
    ),
    Fault(
        "batches are drawn from the global random state",
        "training.py",
        "    with seeded(seed), Progress",
        "    with Progress",
        "test_training.py::test_training_leaves_the_global_random_state_alone",
    ),
    Fault(
        "gradients of any length are followed",
        "training.py",
        "            nn.utils.clip_grad_norm_(parameters, max_norm)\n",
        "",
        "test_training.py::test_long_gradients_are_shortened",
    ),
    Fault(
        "biases and norms decay like matrices",
        "training.py",
        '{"params": vectors, "weight_decay": 0.0}',
        '{"params": vectors}',
        "test_training.py::test_only_matrices_decay",
    ),
    Fault(
        "a model that was evaluated is trained without dropout",
        "training.py",
        "        model.train()\n",
        "",
        "test_training.py::test_a_model_is_trained_in_training_mode",
    ),
    Fault(
        "the first step has no length",
        "training.py",
        "highest * (step + 1) / warmup",
        "highest * step / warmup",
        "test_training.py::test_the_rate_rises_falls_and_never_starts_at_zero",
    ),
    Fault(
        "the bar stays when the work is done",
        "training.py",
        "            self._screen.clear()\n",
        "            pass\n",
        "test_training.py::test_in_a_terminal_the_bar_moves_and_is_erased",
    ),
]

EXPERIMENTS = [
    Fault(
        "padding of a written date counts as real",
        "experiments/dates.py",
        "tokens != WRITTEN.encode(PAD)",
        "tokens != -1",
        "experiments/test_experiments.py::test_a_date_is_padded_behind_and_its_padding_marked",
    ),
    Fault(
        "the days of the test are days of the training",
        "experiments/dates.py",
        "_, unseen = split_days()",
        "unseen, _ = split_days()",
        "experiments/test_experiments.py::test_tested_days_are_never_trained_on",
    ),
    Fault(
        "some held-out characters are never predicted",
        "experiments/characters.py",
        "len(block) - CONTEXT, n + 1 - CONTEXT)",
        "len(block) - CONTEXT, n + 1)",
        "experiments/test_experiments.py::"
        "test_every_held_out_character_behind_the_context_is_predicted_once",
    ),
    Fault(
        "nats are called bits",
        "experiments/characters.py",
        "nats / count / math.log(2)",
        "nats / count",
        "experiments/test_experiments.py::"
        "test_a_model_that_knows_nothing_needs_log2_of_the_alphabet",
    ),
]

SHOW = [
    Fault(
        "keys are counted for each key instead of each query",
        "show/describe.py",
        "per_row = allowed.sum(axis=1)",
        "per_row = allowed.sum(axis=0)",
        "show/test_describe.py::test_counts_are_those_of_the_mask",
    ),
    Fault(
        "distances are named from the top left",
        "show/describe.py",
        "[:, None] - (n_keys - n_queries)",
        "[:, None]",
        "show/test_describe.py::test_the_named_distances_rebuild_the_mask",
    ),
    Fault(
        "the digest of a matrix is that of its transpose",
        "show/digests.py",
        "(profile * place).mean()",
        "profile.mean()",
        "show/test_digests.py::test_other_data_give_another_digest",
    ),
    Fault(
        "values of a trained model stand in the digest",
        "show/digests.py",
        "    if trained:\n        return shape\n",
        "",
        "show/test_digests.py::test_a_trained_figure_keeps_names_and_shapes_only",
    ),
    Fault(
        "a heat map is drawn with queries as columns",
        "show/draw.py",
        "axes.imshow(np.ma.masked_invalid(a), cmap",
        "axes.imshow(np.ma.masked_invalid(a).T, cmap",
        "show/test_draw.py::test_row_0_is_on_top_and_columns_are_keys",
    ),
    Fault(
        "allowed cells are pale",
        "show/draw.py",
        "ListedColormap([FORBIDDEN, ALLOWED])",
        "ListedColormap([ALLOWED, FORBIDDEN])",
        "show/test_draw.py::test_allowed_cells_are_dark_and_the_others_pale",
    ),
    Fault(
        "a picture comes without its alt text",
        "show/figures.py",
        '{"alt": alt, "height": height',
        '{"height": height',
        "show/test_figures.py::test_a_figure_comes_with_alt_text_digest_and_size",
    ),
    Fault(
        "a shown figure stays open",
        "show/figures.py",
        "        plt.close(fig)\n    display(shown)",
        "        pass\n    display(shown)",
        "show/test_figures.py::test_a_shown_figure_is_closed",
    ),
    Fault(
        "words of a widget become markup",
        "show/widgets.py",
        "html.escape(state)",
        "state",
        "show/test_widgets.py::test_words_cannot_become_markup",
    ),
    Fault(
        "a slider keeps showing what the cell computed",
        "show/widgets.py",
        'frame, _ = self._compute(change["new"])',
        "frame = self._frames[0]",
        "show/test_widgets.py::test_the_slider_shows_what_f_returns_now",
    ),
]

COMPOSITION = "patterns/test_composition.py::"
SCHEDULE = "test_groups.py::"
ENGINE_TESTS = "test_engine.py::"

RULES = [
    Fault(
        "a window counts the keys of both sides together",
        "patterns/positional.py",
        "(j - i).abs() <= self.w\n",
        "2 * (j - i).abs() <= self.w\n",
        COMPOSITION + "test_a_mask_is_the_definition",
    ),
    Fault(
        "a window's reach ends one key short",
        "patterns/positional.py",
        "clipped(queries[0] - self.w, queries[-1] + self.w + 1, n_k)",
        "clipped(queries[0] - self.w, queries[-1] + self.w, n_k)",
        COMPOSITION + "test_reach_never_misses_a_key_of_a_public_pattern",
    ),
    Fault(
        "a window's reach begins one key late",
        "patterns/positional.py",
        "clipped(queries[0] - self.w, queries[-1]",
        "clipped(queries[0] - self.w + 1, queries[-1]",
        COMPOSITION + "test_reach_never_misses_a_key_of_a_public_pattern",
    ),
    Fault(
        "a window's edges forget that its ends are cut off",
        "patterns/positional.py",
        "return n * (2 * w + 1) - w * (w + 1)",
        "return n * (2 * w + 1)",
        "patterns/test_atoms.py::test_a_window_counts_what_the_papers_formula_says",
    ),
    Fault(
        "a dilated window has no gaps",
        "patterns/positional.py",
        "return in_reach & (offset % self.dilation == 0)",
        "return in_reach",
        COMPOSITION + "test_a_mask_is_the_definition",
    ),
    Fault(
        "a dilated window is as long as it has keys",
        "patterns/positional.py",
        "in_reach = offset.abs() <= self.w * self.dilation",
        "in_reach = offset.abs() <= self.w",
        COMPOSITION + "test_a_mask_is_the_definition",
    ),
    Fault(
        "a stride is taken for any queries that are asked about",
        "patterns/positional.py",
        "if queries.step % self.stride == 0 or len(queries) == 1:",
        "if True:",
        COMPOSITION + "test_reach_never_misses_a_key_of_a_public_pattern",
    ),
    Fault(
        "a stride's footprint loses the residue",
        "patterns/positional.py",
        "return (keys[0] - queries[0]) % self.stride, queries.step, keys.step",
        "return queries.step, keys.step",
        COMPOSITION + "test_equal_footprints_of_public_patterns_promise_equal_masks",
    ),
    Fault(
        "a block's footprint loses where in its block it begins",
        "patterns/positional.py",
        "return queries[0] % size, *_offset(queries, keys)",
        "return _offset(queries, keys)",
        COMPOSITION + "test_equal_footprints_of_public_patterns_promise_equal_masks",
    ),
    Fault(
        "keys at the very edge of a window count as out of reach",
        "patterns/positional.py",
        "apart = keys[0] - queries[-1] > far or queries[0] - keys[-1] > far",
        "apart = keys[0] - queries[-1] >= far or queries[0] - keys[-1] > far",
        COMPOSITION + "test_equal_footprints_of_public_patterns_promise_equal_masks",
    ),
    Fault(
        "keys that reach one past the first query count as its past",
        "patterns/positional.py",
        "        if keys[-1] <= queries[0]:\n",
        "        if keys[-1] <= queries[0] + 1:\n",
        COMPOSITION + "test_equal_footprints_of_public_patterns_promise_equal_masks",
    ),
    Fault(
        "blocks look back one block too few",
        "patterns/positional.py",
        "return (ahead >= -self.before) & (ahead <= self.after)",
        "return (ahead > -self.before) & (ahead <= self.after)",
        COMPOSITION + "test_a_mask_is_the_definition",
    ),
    Fault(
        "a block forgets its first key before the first query is gone",
        "patterns/positional.py",
        "return (self.before + 1) * self.block_size - 1",
        "return self.before * self.block_size",
        "transformer/test_rolling_cache.py::test_every_way_to_cut_a_text_gives_the_logits_of_one_pass",
    ),
    Fault(
        "a window of both sides is not halved",
        "patterns/positional.py",
        "return window // 2",
        "return window",
        "patterns/test_atoms.py::test_a_window_that_counts_both_sides_is_twice_the_radius",
    ),
    Fault(
        "a union looks where its left half does",
        "patterns/base.py",
        "return merged(self.left.reach(queries, n_k) + self.right.reach(queries, n_k))",
        "return self.left.reach(queries, n_k)",
        COMPOSITION + "test_reach_covers_no_more_than_it_has_to",
    ),
    Fault(
        "a union looks back as far as its nearer half",
        "patterns/base.py",
        "return None if left is None or right is None else max(left, right)",
        "return None if left is None or right is None else min(left, right)",
        COMPOSITION + "test_a_window_bounds_how_far_back_a_query_reads",
    ),
    Fault(
        "an intersection promises with one half's footprint",
        "patterns/base.py",
        "return None if left is None or right is None else (left, right)",
        "return left if right is None else right",
        COMPOSITION + "test_equal_footprints_of_public_patterns_promise_equal_masks",
    ),
    Fault(
        "overlapping strides start from the wrong residue",
        "patterns/base.py",
        "start += (a.start - start) % a.step",
        "start += 0",
        COMPOSITION + "test_reach_covers_no_more_than_it_has_to",
    ),
    Fault(
        "runs of different residues are joined into one of them",
        "patterns/base.py",
        "if len({(r.step, r.start % r.step) for r in ranges}) > 1:",
        "if len({r.step for r in ranges}) > 1:",
        COMPOSITION + "test_merged_ranges_are_sorted_disjoint_and_hold_what_they_held",
    ),
    Fault(
        "a run inside another one shortens it",
        "patterns/base.py",
        "max(out[-1].stop, r.stop)",
        "r.stop",
        COMPOSITION + "test_merged_ranges_are_sorted_disjoint_and_hold_what_they_held",
    ),
    Fault(
        "a pattern is taken for true",
        "patterns/base.py",
        "    def __bool__(self) -> bool:\n        raise",
        "    def __bool__(self) -> bool:\n        return True\n        raise",
        COMPOSITION + "test_no_rule_has_a_truth_value",
    ),
    Fault(
        "global tokens are read, and do not read",
        "patterns/global_tokens.py",
        "(read | self._is_global(i) if self.reads else read)",
        "read",
        "patterns/test_global.py::test_a_row_that_is_not_global_holds_g_keys",
    ),
    Fault(
        "global edges count the square twice",
        "patterns/global_tokens.py",
        "return 2 * g * n - g * g if self.reads else g * n",
        "return 2 * g * n if self.reads else g * n",
        "patterns/test_global.py::test_global_tokens_cost_two_cross_arms_and_their_square_once",
    ),
    Fault(
        "a group may straddle the last global token and read everything",
        "patterns/global_tokens.py",
        "for border in (r.start, r.stop)] if self.reads else []",
        "for border in (r.start, r.stop)] if False else []",
        SCHEDULE + "test_whole_blocks_compute_no_pair_that_is_not_allowed",
    ),
    Fault(
        "a global footprint sees the queries only",
        "patterns/global_tokens.py",
        "for at in (queries, keys)\n",
        "for at in (queries, queries)\n",
        COMPOSITION + "test_equal_footprints_of_public_patterns_promise_equal_masks",
    ),
    Fault(
        "random keys come from the global random state",
        "patterns/random.py",
        "generator = torch.Generator().manual_seed(self.seed)",
        "generator = torch.default_generator",
        "patterns/test_random.py::test_global_random_state_neither_matters_nor_moves",
    ),
    Fault(
        "every seed draws the same",
        "patterns/random.py",
        "manual_seed(self.seed)",
        "manual_seed(0)",
        "patterns/test_random.py::test_the_same_seed_draws_the_same_keys_and_another_seed_does_not",
    ),
    Fault(
        "a key is drawn twice",
        "patterns/random.py",
        "usable = ~_repeated(tried) & ~",
        "usable = ~",
        "patterns/test_random.py::test_every_row_holds_exactly_r_keys_or_blocks",
    ),
    Fault(
        "what is excluded is drawn again",
        "patterns/random.py",
        "        if self.exclude is None:\n            return out\n",
        "        return out\n",
        "patterns/test_random.py::test_nothing_is_drawn_where_the_excluded_rule_allows_a_pair",
    ),
    Fault(
        "all that is within reach of the excluded rule is excluded",
        "patterns/random.py",
        "out[row, column] = pairs.flatten(1).any(dim=1)",
        "pass",
        "patterns/test_random.py::test_nothing_is_drawn_where_the_excluded_rule_allows_a_pair",
    ),
    Fault(
        "a block is excluded where all of its pairs are taken",
        "patterns/random.py",
        "pairs.flatten(1).any(dim=1)",
        "pairs.flatten(1).all(dim=1)",
        "patterns/test_random.py::test_nothing_is_drawn_where_the_excluded_rule_allows_a_pair",
    ),
    Fault(
        "rows that run out of draws stay short",
        "patterns/random.py",
        "for block in (~enough).nonzero()[:, 0]:",
        "for block in ():",
        "patterns/test_random.py::test_nothing_is_drawn_where_the_excluded_rule_allows_a_pair",
    ),
    Fault(
        "rows that run out of draws take the first keys that are left",
        "patterns/random.py",
        "every = torch.randperm(self.n_blocks, generator=generator)",
        "every = torch.arange(self.n_blocks)",
        "patterns/test_random.py::test_rows_that_run_out_of_draws_are_drawn_evenly_too",
    ),
    Fault(
        "a draw serves longer sequences than it was made for",
        "patterns/random.py",
        "        if n > self.n:\n",
        "        if False:\n",
        "patterns/test_random.py::test_more_tokens_than_were_drawn_for_are_refused",
    ),
    Fault(
        "a random block's footprint loses which of its keys were drawn",
        "patterns/random.py",
        "return queries[0] % size, keys[0] % size, links",
        "return queries[0] % size, keys[0] % size, len(links)",
        COMPOSITION + "test_equal_footprints_of_public_patterns_promise_equal_masks",
    ),
    Fault(
        "a painted mask repeats its border outside",
        "patterns/painted.py",
        "j.clamp(max=self.n - 1)] & inside",
        "j.clamp(max=self.n - 1)]",
        "patterns/test_painted.py::test_nothing_outside_the_matrix_is_allowed",
    ),
    Fault(
        "FlexAttention counts queries from the first key",
        "patterns/flex.py",
        "pattern.allowed(i + (n_k - n), j)",
        "pattern.allowed(i, j)",
        "patterns/test_flex.py::test_flexattentions_mask_is_the_definition",
    ),
    Fault(
        "bigbird draws blocks that its window has",
        "patterns/named.py",
        "block_size=block_size, exclude=local)",
        "block_size=block_size)",
        "patterns/test_named.py::test_bigbirds_random_blocks_lie_outside_its_other_rules",
    ),
    Fault(
        "bigbird's last block is not global",
        "patterns/named.py",
        "Global((*range(block_size), *range(n - block_size, n)))",
        "Global(tuple(range(block_size)))",
        "patterns/test_named.py::test_counts_are_those_worked_out_on_paper",
    ),
    Fault(
        "the relay of the star does not read",
        "patterns/named.py",
        "return Window(1) | Global(1)",
        "return Window(1) | Global(1, reads=False)",
        "patterns/test_named.py::test_a_star_has_five_pairs_for_each_token_but_one",
    ),
    Fault(
        "global columns of fixed attention become global rows as well",
        "patterns/named.py",
        "return BlockLocal(stride) & Causal(), LastOfBlock(stride, c) & Causal()",
        "return BlockLocal(stride) & Causal(), LastOfBlock(stride, c)",
        "patterns/test_named.py::test_counts_are_those_worked_out_on_paper",
    ),
    Fault(
        "a sentence begins one token late",
        "patterns/pieces.py",
        "return (bounds[summary] <= j)",
        "return (bounds[summary] < j)",
        "patterns/test_named.py::test_a_sentence_is_read_by_its_own_summary_alone",
    ),
    Fault(
        "the first tokens of a block are its summary",
        "patterns/pieces.py",
        "j % self.block_size >= self.block_size - self.c",
        "j % self.block_size < self.c",
        COMPOSITION + "test_a_mask_is_the_definition",
    ),
]

GROUPS = [
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
        "looks: list[Hashable] = [len(queries), queries.step]",
        "looks: list[Hashable] = [queries.step]",
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
        "            if footprint is None:\n                return None\n",
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
        "groups.py",
        "[slice(run.start, run.stop, run.step) for run in runs]",
        "[slice(run.start, run.stop) for run in runs]",
        SCHEDULE + "test_places_take_and_add_the_rows_they_name",
    ),
    Fault(
        "the mask forbids with a large number",
        "groups.py",
        "masked_fill(~ok, -math.inf)",
        "masked_fill(~ok, -1e4)",
        SCHEDULE + "test_every_allowed_pair_of_a_public_pattern_is_in_one_group",
    ),
    Fault(
        "the mask of a group means the opposite",
        "groups.py",
        "masked_fill(~ok, -math.inf)",
        "masked_fill(ok, -math.inf)",
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
        "split_rows=len(by_step) > 1",
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
        "max(1, ASKED_AT_ONCE // len(queries))",
        "len(keys)",
        SCHEDULE + "test_a_rule_is_never_asked_about_more_than_some_pairs_at_once",
    ),
]

ENGINE = [
    Fault(
        "the scores are not scaled",
        "engine.py",
        "alpha=scale, beta=",
        "alpha=1, beta=",
        ENGINE_TESTS + "test_the_scale_is_the_one_given",
    ),
    Fault(
        "the gradient forgets the scale",
        "engine.py",
        ".mul_(weights).mul_(ctx.scale)",
        ".mul_(weights)",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "the gradient forgets that weights sum to one",
        "engine.py",
        "d_scores.sub_(group.queries.take(correction[heads])).mul_",
        "d_scores.mul_",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "padding is ignored backward",
        "engine.py",
        "_rows(padding, heads), ctx.scale)",
        "None, ctx.scale)",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "padding is ignored forward",
        "engine.py",
        "_rows(padding, heads), scale)",
        "None, scale)",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "padding means the opposite to the engine",
        "engine.py",
        "masked_fill(~key_padding, -math.inf)",
        "masked_fill(key_padding, -math.inf)",
        ENGINE_TESTS + "test_padding_behind_a_sequence_changes_nothing",
    ),
    Fault(
        "heads take the padding of the next sequence",
        "engine.py",
        ".repeat_interleave(h, 0)[..., None]",
        ".repeat(h, 1)[..., None]",
        ENGINE_TESTS + "test_sequences_and_heads_do_not_see_each_other",
    ),
    Fault(
        "every piece of heads takes the padding of the first",
        "engine.py",
        "return None if padding is None else padding[heads]",
        "return None if padding is None else padding[: len(range(*heads.indices(len(padding))))]",
        ENGINE_TESTS + "test_heads_are_computed_as_many_at_a_time_as_the_cache_holds",
    ),
    Fault(
        "the last heads are left out where they do not fill a piece",
        "engine.py",
        "for start in range(0, n_heads, at_once):",
        "for start in range(0, n_heads - at_once + 1, at_once):",
        ENGINE_TESTS + "test_each_piece_is_a_slice_of_heads_and_all_heads_have_their_turn",
    ),
    Fault(
        "all heads are computed at once",
        "engine.py",
        "max(1, CACHED_SCORES // group.n_pairs)",
        "max(1, n_heads)",
        ENGINE_TESTS + "test_each_piece_is_a_slice_of_heads_and_all_heads_have_their_turn",
    ),
    Fault(
        "a row without keys is NaN",
        "engine.py",
        "return scores.softmax(dim=-1).masked_fill_(empty, 0.0)",
        "return scores.softmax(dim=-1)",
        ENGINE_TESTS + "test_padding_that_empties_rows_gives_zeros_there_and_no_nan_anywhere",
    ),
    Fault(
        "padding is not thought to empty rows",
        "engine.py",
        "if not group.has_empty_rows and padding is None:",
        "if not group.has_empty_rows:",
        ENGINE_TESTS + "test_padding_that_empties_rows_gives_zeros_there_and_no_nan_anywhere",
    ),
    Fault(
        "partial results merge without a guard",
        "engine.py",
        "return lse.masked_fill(lse == -math.inf, 0.0)",
        "return lse",
        ENGINE_TESTS + "test_groupings_merge_where_one_of_them_is_empty",
    ),
    Fault(
        "partial results are added",
        "engine.py",
        "weights @ values + (kept - 1) * queries.take(out)",
        "weights @ values",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "the merged sum is forgotten",
        "engine.py",
        "    queries.put(lse, new)\n",
        "    pass\n",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "the gradient normalises each grouping for itself",
        "engine.py",
        "weights = scores.sub_(_finite(group.queries.take(lse[heads]))).exp_()",
        "weights = _softmax(scores, group, padding)",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "half precision is computed in half precision",
        "engine.py",
        "wide = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype",
        "wide = q.dtype",
        ENGINE_TESTS + "test_half_precision_is_computed_in_single_and_rounded_once",
    ),
    Fault(
        "double precision is computed in single precision",
        "engine.py",
        "wide = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype",
        "wide = torch.float32",
        ENGINE_TESTS + "test_every_pattern_equals_dense_attention",
    ),
    Fault(
        "a second derivative is silently left out",
        "engine.py",
        "        if torch.is_grad_enabled():  # create_graph=True\n",
        "        if False:\n",
        ENGINE_TESTS + "test_second_derivatives_are_refused_and_not_silently_left_out",
    ),
    Fault(
        "heads come back in the order of their schedules",
        "engine.py",
        "            out[head] = some[:, at]\n",
        "            out[at] = some[:, at]\n",
        ENGINE_TESTS + "test_each_head_follows_its_own_rule_and_equal_ones_share_a_schedule",
    ),
    Fault(
        "other devices are not looked at",
        "engine.py",
        "if not q.device == k.device == v.device:",
        "if False:",
        ENGINE_TESTS + "test_what_does_not_fit_is_refused",
    ),
]

GRAPHS = [
    Fault(
        "paths go from what is read to its reader",
        "analysis/graphs.py",
        "csgraph.shortest_path(reads, unweighted=True)",
        "csgraph.shortest_path(reads.T, unweighted=True)",
        "analysis/test_graphs.py::test_entry_i_j_goes_from_reader_to_what_is_read",
    ),
    Fault(
        "paths may be walked both ways",
        "analysis/graphs.py",
        "csgraph.shortest_path(reads, unweighted=True)",
        "csgraph.shortest_path(reads, unweighted=True, directed=False)",
        "analysis/test_graphs.py::test_path_lengths_are_the_layers_that_a_signal_needs",
    ),
    Fault(
        "parts meet only where both read each other",
        "analysis/graphs.py",
        "connected_components(adjacency(pattern, n), directed=False)",
        "connected_components(adjacency(pattern, n), connection='strong')",
        "analysis/test_graphs.py::test_parts_that_never_meet_are_counted_whoever_reads_whom",
    ),
    Fault(
        "a receptive field is one layer behind",
        "analysis/graphs.py",
        "return path_lengths(pattern, n) <= n_layers",
        "return path_lengths(pattern, n) < n_layers",
        "analysis/test_graphs.py::test_the_receptive_field_is_what_autograd_sees_through_layers",
    ),
    Fault(
        "the gap is that of the third eigenvalue",
        "analysis/graphs.py",
        "1.0 - sizes[-2]",
        "1.0 - sizes[-3]",
        "analysis/test_graphs.py::test_the_gap_of_a_ring_is_that_of_its_cosines",
    ),
    Fault(
        "the gap looks at eigenvalues without their size",
        "analysis/graphs.py",
        "np.sort(np.abs(np.linalg.eigvals(walk.toarray())))",
        "np.sort(np.real(np.linalg.eigvals(walk.toarray())))",
        "analysis/test_graphs.py::test_the_gap_of_a_ring_is_that_of_its_cosines",
    ),
    Fault(
        "mixing looks at the average start",
        "analysis/graphs.py",
        ".sum(axis=1).max() <= distance",
        ".sum(axis=1).mean() <= distance",
        "analysis/test_graphs.py::test_the_mixing_time_is_that_of_the_walk_from_the_worst_start",
    ),
    Fault(
        "mixing counts twice the distance",
        "analysis/graphs.py",
        "0.5 * np.abs(at - stationary)",
        "np.abs(at - stationary)",
        "analysis/test_graphs.py::test_the_mixing_time_is_that_of_the_walk_from_the_worst_start",
    ),
    Fault(
        "a token that reads nothing falls out of the walk",
        "analysis/graphs.py",
        "@ reads + stay)",
        "@ reads)",
        "analysis/test_graphs.py::test_a_token_that_reads_nothing_stays_where_it_is",
    ),
]

LAYERS = [
    Fault(
        "the rolling cache keeps w keys",
        "transformer/attention.py",
        "cache.keep_last(max(lookbacks) + 1)",
        "cache.keep_last(max(lookbacks))",
        "transformer/test_rolling_cache.py::test_no_more_keys_are_stored_than_a_later_query_can_read",
    ),
    Fault(
        "the rolling cache goes by the nearest-sighted head",
        "transformer/attention.py",
        "cache.keep_last(max(lookbacks) + 1)",
        "cache.keep_last(min(lookbacks) + 1)",
        "transformer/test_rolling_cache.py::test_every_way_to_cut_a_text_gives_the_logits_of_one_pass",
    ),
    Fault(
        "the rolling cache drops keys that a global token needs",
        "transformer/attention.py",
        "            if None not in lookbacks:\n",
        "            lookbacks = [back for back in lookbacks if back is not None]\n            if lookbacks:\n",
        "transformer/test_rolling_cache.py::test_every_way_to_cut_a_text_gives_the_logits_of_one_pass",
    ),
    Fault(
        "the rolling cache keeps the first keys",
        "transformer/attention.py",
        "self.k[..., -n:, :].clone()",
        "self.k[..., :n, :].clone()",
        "transformer/test_rolling_cache.py::test_every_way_to_cut_a_text_gives_the_logits_of_one_pass",
    ),
    Fault(
        "the rolling cache keeps the storage of what it drops",
        "transformer/attention.py",
        "self.k[..., -n:, :].clone(), self.v[..., -n:, :].clone()",
        "self.k[..., -n:, :], self.v[..., -n:, :]",
        "transformer/test_rolling_cache.py::test_what_is_dropped_is_freed",
    ),
    Fault(
        "positions of dropped keys are given to those that are left",
        "transformer/attention.py",
        "self._places(cache.n_stored + x.shape[1], x) + cache.n_dropped",
        "self._places(cache.n_stored + x.shape[1], x)",
        "transformer/test_rolling_cache.py::test_positions_go_on_where_dropped_keys_stood",
    ),
    Fault(
        "padding falls on the first keys instead of those that are left",
        "transformer/attention.py",
        "return key_padding[:, n_k - len(j) :]",
        "return key_padding[:, : len(j)]",
        "transformer/test_rolling_cache.py::test_padding_names_every_key_so_far_and_falls_on_those_that_are_left",
    ),
    Fault(
        "the sparse path forgets padding",
        "transformer/attention.py",
        "q, k, v, self.pattern, key_padding=key_padding, scale=self.scale",
        "q, k, v, self.pattern, scale=self.scale",
        "transformer/test_patterns_in_models.py::test_the_sparse_path_is_taken_and_equals_the_dense_one",
    ),
    Fault(
        "the sparse path forgets the scale",
        "transformer/attention.py",
        "q, k, v, self.pattern, key_padding=key_padding, scale=self.scale",
        "q, k, v, self.pattern, key_padding=key_padding",
        "transformer/test_patterns_in_models.py::test_the_sparse_path_is_taken_and_equals_the_dense_one",
    ),
    Fault(
        "the sparse path forgets a mask",
        "transformer/attention.py",
        "whole = mask is None and not return_weights",
        "whole = not return_weights",
        "transformer/test_patterns_in_models.py::test_a_mask_and_returned_weights_go_the_dense_way_under_the_pattern",
    ),
    Fault(
        "the sparse path is taken under a scheme that adds to scores",
        "transformer/attention.py",
        "and not self.positions.in_scores",
        "and True",
        "transformer/test_patterns_in_models.py::test_schemes_that_add_to_scores_see_every_weight",
    ),
    Fault(
        "the sparse path is taken where it costs more",
        "transformer/attention.py",
        "return 2 * pairs < len(rules) * n_q * n_k",
        "return True",
        "transformer/test_patterns_in_models.py::test_the_sparse_path_is_taken_where_it_leaves_less_than_half_of_the_pairs",
    ),
    Fault(
        "all heads follow the first head's rule",
        "transformer/attention.py",
        "for rule in self._rules()]\n            readable",
        "for rule in self._rules()[:1]]\n            readable",
        "transformer/test_patterns_in_models.py::test_encoders_give_every_layer_its_rules",
    ),
    Fault(
        "a decoder's window looks ahead",
        "transformer/models.py",
        "return pattern & Causal() if isinstance(pattern, Pattern) else pattern",
        "return pattern",
        "transformer/test_patterns_in_models.py::test_no_token_of_a_decoder_knows_its_future",
    ),
    Fault(
        "every layer takes the first layer's rule",
        "transformer/models.py",
        "    return list(pattern)\n",
        "    return [pattern[0]] * len(pattern)\n",
        "transformer/test_patterns_in_models.py::test_encoders_give_every_layer_its_rules",
    ),
    Fault(
        "the star's ring is a chain",
        "transformer/star.py",
        "return (at - 1) % n_real, (at + 1) % n_real",
        "return (at - 1).clamp(min=0) % n_real, (at + 1).clamp(max=n_real - 1) % n_real",
        "transformer/test_star.py::test_turning_the_ring_turns_the_tokens_and_leaves_the_relay",
    ),
    Fault(
        "the star's ring closes around the padding",
        "transformer/star.py",
        "n_real = real.sum(dim=1, keepdim=True)\n",
        "n_real = torch.full_like(real[:, :1], real.shape[1], dtype=torch.long)\n",
        "transformer/test_star.py::test_padding_closes_the_ring_around_the_real_tokens",
    ),
    Fault(
        "the relay reads the tokens before their update",
        "transformer/star.py",
        "            h = norm_tokens(torch.relu(update))\n            update = relay(s, torch.cat([s, h], dim=1), key_padding=relay_reads)\n",
        "            before_h, h = h, norm_tokens(torch.relu(update))\n            update = relay(s, torch.cat([s, before_h], dim=1), key_padding=relay_reads)\n",
        "transformer/test_star.py::test_the_relay_reads_the_tokens_after_their_update",
    ),
    Fault(
        "the relay starts as the mean of padding as well",
        "transformer/star.py",
        "/ share.sum(dim=1, keepdim=True)",
        "/ share.shape[1]",
        "transformer/test_star.py::test_padding_closes_the_ring_around_the_real_tokens",
    ),
    Fault(
        "a token of the star forgets its embedding",
        "transformer/star.py",
        "_pick(h, after), e, s.expand_as(h)]",
        "_pick(h, after), h, s.expand_as(h)]",
        "transformer/test_star.py::test_it_is_the_papers_algorithm",
    ),
    Fault(
        "ordinary tokens read global keys through the global maps",
        "transformer/longformer.py",
        "split(self.key_global(x)),",
        "split(self.local.key(x)),",
        "transformer/test_longformer.py::test_it_is_the_papers_attention",
    ),
    Fault(
        "global rows read padding",
        "transformer/longformer.py",
        "attention(q, k, v, real)",
        "attention(q, k, v)",
        "transformer/test_longformer.py::test_padding_behind_a_sequence_changes_nothing",
    ),
    Fault(
        "global maps start at random",
        "transformer/longformer.py",
        'getattr(self, f"{name}_global").load_state_dict(ordinary)',
        "pass",
        "transformer/test_longformer.py::test_global_maps_start_as_copies_and_then_it_is_attention_under_the_mask",
    ),
    Fault(
        "a global token on padding is taken",
        "transformer/longformer.py",
        "if key_padding is not None and not bool(key_padding[:, chosen].all()):",
        "if False:",
        "transformer/test_longformer.py::test_what_does_not_fit_is_refused",
    ),
    Fault(
        "both directions of ETC share their labels",
        "transformer/etc.py",
        "2 * n_distances + 2 * read.long()",
        "2 * n_distances",
        "transformer/test_etc.py::test_two_pairs_share_a_label_where_they_are_of_one_kind",
    ),
    Fault(
        "ETC's global tokens share the text's distances",
        "transformer/etc.py",
        "n_distances * (asks & read).long()",
        "0 * (asks & read).long()",
        "transformer/test_etc.py::test_two_pairs_share_a_label_where_they_are_of_one_kind",
    ),
    Fault(
        "ETC's first token of a sentence belongs to the one before",
        "transformer/etc.py",
        "right=True) == summary",
        "right=False) == summary",
        "transformer/test_etc.py::test_two_pairs_share_a_label_where_they_are_of_one_kind",
    ),
    Fault(
        "ETC's labels are not scaled",
        "transformer/etc.py",
        "q @ self.a_key.T * scale",
        "q @ self.a_key.T",
        "transformer/test_etc.py::test_attention_with_the_labels_equals_the_loops",
    ),
]

FAULTS = [
    *(DENSE + CHECKS),
    *(PATTERNS + RULES),
    *GROUPS,
    *ENGINE,
    *GRAPHS,
    *(ATTENTION + POSITIONS + BLOCKS + MODELS + GENERATION + LAYERS),
    *DATA,
    *NGRAM,
    *TRAINING,
    *EXPERIMENTS,
    *SHOW,
]


# ----------------------------------------------------------------------------------- replaying

PARTS = {"dense": "core", "checks": "core", "patterns": "core"}
PARTS |= dict.fromkeys(["data", "ngram", "training", "experiments"], "experiments")


def groups(faults: Iterable[Fault] = FAULTS) -> dict[str, list[Fault]]:
    """Faults by part of the package: those of one share a process, which imports torch once."""
    parts: dict[str, list[Fault]] = {}
    for fault in faults:
        name = fault.file.split("/")[0].removesuffix(".py")
        parts.setdefault(PARTS.get(name, name), []).append(fault)
    return parts


def replay(faults: list[Fault]) -> dict[Fault, str]:
    """What became of each fault: "killed", or why not.

    The tests pass first in a copy of the package without a fault, so that a fault that is killed
    was killed for itself.
    """
    verdicts: dict[Fault, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        healthy = _copy(Path(folder), "healthy")
        runs = [{"source": str(healthy), "tests": sorted({fault.test for fault in faults})}]
        planted = []
        for number, fault in enumerate(faults):
            times = (PACKAGE / fault.file).read_text(encoding="utf-8").count(fault.old)
            if times != 1:
                verdicts[fault] = f"its line stands {times} times in {fault.file}"
                continue
            source = _copy(Path(folder), str(number))
            file = source / "tinyattn" / fault.file
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
            runs.append({"source": str(source), "tests": [fault.test]})
            planted.append(fault)
        report = Path(folder, "report.json")
        process = subprocess.run(
            [sys.executable, __file__, "--worker", str(report)],
            input=json.dumps(runs),
            cwd=ROOT,
            env={
                **os.environ,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        )
        if not report.exists():
            raise RuntimeError(f"replaying stopped early:\n{process.stdout[-3000:]}")
        outcomes = json.loads(report.read_text(encoding="utf-8"))
    if outcomes[0] != "survived":
        raise RuntimeError(f"tests fail without any fault: {outcomes[0]}\n{process.stdout[-3000:]}")
    return verdicts | dict(zip(planted, outcomes[1:], strict=True))


def _copy(folder: Path, name: str) -> Path:
    source = folder / name
    shutil.copytree(PACKAGE, source / "tinyattn", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def _work(report: Path) -> None:
    """In a process of its own: run tests against one copy of the package after the other."""
    import pytest

    outcomes = []
    sys.path.insert(0, str(ROOT))
    for run in json.load(sys.stdin):
        for name in [name for name in sys.modules if name.split(".")[0] in ("tinyattn", "tests")]:
            del sys.modules[name]
        sys.path.insert(0, run["source"])
        tests = [str(ROOT / "tests" / test) for test in run["tests"]]
        watch = _Watch()
        # without the shape checks of the usual run: the test itself has to notice
        options = ["-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-x", "-q"]
        code = pytest.main([*options, "--no-header", "--tb=line", *tests], plugins=[watch])
        imported = (
            Path(sys.modules["tinyattn"].__file__).parents[1] if "tinyattn" in sys.modules else None
        )
        if imported != Path(run["source"]):
            outcomes.append(f"tests imported another tinyattn: {imported}")
        elif watch.broken:
            outcomes.append(f"broken: {watch.broken[0]}")
        elif watch.failed:
            outcomes.append("killed")
        elif watch.passed:
            outcomes.append("survived")
        else:
            outcomes.append(f"no test ran: pytest ended with {code!r}")
        sys.path.remove(run["source"])
    report.write_text(json.dumps(outcomes), encoding="utf-8")


class _Watch:
    """A pytest plugin that tells a failing test from one that cannot run."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: list[str] = []
        self.broken: list[str] = []

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid} cannot be collected")

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call":
            (self.failed if report.failed else self.passed).append(report.nodeid)
        elif report.failed:
            self.broken.append(f"{report.nodeid} fails in {report.when}")


def main(words: list[str]) -> int:
    chosen = [
        fault
        for fault in FAULTS
        if not words or any(word in f"{fault.file} {fault.what}" for word in words)
    ]
    survivors = 0
    for faults in groups(chosen).values():
        file = None
        for fault, verdict in replay(faults).items():
            if fault.file != file:
                file = fault.file
                print(f"\n{file}")
            survivors += verdict != "killed"
            print(f"  {verdict:8}  {fault.what}\n{'':12}{fault.test}", flush=True)
    print(f"\n{len(chosen)} faults planted, {survivors} not killed")
    return survivors


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _work(Path(sys.argv[2]))
    else:
        raise SystemExit(1 if main(sys.argv[1:]) else 0)
