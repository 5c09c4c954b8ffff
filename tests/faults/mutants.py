"""Faults that `make mutants` made first, and that no test found then."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "a scale may be given by place, where a mask was meant",
        "dense.py",
        """    *,
    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "... n_q n_k"]:""",
        """    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "... n_q n_k"]:""",
        "test_dense.py::test_what_is_not_always_given_is_given_by_name",
    ),
    Fault(
        "a schedule that others share can be changed",
        "groups.py",
        "@dataclass(frozen=True)\nclass Groups:",
        "@dataclass(frozen=False)\nclass Groups:",
        "test_groups.py::test_nobody_changes_a_schedule_that_others_are_given_too",
    ),
    Fault(
        "a stride of two is cut like none",
        "groups.py",
        "    if step > 1:\n        whole",
        "    if step > 2:\n        whole",
        "test_groups.py::test_a_stride_of_two_is_a_stride_too",
    ),
    Fault(
        "a rule is asked about billions of pairs at once",
        "groups.py",
        "ASKED_AT_ONCE = 2**20",
        "ASKED_AT_ONCE = 3**20",
        "test_groups.py::test_a_rule_is_never_asked_about_more_than_some_pairs_at_once",
    ),
    Fault(
        "a recurrence is counted without its bias unless that is asked for",
        "analysis/complexity.py",
        "def recurrence_cost(n: int, d_model: int, *, bias: bool = True)",
        "def recurrence_cost(n: int, d_model: int, *, bias: bool = False)",
        "analysis/test_complexity.py::test_a_layer_has_biases_unless_it_is_told_otherwise",
    ),
]
