"""Faults to plant in training and experiments."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "gradients add up from step to step",
        "training.py",
        "            optimizer.zero_grad()\n",
        "",
        "test_training.py::test_it_learns_what_least_squares_would",
    ),
    Fault(
        "batches are drawn from the global random state",
        "training.py",
        "    with seeded(seed), Progress",
        "    with Progress",
        "test_training.py::test_training_leaves_the_global_random_state_alone",
    ),
    Fault(
        "gradients of any length are followed",
        "training.py",
        "nn.utils.clip_grad_norm_(parameters, max_norm)",
        "nn.utils.clip_grad_norm_(parameters, 1e9)",
        "test_training.py::test_long_gradients_are_shortened",
    ),
    Fault(
        "biases and norms decay like matrices",
        "training.py",
        '{"params": vectors, "weight_decay": 0.0}',
        '{"params": vectors}',
        "test_training.py::test_only_matrices_decay",
    ),
    Fault(
        "a model that was evaluated is trained without dropout",
        "training.py",
        "        model.train()\n",
        "",
        "test_training.py::test_a_model_is_trained_in_training_mode",
    ),
    Fault(
        "the first step has no length",
        "training.py",
        "highest * (step + 1) / warmup",
        "highest * step / warmup",
        "test_training.py::test_the_rate_rises_falls_and_never_starts_at_zero",
    ),
    Fault(
        "the bar stays when the work is done",
        "training.py",
        "            self._screen.clear()\n",
        "            pass\n",
        "test_training.py::test_in_a_terminal_the_bar_moves_and_is_erased",
    ),
    Fault(
        "padding of a written date counts as real",
        "experiments/dates.py",
        "tokens != WRITTEN.encode(PAD)",
        "tokens != -1",
        "experiments/test_experiments.py::test_a_date_is_padded_behind_and_its_padding_marked",
    ),
    Fault(
        "the days of the test are days of the training",
        "experiments/dates.py",
        "_, unseen = split_days()",
        "unseen, _ = split_days()",
        "experiments/test_experiments.py::test_tested_days_are_never_trained_on",
    ),
    Fault(
        "some held-out characters are never predicted",
        "experiments/characters.py",
        "len(block) - CONTEXT, n + 1 - CONTEXT)",
        "len(block) - CONTEXT, n + 1)",
        "experiments/test_experiments.py::"
        "test_every_held_out_character_behind_the_context_is_predicted_once",
    ),
    Fault(
        "nats are called bits",
        "experiments/characters.py",
        "nats / count / math.log(2)",
        "nats / count",
        "experiments/test_experiments.py::"
        "test_a_model_that_knows_nothing_needs_log2_of_the_alphabet",
    ),
    Fault(
        "what learns outside the gradient is called before the step",
        "training.py",
        "            optimizer.step()\n            if after_step is not None:\n"
        "                after_step()\n",
        "            if after_step is not None:\n                after_step()\n"
        "            optimizer.step()\n",
        "test_training.py::test_what_learns_outside_the_gradient_is_called_after_each_step",
    ),
]
