"""Faults to plant in what scores a reader's test."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "a test that rejects everything is praised",
        "exercises/museum/base.py",
        "    if failure is not None:",
        "    if False:",
        "exercises/test_museum.py::test_a_test_that_rejects_everything_scores_nothing[merge]",
    ),
    Fault(
        "what a test lets live counts as killed",
        "exercises/museum/base.py",
        "if _outcome(test, bug.function)[0] is None]",
        "if _outcome(test, exhibit.good)[0] is not None]",
        "exercises/test_museum.py::test_a_test_without_assertions_kills_nothing[merge]",
    ),
    Fault(
        "functions are tried on other draws",
        "exercises/museum/base.py",
        "        torch.manual_seed(0)\n",
        "",
        "exercises/test_museum.py::test_every_function_meets_the_same_random_draws",
    ),
    Fault(
        "a test that only returns a bool hears of a defect and not of its own",
        "exercises/museum/base.py",
        "    if not n_killed and returned is not None:",
        "    if False:",
        "exercises/test_museum.py::test_a_test_that_only_returns_is_told_to_assert",
    ),
]
