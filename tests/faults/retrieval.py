"""Faults to plant in the retrieval experiment."""

from tests.faults.fault import Fault

FILE, TESTS = "experiments/retrieval.py", "experiments/test_retrieval.py::test_"

FAULTS = [
    Fault(
        "questions before the statement count",
        FILE,
        " & (stated_at < torch.arange(n))",
        "",
        TESTS + "a_question_has_the_stated_value_as_its_answer_and_counts_only_behind_it",
    ),
    Fault(
        "statements count as questions",
        FILE,
        "(tokens >= 1) & (tokens <= n_names)",
        "(tokens >= 1)",
        TESTS + "a_question_has_the_stated_value_as_its_answer_and_counts_only_behind_it",
    ),
    Fault(
        "a name is stated at the start",
        FILE,
        "places = 1 + torch.rand",
        "places = torch.rand",
        TESTS + "each_name_is_stated_once_in_the_first_half_behind_the_start",
    ),
    Fault(
        "a guess is worth nothing",
        FILE,
        "return share + (1 - share) / config.n_values",
        "return share",
        TESTS + "the_ceiling_of_a_window_is_what_it_reaches_and_a_guess_beyond",
    ),
    Fault(
        "paths are one layer longer than the model",
        FILE,
        "config.n), config.n_layers)",
        "config.n), config.n_layers + 1)",
        TESTS + "the_ceiling_of_a_window_is_what_it_reaches_and_a_guess_beyond",
    ),
    Fault(
        "a pair is reached from where it is asked, not from where it is stated",
        FILE,
        "return reads[torch.arange(config.n).expand_as(drawn.stated_at), drawn.stated_at]",
        "return reads[drawn.stated_at, drawn.stated_at]",
        TESTS + "the_ceiling_of_a_window_is_what_it_reaches_and_a_guess_beyond",
    ),
    Fault(
        "heads are joined by what they share",
        FILE,
        "for head in heads]).any(dim=0)",
        "for head in heads]).all(dim=0)",
        TESTS + "heads_are_joined_and_their_edges_averaged",
    ),
    Fault(
        "bins count distances from the start",
        FILE,
        "((torch.arange(n) - drawn.stated_at) * N_BINS // n)[asked]",
        "((torch.arange(n) + 0 * drawn.stated_at) * N_BINS // n)[asked]",
        TESTS + "shares_by_distance_match_loops",
    ),
    Fault(
        "the longest path looks ahead as well",
        FILE,
        ".tril().max())",
        ".max())",
        TESTS + "the_longest_path_looks_back_only",
    ),
]
