"""Faults to plant where the pairs of a rule are computed one by one."""

from tests.faults.fault import Fault

EDGES = "test_edge_list.py::"
DENSE = EDGES + "test_edges_equal_dense_attention"
SUMS = EDGES + "test_sums_over_edges_are_products_with_the_matrix_of_their_weights"

FAULTS = [
    Fault(
        "lists that are filled up read what fills them",
        "edge_list.py",
        ".mul_(scale).add_(edges.mask)",
        ".mul_(scale)",
        DENSE,
    ),
    Fault(
        "edges forget the scale",
        "edge_list.py",
        "k[head]).mul_(scale)",
        "k[head])",
        DENSE,
    ),
    Fault(
        "the gradient of edges forgets the scale",
        "edge_list.py",
        "d_scores.mul_(weights).mul_(scale)",
        "d_scores.mul_(weights)",
        DENSE,
    ),
    Fault(
        "the gradient of edges forgets that weights sum to one",
        "edge_list.py",
        ".sub_(correction[head])",
        "",
        DENSE,
    ),
    Fault(
        "edges of a key are those of the next one",
        "edge_list.py",
        "counts.cumsum(0) - counts\n\n    def products",
        "counts.cumsum(0)\n\n    def products",
        SUMS,
    ),
    Fault(
        "weights stay in the order of queries",
        "edge_list.py",
        "weights = weights.flatten()[order]",
        "weights = weights.flatten()",
        SUMS,
    ),
    Fault(
        "padded keys are read along an edge",
        "edge_list.py",
        "    if padding is not None:\n",
        "    if False:\n",
        DENSE,
    ),
    Fault(
        "a list without a key is NaN",
        "edge_list.py",
        ".softmax(dim=-1).masked_fill_(empty, 0.0)",
        ".softmax(dim=-1)",
        DENSE,
    ),
    Fault(
        "edges are chosen for keys in a few runs",
        "edge_list.py",
        "if all(group.keys.index is None for group in groups):",
        "if False:",
        EDGES + "test_edges_are_chosen_where_groups_compute_many_times_their_pairs",
    ),
    Fault(
        "groups that forbid nothing count as equally long",
        "edge_list.py",
        "alike = id(group.masks), group.keys.n",
        "alike = id(group.masks)",
        EDGES + "test_groups_that_forbid_nothing_have_lists_of_their_own_lengths",
    ),
    Fault(
        "edges are always chosen",
        "edge_list.py",
        "if EDGES_PAY * n * width >= sum(",
        "if width == 0 >= sum(",
        EDGES + "test_edges_are_chosen_where_groups_compute_many_times_their_pairs",
    ),
    Fault(
        "second derivatives of edges are silently left out",
        "edge_list.py",
        "        first_derivatives_only(",
        "        max(",
        EDGES + "test_second_derivatives_of_edges_are_refused",
    ),
    Fault(
        "a layer prices random keys by the groups that the engine does not use",
        "transformer/attention.py",
        "price = sum(schedule(rule, n_q, n_k).price for rule in rules)",
        "price = sum(schedule(rule, n_q, n_k).n_pairs for rule in rules)",
        "transformer/test_patterns_in_models.py::"
        "test_random_keys_are_priced_as_edges_and_not_as_the_blocks_that_they_touch",
    ),
    Fault(
        "an edge costs no more than a pair of a block",
        "groups.py",
        "EDGES_PAY * self.edges.keys.numel()",
        "self.edges.keys.numel()",
        "transformer/test_patterns_in_models.py::"
        "test_random_keys_are_priced_as_edges_and_not_as_the_blocks_that_they_touch",
    ),
    Fault(
        "a backward pass is differentiated once more without a word",
        "checks.py",
        "    if torch.is_grad_enabled():",
        "    if False:",
        EDGES + "test_second_derivatives_of_edges_are_refused",
    ),
]
