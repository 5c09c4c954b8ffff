"""Generation: the same tokens with and without a cache, chance only from a given generator."""

import pytest
import torch
from torch import nn

from tinyattn.transformer import Decoder, Encoder, Learned, Seq2Seq, generate, next_token
from tinyattn.transformer.generate import evaluating

from .tiny import SCHEMES, randn, scrambled, seeded, small, some_tokens


def by_hand(it, prompt, n_new, **memory):
    """One whole forward pass for each new token, the likeliest taken."""
    tokens = prompt
    for _ in range(n_new):
        last = it(tokens, **memory)[:, -1]
        tokens = torch.cat([tokens, last.argmax(-1)[:, None]], dim=1)
    return tokens


# ------------------------------------------------------------------------------------ greedy


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("positions", SCHEMES)
def test_with_and_without_cache_the_likeliest_tokens_follow(positions, norm_first):
    it = scrambled(Decoder(small(positions=positions, norm_first=norm_first)))
    prompt = some_tokens(3, 4)
    expected = by_hand(it, prompt, 7)
    assert torch.equal(generate(it, prompt, 7), expected)
    assert torch.equal(generate(it, prompt, 7, use_cache=False), expected)
    assert torch.equal(expected[:, :4], prompt)


def test_a_memory_and_its_padding_reach_every_step():
    it = scrambled(Decoder(small(), cross_attention=True))
    memory, real = randn(2, 4, 8), torch.tensor([[True] * 4, [True, False, True, False]])
    prompt, both = some_tokens(2, 1), {"memory": memory, "memory_padding": real}
    expected = by_hand(it, prompt, 6, **both)
    for use_cache in (True, False):
        assert torch.equal(generate(it, prompt, 6, use_cache=use_cache, **both), expected)
    assert not torch.equal(generate(it, prompt, 6, memory=memory), expected)


def test_sequences_of_a_batch_are_continued_alike_alone():
    it, prompt = scrambled(Decoder(small())), some_tokens(3, 2)
    together = generate(it, prompt, 5)
    for b in range(3):
        assert torch.equal(generate(it, prompt[b : b + 1], 5), together[b : b + 1])


def test_no_new_token_is_the_prompt_and_no_sequence_is_none():
    it, prompt = Decoder(small()), some_tokens(2, 3)
    assert torch.equal(generate(it, prompt, 0), prompt)
    assert generate(it, prompt[:0], 2).shape == (0, 5)


def test_the_prompt_is_left_as_it_was():
    it, prompt = Decoder(small()), some_tokens(2, 3)
    copy = prompt.clone()
    generate(it, prompt, 3, stop_token=0)
    assert torch.equal(prompt, copy)


def test_a_step_with_cache_sees_one_token_and_without_it_all():
    it, prompt = Decoder(small()), some_tokens(1, 3)
    for use_cache, expected in ((True, [3, 1, 1, 1]), (False, [3, 4, 5, 6])):
        seen = []
        hook = it.embedding.register_forward_hook(lambda m, args, out: seen.append(out.shape[1]))  # noqa: B023
        generate(it, prompt, 4, use_cache=use_cache)
        hook.remove()
        assert seen == expected


# ------------------------------------------------------------------------------------- stops


class Script(nn.Module):
    """Stands in for a decoder: says the next token of a script, whatever it hears."""

    def __init__(self, script):
        super().__init__()
        self.script, self.config = script, small()

    def new_cache(self):
        raise AssertionError("the script needs no cache")

    def forward(self, tokens, memory, *, memory_padding, cache):
        step = tokens.shape[1] - 1
        logits = torch.full((*tokens.shape, 11), -5.0)
        return logits.scatter(-1, self.script[:, step].view(-1, 1, 1).expand(*tokens.shape, 1), 5.0)


def test_after_a_stop_token_a_sequence_is_filled_up_with_it():
    it = Script(torch.tensor([[4, 0, 5, 6], [1, 2, 3, 4], [0, 9, 9, 9]]))
    start = torch.tensor([[7], [7], [7]])
    out = generate(it, start, 4, use_cache=False, stop_token=0)
    assert out.tolist() == [[7, 4, 0, 0, 0], [7, 1, 2, 3, 4], [7, 0, 0, 0, 0]]
    out = generate(it, start, 4, use_cache=False)
    assert out.tolist() == [[7, 4, 0, 5, 6], [7, 1, 2, 3, 4], [7, 0, 9, 9, 9]]


def test_a_stop_token_in_the_prompt_does_not_stop():
    it = Script(torch.tensor([[4, 0, 5, 6]]))
    out = generate(it, torch.tensor([[0]]), 4, use_cache=False, stop_token=0)
    assert out.tolist() == [[0, 4, 0, 0, 0]]


# ---------------------------------------------------------------------------------- sampling


LOGITS = torch.tensor([0.0, 2.0, -torch.inf, 1.0, 3.0])


