"""Generation: feed a decoder what it has said so far, take its next token, repeat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from tinyattn.checks import whole_numbers

if TYPE_CHECKING:
    from tinyattn.transformer.models import Decoder


def generate(
    model: Decoder,
    prompt: Int64[Tensor, "b n_prompt"],
    n_new: int,
    *,
    use_cache: bool = True,
    temperature: float = 0.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
    stop_token: int | None = None,
    memory: Float[Tensor, "b n_memory d_model"] | None = None,
    memory_padding: Bool[Tensor, "b n_memory"] | None = None,
) -> Int64[Tensor, "b n"]:
    """Continue each prompt by n_new tokens, the likeliest ones or sampled ones.

    With the cache, step t computes one token that reads t keys. Without it, all t tokens are
    computed again: the same tokens, for about t times the work.

    Args:
        model: a decoder; it is used in evaluation mode and left in the mode it came in.
        prompt: token ids, at least one for each sequence; all sequences equally long.
        n_new: how many tokens to add.
        use_cache: keep keys and values instead of computing them again.
        temperature: 0 takes the likeliest token; above 0 samples from softmax(logits / temperature).
        top_k: sample among the k likeliest only.
        generator: where randomness comes from; needed when temperature is above 0.
        stop_token: once a sequence has gained it, the rest is filled up with it.
        memory: the encoder's output, for a decoder with cross-attention.
        memory_padding: True where a token of the memory is real.

    Returns:
        The prompts with n_new tokens behind each, as a new tensor of int64.

    Raises:
        ValueError: if the prompt is empty, n_new or temperature negative, top_k or stop_token out
            of range, or sampling has no generator.
        TypeError: if the prompt is not made of integers, or n_new, top_k or stop_token is none.
    """
    if not hasattr(model, "new_cache"):
        raise TypeError(f"generate continues what a Decoder wrote, got a {type(model).__name__}")
    if not isinstance(prompt, Tensor):
        raise TypeError(f"prompt must be a tensor (b, n), got a {type(prompt).__name__}")
    if prompt.dim() != 2 or prompt.shape[1] == 0:
        raise ValueError(
            f"prompt must be (b, n) with at least one token to start from, got {tuple(prompt.shape)}"
        )
    if prompt.is_floating_point() or prompt.is_complex() or prompt.dtype == torch.bool:
        raise TypeError(f"prompt must hold integers, the tokens' numbers, got {prompt.dtype}")
    (n_new,) = whole_numbers(n_new=n_new)
    if n_new < 0:
        raise ValueError(f"n_new must be 0 or more, got {n_new}")
    vocab_size = model.config.vocab_size
    top_k = _check_sampling(vocab_size, temperature, top_k, generator)
    if stop_token is not None:
        (stop_token,) = whole_numbers(stop_token=stop_token)
        if not 0 <= stop_token < vocab_size:
            raise ValueError(
                f"stop_token must be in 0 … {vocab_size - 1} (vocab_size={vocab_size}), "
                f"got {stop_token}"
            )

    cache = model.new_cache() if use_cache else None
    tokens = prompt.to(torch.int64, copy=True)
    stopped = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    with evaluating(model):
        for _ in range(n_new):
            unseen = tokens if cache is None else tokens[:, len(cache) :]
            logits = model(unseen, memory, memory_padding=memory_padding, cache=cache)
            chosen = next_token(logits[:, -1], temperature, top_k, generator)  # (b,)
            if stop_token is not None:
                chosen = torch.where(stopped, stop_token, chosen)
                stopped = stopped | (chosen == stop_token)
            tokens = torch.cat([tokens, chosen[:, None]], dim=1)
    return tokens


def next_token(
    logits: Float[Tensor, "b vocab_size"],
    temperature: float = 0.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Int64[Tensor, "b"]:
    """One token for each row of logits: the likeliest, or one drawn at a temperature.

    Arguments and errors are those of `generate`.

    Raises:
        ValueError: also if a row has no largest logit that is finite: where all are -inf, or one
            is NaN or +inf, no token is the likeliest. Some of -inf only exclude their tokens.

    Example:
        >>> next_token(torch.tensor([[0.0, 2.0, 1.0]]))
        tensor([1])
    """
    top_k = _check_sampling(logits.shape[-1], temperature, top_k, generator)
    if logits.dim() != 2 or not logits.shape[1]:
        raise ValueError(f"logits must be (b, vocab_size), got {tuple(logits.shape)}")
    top = logits.amax(dim=-1)  # NaN, if one of them is
    if not bool(top.isfinite().all()):
        strange = top[~top.isfinite()][0].item()
        raise ValueError(f"the largest logit of each row must be a finite number, got {strange}")
    if temperature == 0:
        return logits.argmax(dim=-1)
    # from the largest down and in float64: no temperature above 0 overflows or rounds to 0
    logits = logits.double() - logits.amax(dim=-1, keepdim=True)
    if top_k is not None:
        kept, where = logits.topk(top_k, dim=-1)
        logits = torch.full_like(logits, -torch.inf).scatter(-1, where, kept)
    probabilities = (logits / temperature).softmax(dim=-1)
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]


def _check_sampling(
    vocab_size: int, temperature: float, top_k: int | None, generator: torch.Generator | None
) -> int | None:
    """top_k as Python's integer, where it can be sampled so."""
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be 0 or more and finite, got {temperature}")
    if temperature > 0 and generator is None:
        raise ValueError(
            "sampling needs a generator, such as torch.Generator().manual_seed(0); "
            "temperature=0 takes the likeliest token instead"
        )
    if top_k is not None:
        (top_k,) = whole_numbers(top_k=top_k)
        if not 1 <= top_k <= vocab_size:
            raise ValueError(f"top_k must be in 1 … vocab_size={vocab_size}, got {top_k}")
    return top_k


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients inside; each part of the model is left in its own mode."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
