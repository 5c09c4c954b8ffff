"""Faults to plant in what is read from a benchmark's results."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "the first fast length counts, whatever comes after it",
        "analysis/crossover.py",
        "                first = None\n            elif",
        "                pass\n            elif",
        "analysis/test_crossover.py::"
        "test_a_case_pays_from_the_first_length_after_which_it_is_never_slower",
    ),
    Fault(
        "as fast as dense attention is taken for faster",
        "analysis/crossover.py",
        "if ratio >= 1:",
        "if ratio > 1:",
        "analysis/test_crossover.py::test_as_fast_as_dense_is_not_faster",
    ),
    Fault(
        "seconds of both modes are one curve",
        "analysis/crossover.py",
        '(cell["kind"], cell["case"], cell["mode"]) == wanted',
        '(cell["kind"], cell["case"]) == wanted[:2]',
        "analysis/test_crossover.py::test_a_curve_is_read_from_what_the_benchmark_writes",
    ),
    Fault(
        "lengths stay in the order in which they were measured",
        "analysis/crossover.py",
        "points = sorted(",
        "points = list(",
        "analysis/test_crossover.py::test_a_curve_is_read_from_what_the_benchmark_writes",
    ),
]
