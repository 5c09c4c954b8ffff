"""A word twice: what is drawn, what counts, which rotations are used, and what results/ claims."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn import attention
from tinyattn.content import LSHRouter
from tinyattn.experiments import duplication, records
from tinyattn.experiments.duplication import LONGER, SHORTER, DuplicationConfig

from ..close import assert_same

SMALL = DuplicationConfig(n=12, vocab_size=5, chunk_size=4, d_model=8, batch_size=3, steps=3)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_sequence_is_a_separator_and_a_word_twice():
    tokens = duplication.draw(SMALL, 500, generator())
    assert tokens.shape == (500, 12)
    assert (tokens[:, [0, 6]] == duplication.SEPARATOR).all()
    assert torch.equal(tokens[:, :6], tokens[:, 6:])
    letters, counts = tokens[:, 1:6].unique(return_counts=True)
    assert letters.tolist() == [1, 2, 3, 4]
    assert counts / 2500 == pytest.approx([0.25] * 4, abs=0.03)


@pytest.mark.parametrize("n", [3, 2, 129])
def test_a_length_that_holds_no_two_words_is_refused(n):
    with pytest.raises(ValueError, match=f"n must be even and 4 or more, got {n}"):
        DuplicationConfig(n=n)


def test_the_second_word_is_asked_for_one_token_ahead():
    class Echo(torch.nn.Module):
        """Logits that name the position of each token."""

        def forward(self, tokens):
            return torch.arange(tokens.shape[1]).float()[None, :, None].expand(*tokens.shape, 1)

    tokens = duplication.draw(SMALL, 2, generator())
    logits, told = duplication.second_word(Echo(), tokens)
    assert logits[0, :, 0].tolist() == [6, 7, 8, 9, 10]
    assert torch.equal(told, tokens[:, 7:])


def test_shared_attention_is_what_lsh_becomes_with_one_bucket():
    q, k, v = torch.randn(3, 2, 1, 9, 4, dtype=torch.float64, generator=generator())
    one_bucket = LSHRouter(1, causal=True)
    shared = duplication.SharedQK()
    assert_same(shared.attend(q, k, v), one_bucket.attend(q, k, v))
    keys = q / q.norm(dim=-1, keepdim=True)
    last = attention(q[:, :, -1:], keys[:, :, :-1], v[:, :, :-1])
    assert_same(shared.attend(q, k, v)[:, :, -1:], last)
    with pytest.raises(ValueError, match="key_padding must be None"):
        shared.weights(q, k, key_padding=torch.ones(2, 9, dtype=torch.bool))


def test_every_rule_starts_with_the_same_parameters():
    models = [duplication.build(SMALL, rule) for rule in duplication.rules(SMALL).values()]
    for model in models[1:]:
        for mine, other in zip(model.parameters(), models[0].parameters(), strict=True):
            assert torch.equal(mine, other)
    assert models[0].embedding.positions.table.std().item() == pytest.approx(1, abs=0.2)


def test_reading_by_another_rule_keeps_the_parameters():
    model = duplication.build(SMALL, duplication.lsh(SMALL, 1), seed=3)
    other = duplication.reading_by(model, SMALL, duplication.lsh(SMALL, 4))
    router = next(part for part in other.modules() if isinstance(part, LSHRouter))
    assert router.n_hashes == 4
    assert torch.equal(other.to_logits.weight, model.to_logits.weight)


def test_each_step_has_rotations_of_its_own_and_a_test_has_others(monkeypatch):
    seeds = []
    monkeypatch.setattr(duplication, "hash_with", lambda model, seed: seeds.append(seed))
    model = duplication.build(SMALL, duplication.lsh(SMALL, 1))
    duplication.fit(model, SMALL)
    duplication.accuracy(model, SMALL)
    assert seeds == [0, 1, 2, *duplication.HASH_SEEDS]
    assert len(set(seeds)) == len(seeds)


def test_rotations_of_a_seed_reach_the_layer():
    model = duplication.build(SMALL, duplication.lsh(SMALL, 1))
    duplication.hash_with(model, 17)
    assert [part.seed for part in model.modules() if isinstance(part, LSHRouter)] == [17]


def test_accuracy_counts_the_second_word_over_all_seeds(monkeypatch):
    right = iter([True, True, False, True])

    def second_word(model, tokens):
        told = tokens[:, 7:]
        said = told if next(right) else told % 4 + 1
        return torch.nn.functional.one_hot(said, 5).double(), told

    monkeypatch.setattr(duplication, "second_word", second_word)
    assert duplication.accuracy(duplication.build(SMALL, None), SMALL) == 0.75


def test_the_cost_is_counted_from_the_chunks():
    for config in (LONGER, SHORTER):
        costs = {
            name: duplication.n_scores(config, r) for name, r in duplication.rules(config).items()
        }
        n_chunks = config.n // config.chunk_size
        one = n_chunks * config.chunk_size * (2 * config.chunk_size)
        rounds = {"1 round": one, "2 rounds": 2 * one, "4 rounds": 4 * one, "8 rounds": 8 * one}
        assert costs == {"dense": config.n**2, "shared": config.n**2, **rounds}


# ------------------------------------------------------------------------------ results/


def stored(name, n):
    runs = records.load(duplication.NAME)["runs"]
    return next(run for run in runs if (run["trained"], run["n"]) == (name, n))


def test_results_were_made_with_the_configurations_of_today():
    results = records.load(duplication.NAME)
    for key, config in (("config", LONGER), ("shorter", SHORTER)):
        assert results[key] == json.loads(json.dumps(config.__dict__))
        for name, rule in duplication.rules(config).items():
            run = stored(name, config.n)
            assert (run["seed"], run["steps"]) == (duplication.SEED, config.steps)
            assert run["n_scores"] == duplication.n_scores(config, rule)
    assert len(results["runs"]) == 2 * len(duplication.rules(LONGER))
    assert results["chance"] == LONGER.chance == SHORTER.chance


def test_all_that_learned_with_two_rounds_or_more_read_well_by_eight():
    for config in (LONGER, SHORTER):
        assert stored("dense", config.n)["scores"]["accuracy"] >= duplication.BAR
        for name in ("shared", "2 rounds", "4 rounds", "8 rounds"):
            assert stored(name, config.n)["scores"]["8 rounds"] >= duplication.BAR, name


def test_the_first_steps_of_a_stored_run_come_out_again():
    run = stored("2 rounds", SHORTER.n)
    model = duplication.build(SHORTER, duplication.lsh(SHORTER, 2))
    # the learning rate still grows in these steps, so their number does not change them
    again = duplication.fit(model, replace(SHORTER, steps=20))
    assert again == pytest.approx(run["first_losses"], rel=0.05)
