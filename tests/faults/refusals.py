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
    Fault(
        "zero times what stands in a padded place",
        "transformer/padding.py",
        "x.masked_fill(~(real[..., None] | x.isfinite()), 0.0)",
        "x * real[..., None]",
        "transformer/test_padding.py::test_what_stands_in_a_padded_place_reaches_no_real_token_and_no_gradient",
    ),
    Fault(
        "what flows around the attention of an encoder layer is not zeroed",
        "transformer/blocks.py",
        "x = finite_padding(x, key_padding)",
        "pass",
        "transformer/test_padding.py::test_what_stands_in_a_padded_place_reaches_no_real_token_and_no_gradient",
    ),
    Fault(
        "padded values that became infinite are multiplied by a weight of zero",
        "transformer/attention.py",
        "k, v = (x.masked_fill(~key_padding[:, None, :, None], 0.0) for x in (k, v))",
        "pass",
        "transformer/test_padding.py::test_values_that_become_infinite_are_read_by_nobody",
    ),
    Fault(
        "a memory's padding is not looked at before the layer runs",
        "transformer/blocks.py",
        'check_padding(memory_padding, memory.shape[:2], x.device, name="memory_padding")',
        "pass",
        "transformer/test_padding.py::test_a_memory_padding_that_does_not_fit_is_called_by_its_name",
    ),
    Fault(
        "landmarks are met by queries and keys that are not there",
        "families/low_rank.py",
        "for x in (q, k, v))\n    means",
        "if x is v else x for x in (q, k, v))\n    means",
        "families/test_padding.py::test_gradients_of_real_tokens_do_not_depend_on_what_stands_in_padded_ones",
    ),
    Fault(
        "mixtures of another dtype meet the products as they are",
        "families/compress.py",
        "check_dtypes(q=q, mix_keys=mix_keys, mix_values=mix_values)",
        "pass",
        "families/test_dtypes.py::test_mixtures_of_another_dtype_are_refused",
    ),
    Fault(
        "a state takes whole numbers and changes its dtype",
        "families/linear.py",
        "check_dtypes(q=q, k=k, v=v)",
        "pass",
        "families/test_dtypes.py::test_a_state_refuses_tokens_of_another_dtype_and_stays_what_it_was",
    ),
    Fault(
        "one dtype is enough, float or not",
        "families/shapes.py",
        "not dtypes[0].is_floating_point or len",
        "len",
        "families/test_dtypes.py::test_a_state_refuses_tokens_of_another_dtype_and_stays_what_it_was",
    ),
]
