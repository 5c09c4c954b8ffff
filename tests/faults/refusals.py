"""Faults to plant in what refuses a call, and in what a refused call leaves behind."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "a refused call of a layer stays in its cache",
        "transformer/attention.py",
        "with unchanged_if_refused(cache):",
        "with unchanged_if_refused(None):",
        "transformer/test_refused_calls.py::test_a_refused_piece_of_a_sequence_is_not_remembered",
    ),
    Fault(
        "keys are stored before the values are known to fit",
        "transformer/attention.py",
        "k, v = torch.cat([self.k, k], dim=-2), torch.cat([self.v, v], dim=-2)",
        "self.k = k = torch.cat([self.k, k], dim=-2); v = torch.cat([self.v, v], dim=-2)",
        "transformer/test_refused_calls.py::test_values_of_another_width_are_refused_before_the_keys_are_stored",
    ),
    Fault(
        "a refused call leaves the count of dropped keys wrong",
        "transformer/attention.py",
        "cache.k, cache.v, cache.n_dropped = k, v, n_dropped",
        "cache.k, cache.v = k, v",
        "transformer/test_refused_calls.py::test_a_refused_piece_of_a_sequence_is_not_remembered",
    ),
    Fault(
        "a decoder's layers do not forget together",
        "transformer/models.py",
        "[] if cache is None else cache.parts()",
        "[]",
        "transformer/test_refused_calls.py::test_a_decoder_forgets_a_piece_that_its_last_layer_refuses",
    ),
]
