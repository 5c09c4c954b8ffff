"""Faults to plant in data and n-grams."""

from tests.faults.fault import Fault

FAULTS = [
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
