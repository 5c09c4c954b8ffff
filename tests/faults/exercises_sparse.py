"""Faults to plant in the exercises of Part II."""

from tests.faults.fault import Fault

WRONG = "exercises/test_checks.py::test_a_wrong_answer_earns_nothing_on_other_inputs"
RIGHT = "exercises/test_checks.py::test_a_right_answer_is_accepted_on_seen_and_hidden_inputs"

FAULTS = [
    Fault(
        "an answer may change what the examiner looks at later",
        "exercises/certificates.py",
        "result, error = attempt(answer, *copy.deepcopy(arguments))",
        "result, error = attempt(answer, *arguments)",
        "exercises/test_certificates.py::test_an_answer_gets_copies_of_what_is_examined_later",
    ),
    Fault(
        "a certificate of fractions is rounded down",
        "exercises/certificates.py",
        "if all(n == int(n) for n in numbers) else None",
        "if all(n == n for n in numbers) else None",
        "exercises/test_certificates.py::test_what_is_no_list_of_whole_numbers_is_none",
    ),
    Fault(
        "the widest stretch is expected to be one input wider",
        "exercises/atomic.py",
        "possible = (2 * w + 1) ** n_layers",
        "possible = (2 * w + 1) ** n_layers + 1",
        f"{RIGHT}[atomic/widest-0]",
    ),
    Fault(
        "the first block is expected to draw, too",
        "exercises/compound.py",
        "for block, row in list(enumerate(rows))[1:-1]:",
        "for block, row in list(enumerate(rows))[:-1]:",
        f"{RIGHT}[compound/random_blocks-0]",
    ),
    Fault(
        "the tree's numbering begins each level one node late",
        "exercises/extended.py",
        "return first + count + (node - first) // 2",
        "return first + count + (node - first + 1) // 2",
        f"{RIGHT}[extended/parent-0]",
    ),
    Fault(
        "the merge subtracts no maximum",
        "exercises/lsh.py",
        "share = (z - top).exp()",
        "share = z.exp()",
        f"{RIGHT}[lsh/merge-0]",
    ),
    Fault(
        "empty clusters are divided by nothing",
        "exercises/clustering.py",
        "means = torch.where(n_now[:, None] > 0, means, centroids)",
        "means = torch.where(n_now[:, None] >= 0, means, centroids)",
        f"{RIGHT}[clustering/step-0]",
    ),
    Fault(
        "the gradient of a choice is not looked at",
        "exercises/learned.py",
        "gradient = torch.zeros_like(sort) if sort.grad is None else sort.grad",
        "gradient = torch.zeros_like(sort)",
        f"{WRONG}[learned/straight-no gradient comes back-1]",
    ),
]
