"""Faults to plant in what examines answers."""

from tests.faults.fault import Fault

CHECKS = "exercises/test_checks.py::"
REFUSED = "test_a_wrong_answer_is_refused_in_its_own_words"

FAULTS = [
    Fault(
        "an answer that changes its inputs is accepted",
        "exercises/base.py",
        "if _difference(after, before, 0.0):",
        "if False:",
        CHECKS + REFUSED + "[attention/masked-changed its input number 1]",
    ),
    Fault(
        "a mistake is named when it explains one case only",
        "exercises/base.py",
        "if all(_explains(mistake, case, got, tolerance) for case, got in tried):",
        "if any(_explains(mistake, case, got, tolerance) for case, got in tried):",
        CHECKS + "test_a_mistake_is_named_only_when_it_explains_every_case",
    ),
    Fault(
        "NaN passes for a number",
        "exercises/base.py",
        "apart = ~torch.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)",
        "apart = (a - b).abs() > tolerance",
        CHECKS + REFUSED + "[attention/masked-gets NaN]",
    ),
    Fault(
        "marks are given for the inputs that everybody sees",
        "exercises/run.py",
        "verdict = _examine(one, answer, seed)",
        "verdict = _examine(one, answer, SEEN_SEED)",
        CHECKS + "test_marks_are_given_for_inputs_of_another_seed",
    ),
    Fault(
        "a missing answer earns its points",
        "exercises/run.py",
        'if verdict.state != "right":',
        'if verdict.state == "wrong":',
        CHECKS + "test_a_missing_answer_is_no_mistake_and_no_point[attention/row]",
    ),
    Fault(
        "a check draws from the reader's random state",
        "exercises/run.py",
        "with torch.random.fork_rng(devices=[]):",
        "if True:",
        CHECKS + "test_checks_leave_the_global_random_state_alone[attention/spread]",
    ),
]
