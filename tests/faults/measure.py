"""Faults to plant in what is measured, and in the ledger of claims."""

from tests.faults.fault import Fault

FILE, TESTS = "analysis/measure.py", "analysis/test_measure.py::test_"
LEDGER, OF_LEDGER = "analysis/ledger.py", "analysis/test_ledger.py::test_"

FAULTS = [
    Fault(
        "an exponent is fitted without logarithms of the values",
        FILE,
        "[math.log(b) for b in values]",
        "list(values)",
        TESTS + "a_fit_recovers_a_planted_exponent",
    ),
    Fault(
        "the spread forgets that a slope and a constant were fitted",
        FILE,
        "residual / (len(n) - 2) / around",
        "residual / len(n) / around",
        TESTS + "the_spread_is_the_standard_error_of_a_regression",
    ),
    Fault(
        "every turn starts with the same call",
        FILE,
        "first = turn % max(1, len(names))",
        "first = 0",
        TESTS + "calls_take_turns",
    ),
    Fault(
        "slow calls are never cut short",
        FILE,
        "if turn >= FEWEST_TURNS and",
        "if False and",
        TESTS + "slow_calls_get_fewer_turns",
    ),
    Fault(
        "the first call is timed",
        FILE,
        "    take_turns(calls, repeats=1)",
        "    pass",
        TESTS + "a_median_forgets_the_first_call_and_one_slow_turn",
    ),
    Fault(
        "the median is a mean",
        FILE,
        "statistics.median(taken)",
        "statistics.fmean(taken)",
        TESTS + "a_median_forgets_the_first_call_and_one_slow_turn",
    ),
    Fault(
        "bytes that are freed stay counted",
        FILE,
        "self.live -= self._known.pop(place)",
        "self._known.pop(place)",
        TESTS + "bytes_are_counted_while_tensors_live",
    ),
    Fault(
        "tensors from before are counted once they are used",
        FILE,
        "storage.nbytes() if count else 0",
        "storage.nbytes()",
        TESTS + "bytes_are_counted_while_tensors_live",
    ),
    Fault(
        "a tensor that autograd keeps twice is counted twice",
        FILE,
        "return sum(sizes.values())",
        "return sum(t.untyped_storage().nbytes() for t in kept)",
        TESTS + "kept_bytes_are_those_of_the_backward_pass",
    ),
    Fault(
        "weights are counted among what is kept",
        FILE,
        "sizes.pop(tensor.untyped_storage().data_ptr(), None)",
        "pass",
        TESTS + "kept_bytes_are_those_of_the_backward_pass",
    ),
    Fault(
        "shared parameters are counted in each place",
        FILE,
        "for parameter in module.parameters())",
        "for m in module.modules() for parameter in m.parameters(recurse=False))",
        TESTS + "parameters_that_are_shared_count_once",
    ),
    Fault(
        "products in place count half",
        FILE,
        "return 2 * math.prod(left) * right[-1]",
        "return math.prod(left) * right[-1]",
        TESTS + "products_are_counted_in_place_too",
    ),
    Fault(
        "a claim may be far off",
        LEDGER,
        "<= self.tolerance",
        "<= 1",
        OF_LEDGER + "a_planted_wrong_exponent_fails_and_is_named",
    ),
    Fault(
        "a count may grow more slowly than claimed",
        LEDGER,
        "abs(self.counted.exponent - self.claimed)",
        "(self.counted.exponent - self.claimed)",
        OF_LEDGER + "a_planted_wrong_exponent_fails_and_is_named",
    ),
    Fault(
        "the ledger looks at its first claim only",
        LEDGER,
        "for claim in self.claims if claim.holds is False]",
        "for claim in self.claims[:1] if claim.holds is False]",
        OF_LEDGER + "a_planted_wrong_exponent_fails_and_is_named",
    ),
    Fault(
        "a time decides a claim",
        LEDGER,
        "        if self.counted is None:\n            return None",
        "        if self.counted is None:\n            return self.measured is None",
        OF_LEDGER + "a_time_decides_nothing",
    ),
    Fault(
        "the table hides what is off",
        LEDGER,
        '(" (off)" if claim.holds is False else "")',
        '""',
        OF_LEDGER + "the_table_shows_what_is_claimed_counted_measured_and_off",
    ),
    Fault(
        "a chapter claims that attention's parameters grow with the text",
        "analysis/claims.py",
        'parameters by length", 0,',
        'parameters by length", 1,',
        OF_LEDGER + "every_claim_of_the_book_is_counted_and_holds",
    ),
    Fault(
        "a chapter claims that fused attention still keeps a matrix",
        "analysis/claims.py",
        "fused=True).activations",
        "fused=False).activations",
        OF_LEDGER + "every_claim_of_the_book_is_counted_and_holds",
    ),
]
