"""Faults to plant in the formulas of what layers cost."""

from tests.faults.fault import Fault

FILE, TESTS = "analysis/complexity.py", "analysis/test_complexity.py::test_"

FAULTS = [
    Fault(
        "a multiply-accumulate counts as one operation",
        FILE,
        "return 2 * self.macs",
        "return self.macs",
        TESTS + "feed_forward_costs_what_is_counted_in_chunks_too",
    ),
    Fault(
        "the core multiplies the weights with no values",
        FILE,
        "Cost(2 * n_heads * n_pairs * d_head",
        "Cost(n_heads * n_pairs * d_head",
        TESTS + "the_core_costs_what_pytorch_counts_in_its_own",
    ),
    Fault(
        "pairs of cross-attention are counted as if keys were queries",
        FILE,
        "n_pairs=n * n_k if",
        "n_pairs=n * n if",
        TESTS + "the_core_costs_what_pytorch_counts_in_its_own",
    ),
    Fault(
        "fused attention keeps the weights",
        FILE,
        "(n if fused else n_pairs)",
        "n_pairs",
        TESTS + "a_long_fused_layer_keeps_linearly_many_values",
    ),
    Fault(
        "weights are kept once for all heads",
        FILE,
        "n_heads * per_head)",
        "n_heads * (n + 2 * n_k) * d_head + n_pairs)",
        TESTS + "the_core_keeps_q_k_v_and_weights_or_one_number_for_each_query",
    ),
    Fault(
        "keys of another sequence are projected as often as queries",
        FILE,
        "macs=2 * (n + n_k) * d_model * inner",
        "macs=4 * n * d_model * inner",
        TESTS + "attention_costs_what_is_counted",
    ),
    Fault(
        "the last map has a bias for each channel of the heads",
        FILE,
        "bias * (3 * inner + d_model)",
        "bias * 4 * inner",
        TESTS + "attention_costs_what_is_counted",
    ),
    Fault(
        "another sequence that is read is not kept",
        FILE,
        "context = 0 if own else n_k * d_model",
        "context = 0",
        TESTS + "an_attention_layer_keeps_what_its_parts_keep",
    ),
    Fault(
        "pairs that a mask forbids are counted as kept",
        "groups.py",
        "int((mask < 0).sum())",
        "int((mask < -math.inf).sum())",
        TESTS + "pairs_of_expressions_are_kept_and_computed_as_counted",
    ),
    Fault(
        "kept pairs ignore how many queries there are",
        FILE,
        "if n_k in (None, n):",
        "if True:",
        TESTS + "pairs_of_expressions_are_kept_and_computed_as_counted",
    ),
    Fault(
        "a layer has one norm",
        FILE,
        "ffn_cost(n, d_model, d_ff) + 2 * norm_cost",
        "ffn_cost(n, d_model, d_ff) + norm_cost",
        TESTS + "encoder_and_decoder_layers_cost_what_is_counted",
    ),
    Fault(
        "cross-attention comes without its norm",
        FILE,
        "own + read + norm_cost(n, d_model)",
        "own + read",
        TESTS + "encoder_and_decoder_layers_cost_what_is_counted",
    ),
    Fault(
        "a norm keeps its input only",
        FILE,
        "n * d_model + 2 * n, steps=0",
        "n * d_model, steps=0",
        TESTS + "other_layers_keep_what_autograd_keeps",
    ),
    Fault(
        "a convolution is one for each channel",
        FILE,
        "Cost(n * width * d_model**2,",
        "Cost(n * width * d_model,",
        TESTS + "the_other_layers_cost_what_is_counted",
    ),
    Fault(
        "a recurrence waits for nobody",
        FILE,
        "if n else 0, steps=n)",
        "if n else 0)",
        TESTS + "table_1_follows_with_the_terms_that_it_leaves_out",
    ),
    Fault(
        "a fully connected layer is one map for each token",
        FILE,
        "linear_cost(1, n * d_model, n * d_model, bias=bias)",
        "linear_cost(n, d_model, d_model, bias=bias)",
        TESTS + "the_other_layers_cost_what_is_counted",
    ),
    Fault(
        "steps of layers in a row do not add up",
        FILE,
        "self.steps + other.steps",
        "max(self.steps, other.steps)",
        TESTS + "costs_of_layers_in_a_row_add_up",
    ),
]
