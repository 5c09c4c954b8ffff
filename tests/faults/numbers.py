"""Faults to plant in what passes for a number, a scale or a schedule's arguments."""

from tests.faults.fault import Fault

WHOLE = "patterns/test_whole_numbers.py::"
SAME = WHOLE + "test_a_rule_of_numpys_integers_is_the_rule_of_pythons"

FAULTS = [
    Fault(
        "a parameter is checked and kept as it came",
        "patterns/base.py",
        "    (value,) = whole_numbers(**{name: value})\n",
        "    whole_numbers(**{name: value})\n",
        SAME,
    ),
    Fault(
        "positions in a tuple stay NumPy's",
        "patterns/base.py",
        "return tuple(number for value in values for number in whole_numbers(**{name: value}))",
        "return tuple(value for value in values for _ in whole_numbers(**{name: value}))",
        SAME,
    ),
    Fault(
        "rules reckon in as few bits as the positions have",
        "patterns/base.py",
        "i, j = i.long(), j.long()",
        "pass",
        WHOLE + "test_a_rule_answers_the_same_whatever_dtype_the_positions_have",
    ),
    Fault(
        "edges are counted with NumPy's integers",
        "patterns/base.py",
        "        n, _ = check_lengths(n, n)\n",
        "        check_lengths(n, n)\n",
        SAME,
    ),
    Fault(
        "a schedule of the number of keys is another than that without it",
        "groups.py",
        "    return lowering(pattern, n, n_k, block_size)\n",
        "    return lowering.__wrapped__(pattern, n, n_k, block_size)\n",
        "test_groups.py::test_one_schedule_is_one_entry_however_it_is_asked_for",
    ),
    Fault(
        "scattered global tokens are looked at group by group",
        "groups.py",
        "    if len(reach) > MAX_LOOKS:\n",
        "    if len(reach) < 0:\n",
        "patterns/test_global.py::test_scattered_positions_are_not_compared_with_each_other_group_by_group",
    ),
    Fault(
        "positions behind the table of global ones are the last of them",
        "patterns/global_tokens.py",
        "torch.zeros(self.runs[-1].stop + 1, dtype",
        "torch.zeros(self.runs[-1].stop, dtype",
        "patterns/test_global.py::test_many_scattered_positions_follow_the_definition_and_are_lowered_to_it",
    ),
    Fault(
        "a run that begins before the places is no run within",
        "patterns/global_tokens.py",
        "max(bisect_right(self._starts, at.start) - 1, 0)",
        "bisect_right(self._starts, at.start)",
        "patterns/test_global.py::test_many_scattered_positions_follow_the_definition_and_are_lowered_to_it",
    ),
    Fault(
        "a painted matrix travels twice",
        "patterns/painted.py",
        'return {"painted": self.painted, "n": self.n}',
        "return self.__dict__",
        "patterns/test_painted.py::test_a_painted_matrix_is_copied_once_and_travels_once",
    ),
    Fault(
        "a learned scale is taken for its number",
        "engine.py",
        "if isinstance(scale, Tensor) and scale.requires_grad:",
        "if isinstance(scale, Tensor) and scale.is_complex():",
        "test_engine.py::test_what_does_not_fit_is_refused",
    ),
    Fault(
        "the compiler is led into sparse_attention",
        "engine.py",
        "torch.compiler.disable(_attention) if torch.compiler.is_compiling() else _attention",
        "_attention",
        "test_engine.py::test_compiled_code_stops_before_sparse_attention_and_goes_on_behind",
    ),
    Fault(
        "the last global block of bigbird straddles two",
        "patterns/named.py",
        "last = (n - 1) // block_size * block_size",
        "last = n - block_size",
        "patterns/test_named.py::test_bigbirds_last_block_is_global_even_if_it_is_short",
    ),
]