def shares(temperature, top_k=None, n=20_000):
    drawn = next_token(LOGITS.expand(n, 5), temperature, top_k, seeded(0))
    return torch.bincount(drawn, minlength=5) / n


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_tokens_are_drawn_from_the_softmax_at_the_temperature(temperature):
    expected = (LOGITS / temperature).softmax(-1)
    assert (shares(temperature) - expected).abs().max() < 0.015


@pytest.mark.parametrize("top_k", [1, 2, 3, 5])
def test_top_k_draws_among_the_likeliest_in_their_proportions(top_k):
    kept = LOGITS.topk(top_k).indices
    expected = torch.zeros(5)
    expected[kept] = LOGITS[kept].softmax(-1)
    ours = shares(1.0, top_k)
    assert (ours - expected).abs().max() < 0.015
    assert not ours[expected == 0].any()


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-300])
def test_a_tiny_temperature_is_greedy_and_no_overflow(temperature):
    logits = torch.tensor([[1.0, 900.0, 899.0], [5.0, -3.0, 4.0]])
    assert next_token(logits, temperature, generator=seeded(0)).tolist() == [1, 0]


def test_a_temperature_of_zero_takes_the_likeliest():
    assert next_token(torch.stack([LOGITS, -LOGITS.nan_to_num()])).tolist() == [4, 2]


def test_equal_seeds_draw_equal_tokens_and_others_do_not():
    it, prompt = Decoder(small()), some_tokens(4, 2)

    def sample(seed, **options):
        return generate(it, prompt, 8, temperature=1.0, generator=seeded(seed), **options)

    assert torch.equal(sample(0), sample(0))
    assert torch.equal(sample(0), sample(0, use_cache=False))
    assert not torch.equal(sample(0), sample(1))
    assert torch.equal(sample(3, top_k=1), generate(it, prompt, 8))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_generation_leaves_the_random_state_alone(temperature):
    it = Decoder(small(dropout=0.3))
    before = torch.get_rng_state()
    generate(it, some_tokens(2, 2), 4, temperature=temperature, generator=seeded(0))
    assert torch.equal(torch.get_rng_state(), before)


# ------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize("training", [False, True])
def test_dropout_sleeps_while_generating_and_modes_come_back(training):
    it = scrambled(Decoder(small(dropout=0.5))).train(training)
    it.layers[0].eval()  # a part that was frozen stays frozen
    modes = [part.training for part in it.modules()]
    prompt = some_tokens(1, 3)
    assert torch.equal(generate(it, prompt, 6), by_hand(it.eval(), prompt, 6))
    it.train(training)
    it.layers[0].eval()
    generate(it, prompt, 2)
    assert [part.training for part in it.modules()] == modes


def test_modes_come_back_after_an_error():
    it = Decoder(small(positions=Learned, max_len=4)).train()
    with pytest.raises(ValueError, match="end at max_len=4"):
        generate(it, some_tokens(1, 3), 5)
    assert it.training
    assert all(part.training for part in it.modules())
    assert torch.is_grad_enabled()


def test_no_gradient_is_kept_inside():
    it = Decoder(small())
    with evaluating(it):
        assert not it(some_tokens(1, 2)).requires_grad
        assert not it.training
    assert it(some_tokens(1, 2)).requires_grad


# --------------------------------------------------------------------------------- translate


def test_translate_starts_stops_and_leaves_the_start_out():
    it = scrambled(Seq2Seq(small(target_vocab_size=7)))
    source = some_tokens(3, 5)
    real = torch.arange(5) < torch.tensor([[5], [3], [1]])
    out = it.translate(source, start_token=6, stop_token=2, n_new=8, source_padding=real)
    memory = it.encoder(source, key_padding=real)
    start = torch.full((3, 1), 6)
    expected = generate(
        it.decoder, start, 8, stop_token=2, memory=memory.detach(), memory_padding=real
    )
    assert torch.equal(out, expected[:, 1:])
    free = by_hand(it.decoder, start, 8, memory=memory, memory_padding=real)[:, 1:]
    for ours, wild in zip(out, free, strict=True):
        stop = (wild == 2).nonzero().flatten()
        until = int(stop[0]) + 1 if len(stop) else 8
        assert torch.equal(ours[:until], wild[:until])
        assert (ours[until:] == 2).all()


def test_translate_leaves_modes_and_random_state_alone():
    it = Seq2Seq(small(dropout=0.5)).train()
    it.encoder.eval()
    before = torch.get_rng_state()
    out = it.translate(some_tokens(2, 3), start_token=0, stop_token=1, n_new=4)
    assert out.shape == (2, 4)
    assert torch.equal(torch.get_rng_state(), before)
    assert (it.training, it.encoder.training, it.decoder.training) == (True, False, True)
    assert torch.equal(out, it.translate(some_tokens(2, 3), start_token=0, stop_token=1, n_new=4))


