"""Faults to plant in attention's other families, and in the layers that attention is compared with."""

from tests.faults.fault import Fault

LAYERS, OF_LAYERS = "families/layers.py", "families/test_layers.py::test_"

FAULTS = [
    Fault(
        "a causal convolution sees the future",
        LAYERS,
        "(beyond, 0) if causal",
        "(0, beyond) if causal",
        OF_LAYERS + "a_convolution_is_its_sum_over_offsets",
    ),
    Fault(
        "a convolution pads as if it were not dilated",
        LAYERS,
        "beyond = (width - 1) * dilation",
        "beyond = width - 1",
        OF_LAYERS + "a_convolution_is_its_sum_over_offsets",
    ),
    Fault(
        "an even kernel is off its token by half a step",
        LAYERS,
        "if width % 2 == 0 and not causal:",
        "if False:",
        OF_LAYERS + "what_does_not_fit_is_refused",
    ),
    Fault(
        "the state forgets the past",
        LAYERS,
        "(token + self.from_state(state)).tanh()",
        "(token + self.from_state(token)).tanh()",
        OF_LAYERS + "a_recurrence_is_that_of_pytorch",
    ),
    Fault(
        "the state is not bounded",
        LAYERS,
        "self.from_state(state)).tanh()",
        "self.from_state(state))",
        OF_LAYERS + "a_recurrence_is_that_of_pytorch",
    ),
    Fault(
        "a fully connected layer mixes up tokens and channels",
        LAYERS,
        "x.flatten(1)).view",
        "x.transpose(1, 2).flatten(1)).view",
        OF_LAYERS + "a_fully_connected_layer_sees_every_number_of_every_token",
    ),
]
