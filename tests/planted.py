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

FAULTS = [
    *(DENSE + CHECKS),
    *PATTERNS,
    *(ATTENTION + POSITIONS + BLOCKS + MODELS + GENERATION),
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
