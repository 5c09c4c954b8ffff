"""Faults to plant in layers."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "the last chunk is dropped",
        "transformer/feedforward.py",
        "for chunk in x.split(size, dim=1)]",
        "for chunk in x.split(size, dim=1)[: x.shape[1] // size]]",
        "transformer/test_feedforward.py::test_chunks_change_neither_outputs_nor_gradients",
    ),
    Fault(
        "chunks come back in another order",
        "transformer/feedforward.py",
        "for chunk in x.split(size, dim=1)]",
        "for chunk in reversed(x.split(size, dim=1))]",
        "transformer/test_feedforward.py::test_chunks_change_neither_outputs_nor_gradients",
    ),
    Fault(
        "the number of chunks is taken for their size",
        "transformer/feedforward.py",
        "size = self.chunk_size or -(-x.shape[1] // self.n_chunks)",
        "size = self.chunk_size or self.n_chunks",
        "transformer/test_feedforward.py::test_no_inner_activation_is_longer_than_a_chunk",
    ),
    Fault(
        "the feed-forward layer is linear",
        "transformer/feedforward.py",
        "self.contract(self.activation(self.expand(x)))",
        "self.contract(self.expand(x))",
        "transformer/test_feedforward.py::test_it_expands_cuts_and_contracts_every_token",
    ),
    Fault(
        "pre- and post-norm are swapped",
        "transformer/blocks.py",
        "        if self.norm_first:",
        "        if not self.norm_first:",
        "transformer/test_blocks.py::test_the_norm_stands_where_the_order_puts_it",
    ),
    Fault(
        "post-norm forgets the residual",
        "transformer/blocks.py",
        "self.norm(x + self.dropout(sublayer(x)))",
        "self.norm(self.dropout(sublayer(x)))",
        "transformer/test_blocks.py::test_the_norm_stands_where_the_order_puts_it",
    ),
    Fault(
        "pre-norm adds to the normalised input",
        "transformer/blocks.py",
        "return x + self.dropout(sublayer(self.norm(x)))",
        "return self.norm(x) + self.dropout(sublayer(self.norm(x)))",
        "transformer/test_blocks.py::test_pre_norm_around_nothing_is_the_identity",
    ),
    Fault(
        "dropout falls on the residual path as well",
        "transformer/blocks.py",
        "return x + self.dropout(sublayer(self.norm(x)))",
        "return self.dropout(x + sublayer(self.norm(x)))",
        "transformer/test_blocks.py::test_dropout_falls_on_what_the_sublayer_says_and_on_nothing_else",
    ),
    Fault(
        "epsilon keeps torch's default",
        "transformer/blocks.py",
        "self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)",
        "self.norm = nn.LayerNorm(config.d_model)",
        "transformer/test_blocks.py::test_epsilon_stands_inside_the_root",
    ),
    Fault(
        "both attentions of a layer share one cache",
        "transformer/blocks.py",
        "(cache.own, cache.memory)",
        "(cache.own, cache.own)",
        "transformer/test_blocks.py::test_layer_caches_hold_own_keys_and_those_of_the_memory_apart",
    ),
    Fault(
        "the padding of the memory is lost",
        "transformer/blocks.py",
        "key_padding=memory_padding, cache=kept",
        "cache=kept",
        "transformer/test_blocks.py::test_a_decoder_layer_reads_its_past_and_the_whole_memory",
    ),
    Fault(
        "an encoder layer ignores padding",
        "transformer/blocks.py",
        "self.attention(x, key_padding=key_padding)",
        "self.attention(x)",
        "transformer/test_models.py::test_padding_changes_nothing_for_real_tokens[Sinusoidal-True]",
    ),
]