# ---------------------------------------------------------------------------------- refusals


PROMPT = torch.zeros(2, 3, dtype=torch.long)
REFUSED = {
    "an empty prompt": ((PROMPT[:, :0], 2), {}, ValueError, r"one token to start from, got \(2, 0\)"),
    "a flat prompt": ((PROMPT[0], 2), {}, ValueError, r"prompt must be \(b, n\) .*, got \(3,\)"),
    "vectors": ((PROMPT.float(), 2), {}, TypeError, "prompt must hold integers, .* got torch.float32"),
    "answers": ((PROMPT.bool(), 2), {}, TypeError, "prompt must hold integers, .* got torch.bool"),
    "strange tokens": ((PROMPT + 11, 2), {}, ValueError, r"0 … 10 \(vocab_size=11\), got 11 … 11"),
    "fewer than none": ((PROMPT, -1), {}, ValueError, "n_new must be 0 or more, got -1"),
    "a yes": ((PROMPT, True), {}, TypeError, "n_new must be a whole number, got True"),
    "half a token": ((PROMPT, 2.5), {}, TypeError, r"n_new must be a whole number, got 2\.5"),
    "cold": ((PROMPT, 2), {"temperature": -0.5}, ValueError, r"temperature must be 0 or more and finite, got -0\.5"),
    "nan": ((PROMPT, 2), {"temperature": float("nan")}, ValueError, "and finite, got nan"),
    "too hot": ((PROMPT, 2), {"temperature": float("inf")}, ValueError, "and finite, got inf"),
    "chance from nowhere": (
        (PROMPT, 2), {"temperature": 1.0}, ValueError,
        r"sampling needs a generator, such as torch.Generator\(\).manual_seed\(0\); temperature=0",
    ),
    "none of the likeliest": ((PROMPT, 2), {"top_k": 0}, ValueError, "top_k must be in 1 … vocab_size=11, got 0"),
    "more than there are": ((PROMPT, 2), {"top_k": 12}, ValueError, "top_k must be in 1 … vocab_size=11, got 12"),
    "half of the likeliest": ((PROMPT, 2), {"top_k": 1.5}, TypeError, r"top_k must be a whole number, got 1\.5"),
    "a strange stop": ((PROMPT, 2), {"stop_token": 11}, ValueError, r"stop_token must be in 0 … 10 \(vocab_size=11\), got 11"),
    "a negative stop": ((PROMPT, 2), {"stop_token": -1}, ValueError, "stop_token must be in 0 … 10 .*, got -1"),
    "a broken stop": ((PROMPT, 2), {"stop_token": 1.0}, TypeError, r"stop_token must be a whole number, got 1\.0"),
    "a memory for nobody": ((PROMPT, 2), {"memory": torch.zeros(2, 3, 8)}, ValueError, "takes no memory"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_continuation_that_cannot_be_is_refused(args, options, error, sentence):
    it = Decoder(small()).train()
    with pytest.raises(error, match=sentence):
        generate(it, *args, **options)
    assert it.training


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("build", [Encoder, Seq2Seq])
def test_only_a_decoder_continues(build):
    with pytest.raises(TypeError, match=f"what a Decoder wrote, got a {build.__name__}"):
        generate(build(small()), PROMPT, 2)


@pytest.mark.usefixtures("refusals")
def test_a_single_step_refuses_like_generation():
    with pytest.raises(ValueError, match="sampling needs a generator"):
        next_token(LOGITS[None], 1.0)
    with pytest.raises(ValueError, match="top_k must be in 1 … vocab_size=5, got 6"):
        next_token(LOGITS[None], 1.0, 6, seeded(0))


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"start_token": 7}, ValueError, r"0 … 6 \(vocab_size=7\), got 7 … 7"),
        ({"stop_token": 7}, ValueError, r"stop_token must be in 0 … 6 \(vocab_size=7\), got 7"),
        ({"n_new": -1}, ValueError, "n_new must be 0 or more, got -1"),
        ({"n_new": 1.5}, TypeError, r"n_new must be a whole number, got 1\.5"),
        ({"start_token": 0.5}, TypeError, r"start_token must be a whole number, got 0\.5"),
    ],
)
def test_a_translation_that_cannot_be_is_refused(changes, error, sentence):
    it = Seq2Seq(small(target_vocab_size=7))
    with pytest.raises(error, match=sentence):
        it.translate(PROMPT, **{"start_token": 0, "stop_token": 1, "n_new": 2, **changes})


@pytest.mark.parametrize("n_new", [0, 1])
def test_the_prompt_stays_the_callers(n_new, refusals):
    it, prompt = Decoder(small()), some_tokens(2, 3).int()
    before = prompt.clone()
    out = generate(it, prompt, n_new)
    assert out.dtype == torch.int64
    out.zero_()
    assert torch.equal(prompt, before)
