"""A word far away: the experiment's parts, and what results/ claims, run again."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn.experiments import recall, records

SMALL = replace(recall.RecallConfig(), d_model=8, n_heads=2)


def test_half_of_the_questions_are_about_words_that_stand_there():
    ids, _ = recall.words(SMALL.vocab_size)
    tokens, answers = recall.examples(ids, 400, SMALL, torch.Generator().manual_seed(0))
    asked, far = tokens[:, 0] - SMALL.vocab_size, tokens[:, -SMALL.n_far :]
    assert tokens.shape[1] == SMALL.n
    assert torch.equal((far == asked[:, None]).any(dim=1).long(), answers)
    assert answers.double().mean() == 0.5
    assert (asked > recall.UNKNOWN).all()
    assert (tokens[:, 1:] < SMALL.vocab_size).all()


def test_the_word_alone_says_little():
    assert recall.word_alone(recall.RecallConfig()) < 0.6


def test_the_window_has_at_least_as_many_pairs_as_the_tree():
    config = recall.RecallConfig()
    pairs = config.tree.edges(2 * config.n - 1)
    assert config.window.edges(config.n) >= pairs
    assert config.window.edges(config.n) < 1.2 * pairs


@pytest.mark.parametrize("name", recall.MODELS)
def test_the_first_steps_of_a_stored_recall_model_come_out_again(name):
    config = recall.RecallConfig()
    stored = next(r for r in records.load("recall")["runs"] if (r["model"], r["seed"]) == (name, 1))
    again = recall.fit(recall.build(name, config, 1), replace(config, steps=20), 1)
    assert again == pytest.approx(stored["first_losses"], rel=0.05)


def test_results_were_made_with_the_configuration_of_today():
    config, stored = recall.RecallConfig(), records.load("recall")
    assert stored["config"] == json.loads(json.dumps(config.__dict__))
    assert {run["model"] for run in stored["runs"]} == set(recall.MODELS)
    assert all(run["steps"] == config.steps for run in stored["runs"])


def test_a_model_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="there is tree, window, got 'bush'"):
        recall.build("bush", SMALL, 0)
