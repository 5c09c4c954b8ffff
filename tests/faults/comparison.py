"""Faults to plant in what the comparison of layers is measured with."""

from tests.faults.fault import Fault

SUPPORT, CLAIMS = "analysis/support.py", "analysis/layer_claims.py"
COPY, FEW = "experiments/distant_copy.py", "experiments/few_digits.py"
SUPPORT_TESTS = "analysis/test_support.py::test_"
COPY_TESTS = "experiments/test_distant_copy.py::test_"
FEW_TESTS = "experiments/test_few_digits.py::test_"

FAULTS = [
    Fault(
        "derivatives of opposite signs cancel",
        SUPPORT,
        "(slopes != 0).any(dim=5).any(dim=2)",
        "(slopes.sum(dim=5).sum(dim=2) != 0)",
        SUPPORT_TESTS + "no_order_of_signs_cancels_a_dependence",
    ),
    Fault(
        "dependencies of the first channel stand for all",
        SUPPORT,
        ".any(dim=5).any(dim=2)[0, :, 0]",
        "[..., 0].any(dim=2)[0, :, 0]",
        SUPPORT_TESTS + "rows_are_outputs_and_columns_inputs_also_where_their_numbers_differ",
    ),
    Fault(
        "dependencies of the first sequence pass for those of a batch",
        SUPPORT,
        "if x.dim() != 3 or len(x) != 1:",
        "if x.dim() != 3:",
        SUPPORT_TESTS + "what_has_no_answer_is_refused",
    ),
    Fault(
        "the shortest way through a result counts",
        SUPPORT,
        "own + max((depth",
        "own + min((depth",
        SUPPORT_TESTS + "the_longest_way_through_a_result_counts",
    ),
    Fault(
        "a leaf counts as an operation",
        SUPPORT,
        'own = 0 if hasattr(operation, "variable") and not before else 1',
        "own = 1",
        SUPPORT_TESTS + "the_longest_way_through_a_result_counts",
    ),
    Fault(
        "dilations double whatever the kernel",
        CLAIMS,
        "dilation = width**n_layers",
        "dilation = 2**n_layers",
        SUPPORT_TESTS + "dilated_layers_are_those_of_a_stack_that_runs",
    ),
    Fault(
        "the first dilation is the kernel's width",
        CLAIMS,
        "dilation = width**n_layers",
        "dilation = width ** (n_layers + 1)",
        SUPPORT_TESTS + "dilated_layers_are_those_of_a_stack_that_runs",
    ),
    Fault(
        "paths of contiguous convolutions are said to be logarithmic",
        CLAIMS,
        'count("contiguous convolutions, layers", 1,',
        'count("contiguous convolutions, layers", 0,',
        SUPPORT_TESTS + "claims_about_layers_hold_and_would_not_with_another_exponent",
    ),
    Fault(
        "a fully connected layer is said to be linear",
        CLAIMS,
        'count("fully connected, operations", 2,',
        'count("fully connected, operations", 1,',
        SUPPORT_TESTS + "claims_about_layers_hold_and_would_not_with_another_exponent",
    ),
    Fault(
        "the mark stands one place farther than asked for",
        COPY,
        "at = (config.n - 1 - distance)[:, None]",
        "at = (config.n - 2 - distance).clamp(min=0)[:, None]",
        COPY_TESTS + "one_symbol_is_marked_so_many_places_before_the_last_and_is_the_answer",
    ),
    Fault(
        "dilations grow by one",
        COPY,
        "dilation=c.width**depth",
        "dilation=1 + depth",
        COPY_TESTS + "the_last_position_learns_from_as_far_back_as_the_layers_reach",
    ),
    Fault(
        "the mean of all positions answers",
        COPY,
        "self.to_logits(self.mix(self.embedding(tokens))[:, -1])",
        "self.to_logits(self.mix(self.embedding(tokens)).mean(dim=1))",
        COPY_TESTS + "the_first_steps_of_a_stored_copier_come_out_again",
    ),
    Fault(
        "a model may exceed its budget by one step of width",
        COPY,
        "Copier(kind, config, d_model + 1)) <= config.budget",
        "Copier(kind, config, d_model)) <= config.budget",
        COPY_TESTS + "a_model_is_the_widest_within_the_budget",
    ),
    Fault(
        "shares by distance are shares of all answers",
        COPY,
        "return (right / torch.bincount(distance)).tolist()",
        "return (right / config.n_test).tolist()",
        COPY_TESTS + "shares_are_counted_at_each_distance",
    ),
    Fault(
        "few pictures are the first ones, whatever digit they show",
        FEW,
        "return torch.cat([order[labels[order] == digit][: size // 10] for digit in range(10)])",
        "return order[:size]",
        FEW_TESTS + "fewer_pictures_have_as_many_of_each_digit_and_are_among_more",
    ),
    Fault(
        "every seed draws the same pictures",
        FEW,
        "torch.Generator().manual_seed(seed))\n    if size",
        "torch.Generator().manual_seed(0))\n    if size",
        FEW_TESTS + "fewer_pictures_have_as_many_of_each_digit_and_are_among_more",
    ),
    Fault(
        "the band has no corners",
        FEW,
        "<= 1) & ((col",
        "<= 1) ^ ((col",
        FEW_TESTS + "the_band_and_the_kernel_read_a_patch_and_those_around_it",
    ),
    Fault(
        "the kernel slides over the transposed grid",
        FEW,
        "return self.kernel(grid).flatten(2).transpose(1, 2)",
        "return self.kernel(grid).transpose(2, 3).flatten(2).transpose(1, 2)",
        FEW_TESTS + "the_band_and_the_kernel_read_a_patch_and_those_around_it",
    ),
    Fault(
        "the bias mixes rows and columns",
        FEW,
        "right = j % SIDE - (i % SIDE)[:, None]",
        "right = j // SIDE - (i % SIDE)[:, None]",
        FEW_TESTS + "the_bias_depends_on_the_step_between_two_patches_alone",
    ),
]
