"""The counting baseline against NLTK's Witten-Bell model."""

import pytest
import torch

from tinyattn.data import Characters
from tinyattn.ngram import WittenBell

lm = pytest.importorskip("nltk.lm", reason="nltk is in requirements-oracles.txt")
util = pytest.importorskip("nltk.util")


@pytest.mark.parametrize("order", [2, 3, 5])
def test_probabilities_equal_those_of_nltk(order):
    codec = Characters("abcdef")
    ids = torch.randint(4, (400,), generator=torch.Generator().manual_seed(order))
    train, text = codec.decode(ids[:300]), codec.decode(ids[300:])
    ours = WittenBell(order, vocab_size=len(codec)).fit(ids[:300])
    theirs = lm.WittenBellInterpolated(order)
    theirs.fit([util.everygrams(train, max_len=order)], vocabulary_text=codec.alphabet)

    # NLTK stops at the plain frequency of a character, which is 0 for one that was never seen.
    # Ours goes one step further down, to the uniform distribution. From there on they agree.
    kinds = len(set(train))
    theirs.estimator.unigram_score = lambda word: (
        (train.count(word) + kinds / 6) / (len(train) + kinds)
    )
    probabilities = ours.probabilities(ids[300:])
    for at, character in enumerate(text):
        context = tuple(text[max(0, at - order + 1) : at])
        assert probabilities[at] == pytest.approx(theirs.score(character, context), rel=1e-12)
    unseen = ours.next_probabilities(ids)[codec.encode("f")].item()
    assert unseen == pytest.approx(theirs.score("f", tuple(text[1 - order :])), rel=1e-12)
