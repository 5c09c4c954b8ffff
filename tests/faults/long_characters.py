"""Faults to plant in the longer characters model and in what its heads are read with."""

from tests.faults.fault import Fault

TEST = "experiments/test_long_characters.py::"

FAULTS = [
    Fault(
        "queries are handed out before RoPE has turned them",
        "experiments/long_characters.py",
        "return Heads(layer.positions.rotate(q, at),",
        "return Heads(q,",
        TEST + "test_heads_give_the_weights_and_outputs_of_each_layer",
    ),
    Fault(
        "every layer's heads are made of the first one's input",
        "experiments/long_characters.py",
        "for layer, x in zip(layers, inputs, strict=True)",
        "for layer, x in zip(layers, inputs[:1] * len(layers), strict=True)",
        TEST + "test_heads_give_the_weights_and_outputs_of_each_layer",
    ),
    Fault(
        "biases on scores are left out in silence",
        "experiments/long_characters.py",
        "if any(layer.positions.in_scores for layer in layers):",
        "if False:",
        TEST + "test_a_model_whose_scores_are_more_than_products_is_refused",
    ),
    Fault(
        "hooks stay in a model whose heads were read",
        "experiments/long_characters.py",
        "            hook.remove()\n",
        "            pass\n",
        TEST + "test_reading_heads_leaves_no_hook_behind",
    ),
    Fault(
        "heads are read on text of the training",
        "experiments/long_characters.py",
        "ids, _, blocks = characters.text()",
        "ids, blocks, _ = characters.text()",
        TEST + "test_what_is_read_was_held_out_from_its_first_character_on",
    ),
]
