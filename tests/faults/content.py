"""Faults to plant in routers: attention whose sparsity is decided by the tokens."""

from tests.faults.fault import Fault

ROUTER, ROUTER_TESTS = "content/router.py", "content/test_router.py::test_"

FAULTS = [
    Fault(
        "heads come back in the order of their rules",
        ROUTER,
        "            found = sparse_attention(*some, rule, key_padding=key_padding, scale=scale)\n"
        "        for at, head in enumerate(heads):\n"
        "            out[head] = found[:, at]\n",
        "            found = sparse_attention(*some, rule, key_padding=key_padding, scale=scale)\n"
        "        for at, head in enumerate(heads):\n"
        "            out[at] = found[:, at]\n",
        ROUTER_TESTS + "heads_with_one_rule_run_together_and_come_back_in_their_places",
    ),
    Fault(
        "layers share what their routers learn",
        "transformer/models.py",
        "[own_copy(pattern) for _ in range(config.n_layers)]",
        "[pattern for _ in range(config.n_layers)]",
        ROUTER_TESTS + "every_layer_of_a_model_gets_a_router_of_its_own",
    ),
    Fault(
        "one router of two heads becomes two when it is copied",
        ROUTER,
        "copy.deepcopy(r, memo) if",
        "copy.deepcopy(r) if",
        ROUTER_TESTS + "every_layer_of_a_model_gets_a_router_of_its_own",
    ),
    Fault(
        "a decoder takes a router that sees ahead",
        "transformer/models.py",
        "if isinstance(pattern, Router) and not pattern.causal:",
        "if False:",
        ROUTER_TESTS + "a_decoder_refuses_a_router_that_is_not_causal",
    ),
    Fault(
        "what a router in a tuple learned is not stored",
        "transformer/attention.py",
        "self.routers = nn.ModuleList(routers)",
        "self.routers = routers",
        ROUTER_TESTS + "what_a_router_learns_is_stored_with_the_layer",
    ),
    Fault(
        "a router hides from its cache that it needs the whole sequence",
        "transformer/attention.py",
        "if routed and (mask is not None or cache is not None):",
        "if routed and mask is not None:",
        ROUTER_TESTS + "what_has_no_meaning_with_a_router_is_refused",
    ),
    Fault(
        "the weights of routed heads forget the padding of patterns",
        ROUTER,
        "mask = mask & key_padding[:, None, None, :]",
        "pass",
        ROUTER_TESTS + "heads_with_one_rule_run_together_and_come_back_in_their_places",
    ),
    Fault(
        "a router of several heads is asked about one",
        ROUTER,
        "rule.check(sum(other is rule for other in rules), d_head)",
        "rule.check(1, d_head)",
        ROUTER_TESTS + "a_router_is_asked_whether_it_fits_the_heads_it_gets",
    ),
]
