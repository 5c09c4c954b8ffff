"""Values stated early and asked for later: what is drawn, what counts, and what results/ claims."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn.experiments import records, retrieval
from tinyattn.experiments.retrieval import NOT_ASKED, RetrievalConfig
from tinyattn.patterns import Causal, Full, Window

CONFIG = RetrievalConfig()
NAMES = list(retrieval.patterns(CONFIG))


def drawn(config=CONFIG, b=40, seed=0):
    return retrieval.draw(config, b, torch.Generator().manual_seed(seed))


def statements(config, row):
    """Place and value of each name, read from the tokens of one sequence."""
    out = {}
    for place, token in enumerate(row.tolist()):
        if token > config.n_names:
            name, value = divmod(token - 1 - config.n_names, config.n_values)
            assert name not in out
            out[name] = place, value
    return out


def test_each_name_is_stated_once_in_the_first_half_behind_the_start():
    sequences = drawn()
    assert (sequences.tokens[:, 0] == retrieval.START).all()
    assert sequences.tokens.max() < CONFIG.vocab_size
    places = set()
    for row in sequences.tokens:
        stated = statements(CONFIG, row)
        assert set(stated) == set(range(CONFIG.n_names))
        places |= {place for place, _ in stated.values()}
    assert min(places) >= 1
    assert CONFIG.n // 2 - 8 < max(places) < CONFIG.n // 2


def test_a_question_has_the_stated_value_as_its_answer_and_counts_only_behind_it():
    sequences = drawn()
    for tokens, answers, stated_at in zip(*sequences, strict=True):
        stated = statements(CONFIG, tokens)
        for place in range(CONFIG.n):
            token, answer = int(tokens[place]), int(answers[place])
            if 1 <= token <= CONFIG.n_names and stated[token - 1][0] < place:
                assert (int(stated_at[place]), answer) == stated[token - 1]
            else:
                assert answer == NOT_ASKED


def test_drawing_leaves_global_randomness_alone():
    before = torch.get_rng_state()
    drawn()
    assert torch.equal(torch.get_rng_state(), before)


def test_values_and_names_are_drawn_evenly():
    answers = drawn(b=500).answers
    shares = torch.bincount(answers[answers != NOT_ASKED]) / (answers != NOT_ASKED).sum()
    assert torch.allclose(shares, torch.full((CONFIG.n_values,), 1 / 8), atol=0.02)


def test_patterns_but_the_full_one_and_the_star_have_about_seventeen_keys_a_row():
    for name, pattern in retrieval.patterns(CONFIG).items():
        keys = retrieval.edges(pattern, CONFIG.n) / CONFIG.n
        expected = {"full": 128, "star": 5}.get(name, 16.5)
        assert keys == pytest.approx(expected, rel=0.07), name


def test_heads_are_joined_and_their_edges_averaged():
    heads = (Window(0), Causal())
    assert torch.equal(retrieval.joined(heads, 6), Causal().mask(6))
    assert retrieval.edges(heads, 6) == (6 + 21) / 2


def test_the_longest_path_looks_back_only():
    assert retrieval.longest_path(Window(2), 12) == 6
    assert retrieval.longest_path(Window(2) & Causal(), 12) == 6
    assert retrieval.longest_path(Window(0), 12) is None


def test_the_ceiling_of_a_window_is_what_it_reaches_and_a_guess_beyond():
    config = replace(CONFIG, n_layers=2)
    sequences = drawn()
    total = count = 0
    for answers, stated_at in zip(sequences.answers, sequences.stated_at, strict=True):
        for place in range(config.n):
            if answers[place] != NOT_ASKED:
                count += 1
                total += 1 if place - int(stated_at[place]) <= 6 else 1 / 8
    assert retrieval.ceiling(config, Window(3), sequences) == pytest.approx(total / count)
    assert retrieval.ceiling(config, Full(), sequences) == 1


def test_shares_by_distance_match_loops():
    sequences = drawn(b=5)
    right = sequences.tokens % 2 == 0
    bins = [[] for _ in range(retrieval.N_BINS)]
    for answers, stated_at, hits in zip(sequences.answers, sequences.stated_at, right, strict=True):
        for place in range(CONFIG.n):
            if answers[place] != NOT_ASKED:
                distance = place - int(stated_at[place])
                bins[distance // (CONFIG.n // retrieval.N_BINS)].append(bool(hits[place]))
    by_hand = [sum(hits) / max(1, len(hits)) for hits in bins]
    assert retrieval.by_distance(right, sequences) == pytest.approx(by_hand)


def test_accuracy_counts_only_what_is_asked(monkeypatch):
    sequences = drawn(b=5)
    model, perfect = retrieval.build(CONFIG, Full(), 0), sequences.answers.clamp(min=0)
    monkeypatch.setattr(retrieval, "answer", lambda model, tokens: perfect)
    assert retrieval.accuracy(model, sequences) == 1
    monkeypatch.setattr(retrieval, "answer", lambda model, tokens: perfect + 1)
    assert retrieval.accuracy(model, sequences) == 0


def test_every_pattern_starts_with_the_same_parameters():
    full, window = (retrieval.build(CONFIG, pattern, seed=0) for pattern in (Full(), Window(1)))
    for mine, other in zip(full.parameters(), window.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_an_answer_depends_on_a_statement_only_along_paths():
    config = replace(CONFIG, n=24, n_names=1)
    model = retrieval.build(config, Window(2), seed=0).double().eval()
    tokens = torch.ones(1, 24, dtype=torch.long)
    changed = tokens.clone()
    tokens[0, 3], changed[0, 3] = 2, 5
    differs = (model(tokens) != model(changed)).any(dim=-1)[0]
    assert differs.nonzero().flatten().tolist() == list(range(8))


# ------------------------------------------------------------------------------ results/


def test_results_were_made_with_the_configurations_and_patterns_of_today():
    stored = records.load("retrieval")
    for key, config in (("config", CONFIG), ("one", retrieval.ONE_NAME)):
        assert stored[key] == json.loads(json.dumps(config.__dict__))
    assert stored["patterns"] == retrieval.described(CONFIG)["patterns"]
    runs = {(run["pattern"], run["n_names"], run["seed"]) for run in stored["runs"]}
    assert runs == {(p, m, s) for p in NAMES for m in (1, CONFIG.n_names) for s in retrieval.SEEDS}
    for run in stored["runs"]:
        config = retrieval.ONE_NAME if run["n_names"] == 1 else CONFIG
        assert run["steps"] == config.steps


def test_with_one_name_every_stored_run_does_what_its_paths_allow():
    for run in records.load("retrieval")["runs"]:
        scores = run["scores"]
        assert scores["accuracy"] <= scores["ceiling"] + 0.02  # luck of guessing
        if run["n_names"] == 1:
            assert scores["accuracy"] >= scores["ceiling"] - retrieval.BAR, run["pattern"]


@pytest.mark.parametrize("name", NAMES)
def test_stored_ceilings_come_out_again(name):
    stored = records.load("retrieval")["runs"]
    for config in (CONFIG, retrieval.ONE_NAME):
        pattern = retrieval.patterns(config)[name]
        ceiling = retrieval.ceiling(config, pattern, retrieval.held_out(config))
        for run in stored:
            if (run["pattern"], run["n_names"]) == (name, config.n_names):
                assert run["scores"]["ceiling"] == pytest.approx(ceiling, abs=1e-4)


def test_the_first_steps_of_a_stored_run_come_out_again():
    stored = records.load("retrieval")["runs"]
    run = next(r for r in stored if (r["pattern"], r["n_names"]) == ("strided", 1) and r["seed"])
    model = retrieval.build(retrieval.ONE_NAME, retrieval.patterns(CONFIG)["strided"], run["seed"])
    # the learning rate still grows in these steps, so their number does not change them
    again = retrieval.fit(model, replace(retrieval.ONE_NAME, steps=20), run["seed"])
    assert again == pytest.approx(run["first_losses"], rel=0.05)
