"""A word twice: what is drawn, what counts, which rotations are used, and what results/ claims."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn import attention
from tinyattn.content import LSHRouter
from tinyattn.experiments import duplication, records
from tinyattn.experiments.duplication import (
    AT_ONCE,
    LONG,
    LONGER,
    LONGEST,
    SHORTER,
    DuplicationConfig,
)

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
    monkeypatch.setattr(duplication, "hash_with", lambda model, seed, *size: seeds.append(seed))
    model = duplication.build(SMALL, duplication.lsh(SMALL, 1))
    duplication.fit(model, SMALL)
    duplication.accuracy(model, SMALL)
    assert seeds == [0, 1, 2, *duplication.HASH_SEEDS]
    assert len(set(seeds)) == len(seeds)


PIECES = replace(SMALL, piece=4, piece_steps=5)


@pytest.mark.parametrize("piece", [3, 2, 14])
def test_a_piece_that_holds_no_two_words_or_is_too_long_is_refused(piece):
    with pytest.raises(ValueError, match=rf"piece must be even and in 4 … n=12, got {piece}"):
        replace(SMALL, piece=piece)


def test_a_piece_stands_anywhere_in_both_words_alike():
    rng, starts = generator(), []
    for _ in range(400):
        places = duplication.places_of_a_piece(PIECES, rng).tolist()
        first = places[0]
        assert places == [first, first + 1, first + 6, first + 7]
        starts.append(first)
    assert set(starts) == set(range(5))  # 0 … 4, the ends no rarer than the middle
    assert min(starts.count(start) for start in (0, 4)) >= starts.count(2) / 2


def test_a_piece_has_the_positions_of_its_places():
    positions = duplication.build(PIECES, None).embedding.positions
    positions.at = torch.tensor([2, 3, 8, 9])
    x = torch.zeros(1, 3, 8)
    assert torch.equal(positions.embed(x)[0], positions.table[[2, 3, 8]])
    assert torch.equal(positions.embed(x[:, :1], start=3)[0], positions.table[[9]])
    positions.at = None
    assert torch.equal(positions.embed(x)[0], positions.table[:3])


def test_pieces_are_trained_first_at_their_places_and_with_their_buckets(monkeypatch):
    model, seen = duplication.build(PIECES, duplication.lsh(PIECES, 1)), []
    router = next(part for part in model.modules() if isinstance(part, LSHRouter))

    def second_word(model, tokens, original=duplication.second_word):
        at = model.embedding.positions.at
        seen.append((tokens.shape[1], router.n_buckets, None if at is None else len(at)))
        return original(model, tokens)

    monkeypatch.setattr(duplication, "second_word", second_word)
    losses = duplication.fit(model, PIECES)
    assert len(losses) == PIECES.piece_steps + PIECES.steps
    assert seen == [(4, 2, 4)] * 5 + [(12, 6, None)] * 3


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


def stored(name, config):
    runs = records.load(duplication.NAME)["runs"]
    pieces = config.piece_steps > 0
    return next(
        run for run in runs if (run["trained"], run["n"], run["pieces"]) == (name, config.n, pieces)
    )


def trained():
    """Everything that results/ holds."""
    jobs = [
        (config, name) for config in (SHORTER, LONGER, LONG) for name in duplication.rules(config)
    ]
    return [*jobs, (AT_ONCE, "4 rounds"), (LONGEST, "4 rounds"), (LONGEST, "8 rounds")]


def test_results_were_made_with_the_configurations_of_today():
    results = records.load(duplication.NAME)
    configs = [LONGER, SHORTER, LONG, LONGEST, AT_ONCE]
    assert [results["config"], *results["others"]] == [
        json.loads(json.dumps(config.__dict__)) for config in configs
    ]
    for config, name in trained():
        run = stored(name, config)
        steps = config.piece_steps + config.steps
        assert (run["seed"], run["steps"]) == (duplication.SEED, steps)
        assert run["n_scores"] == duplication.n_scores(config, duplication.rules(config)[name])
    assert len(results["runs"]) == len(trained())
    assert {results["chance"]} == {config.chance for config in configs}


def test_all_that_learned_read_well_by_eight_rounds():
    for config in (LONGER, SHORTER):
        assert stored("dense", config)["scores"]["accuracy"] >= duplication.BAR
    for config, name in trained():
        few = ("1 round", "2 rounds") if config == LONG else ("1 round",)
        if name not in ("dense", *few) and config != AT_ONCE:
            assert stored(name, config)["scores"]["8 rounds"] >= duplication.BAR, (name, config.n)


@pytest.mark.parametrize("config", [SHORTER, LONG], ids=["whole", "pieces"])
def test_the_first_steps_of_a_stored_run_come_out_again(config):
    run = stored("2 rounds", config)
    model = duplication.build(config, duplication.lsh(config, 2))
    # the learning rate still grows in these steps, so their number does not change them
    few = {"piece_steps": 20, "steps": 1} if config.piece_steps else {"steps": 20}
    again = duplication.fit(model, replace(config, **few))[:20]
    assert again == pytest.approx(run["first_losses"], rel=0.05)
