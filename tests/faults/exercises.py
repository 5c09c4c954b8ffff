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
        "an answer that always raises is told a mistake that raises, too",
        "exercises/base.py",
        "if all(got is None for _, got in tried):",
        "if not tried:",
        "exercises/test_base.py::test_an_answer_that_always_fails_is_told_its_own_error_and_no_mistake",
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
        "exercises/state.py",
        "with torch.random.fork_rng(devices=[]), kept_state():",
        "with kept_state():",
        CHECKS + "test_checks_leave_the_global_random_state_alone[attention/spread]",
    ),
    Fault(
        "values that are NaN expose every wrong attention",
        "exercises/attention.py",
        "if not all(one.isfinite().all() for one in (*inputs, right)):",
        "if False:",
        CHECKS + REFUSED + "[attention/tell_apart-must be finite]",
    ),
    Fault(
        "a row of NaN passes for probabilities",
        "exercises/usage.py",
        "if not (first.isfinite().all() and then.isfinite().all()):",
        "if False:",
        CHECKS + REFUSED + "[usage/greedy-not a finite number]",
    ),
    Fault(
        "a matrix of all pairs passes for a state",
        "exercises/taxonomy.py",
        "if counted.peak < LONG**2:",
        "if counted.peak < 80 * LONG**2:",
        CHECKS + REFUSED + "[taxonomy/recurrent-a matrix of all pairs]",
    ),
    Fault(
        "an answer that ends the program ends the page",
        "exercises/base.py",
        "    except BaseException as error:",
        "    except Exception as error:",
        CHECKS + "test_an_answer_that_ends_the_program_is_a_failure_like_others[attention/heads]",
    ),
    Fault(
        "a complex number counts by its real part",
        "exercises/base.py",
        "return None if error is not None or found.is_complex() else found",
        "return None if error is not None else found",
        "exercises/test_base.py::test_a_wrong_value_is_described_and_the_right_one_not_told",
    ),
    Fault(
        "a gap deep in an answer is a mistake",
        "exercises/base.py",
        "            return any(map(gap, value))",
        "            return any(part is ... for part in value)",
        "exercises/test_base.py::test_a_value_with_a_gap_was_not_attempted",
    ),
    Fault(
        "a student is asked for a leak where no centroid leaks",
        "exercises/clustering.py",
        "> PLAINLY for centroid in centroids",
        ">= 0 for centroid in centroids",
        "exercises/test_pages.py::test_a_latecomer_at_a_centroid_is_felt_on_every_seed[2002]",
    ),
    Fault(
        "gradients that one answer switched off are off for the next",
        "exercises/state.py",
        "        torch.set_grad_enabled(True)\n",
        "",
        "exercises/test_run.py::test_no_setting_of_one_answer_turns_the_mark_of_another",
    ),
    Fault(
        "an answer leaves its dtype to those after it",
        "exercises/state.py",
        "        torch.set_default_dtype(dtype)\n",
        "",
        "exercises/test_run.py::test_an_answer_that_changes_torchs_state_changes_it_for_nobody_else[dtype-None]",
    ),
    Fault(
        "an answer that switches gradients off switches them off for the reference, too",
        "exercises/base.py",
        "        with kept_state():\n            return",
        "        if True:\n            return",
        "exercises/test_run.py::test_no_setting_within_an_answer_turns_its_own_mark",
    ),
]
