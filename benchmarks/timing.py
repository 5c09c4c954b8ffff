"""Seconds: all cases take turns in one process, so that a busy moment hits all of them."""

from __future__ import annotations

import gc
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from benchmarks.cases import DENSE, DENSE_UP_TO, PATTERNS, Case, Ready, tensors
from tinyattn.analysis.measure import take_turns
from tinyattn.groups import lowering

MODES = ("forward", "gradients")  # under no_grad; forward, then the gradients of q, k and v
SECONDS_FOR_TURNS = 100.0  # after that, no more than the fewest turns
A_LONG_CALL = 2.0  # seconds; shorter ones are warmed up twice


class Missing(Exception):
    """What a case needs is not on this machine."""


def measure(cases: list[Case], n: int, modes: Iterable[str], repeats: int) -> Iterator[dict]:
    """Cells of a table: for each case and mode its seconds at n tokens, or why there are none."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()  # compiled for the last n, it would run uncompiled for this one
    qkv = tensors(n)
    made = {case.name: attempt(lambda case=case: case.make(*qkv)) for case in cases}
    for mode in modes:
        calls = {}
        for name, ready in made.items():
            call = ready if isinstance(ready, str) else runner(ready, mode)
            failed = call if isinstance(call, str) else attempt(lambda call=call: warm_up(call))
            if isinstance(failed, str):
                yield cell("time", name, n, mode, error=failed)
            else:
                calls[name] = call
        gc.collect()
        taken = take_turns(calls, repeats, SECONDS_FOR_TURNS)
        for name, seconds in taken.items():
            yield cell("time", name, n, mode, **_numbers(name, n, seconds, taken.get(DENSE)))
    lowering.cache_clear()  # what was lowered for this n is not needed again


def runner(ready: Ready, mode: str) -> Callable[[], object]:
    """The call in one of the MODES, without arguments."""
    if mode == "forward":
        return torch.no_grad()(lambda: ready.call(*ready.inputs))
    d_out = torch.randn_like(ready.inputs[0])  # the result has the shape of the first input

    def forward_and_backward() -> tuple[Tensor, ...]:
        return torch.autograd.grad(ready.call(*ready.inputs), ready.inputs, d_out)

    return forward_and_backward


def warm_up(call: Callable[[], object]) -> None:
    """Let a call build and remember what it needs."""
    start = time.perf_counter()
    call()
    if time.perf_counter() - start < A_LONG_CALL:
        call()


def attempt(action: Callable[[], object]) -> object:
    """What an action returns, or a sentence about why it could not."""
    try:
        return action()
    except Missing as error:
        return f"not installed: {error}"
    except ModuleNotFoundError as error:
        return f"not installed: {error.name}"
    except Exception as error:  # noqa: BLE001 - whatever a library does is reported
        error = error.__cause__ or error
        line = (str(error).strip() or "no message").splitlines()[0]
        line = re.sub(r"(?<![\w.])/[\w.+-]+(/[\w.+-]*)+", "…", line)  # paths of this machine
        return f"failed: {type(error).__name__}: {line[:160]}"


def cell(kind: str, case: str, n: int, mode: str = "", **values: object) -> dict:
    """One measured number and its company: the form in which results are stored."""
    return {"kind": kind, "case": case, "mode": mode, "n": n, **values}


def _numbers(name: str, n: int, seconds: list[float], dense: list[float] | None) -> dict:
    median = statistics.median(seconds)
    numbers = {"seconds": median, "fastest": min(seconds), "turns": len(seconds)}
    if dense:
        numbers["to_dense"] = median / statistics.median(dense)
        numbers["to_dense_fastest"] = min(seconds) / min(dense)
    work = name.split("/")[0]
    if work in PATTERNS and n <= DENSE_UP_TO:
        numbers["share"] = PATTERNS[work](n).edges(n) / n**2
        if dense:
            numbers["to_limit"] = numbers["to_dense"] / numbers["share"]
    return numbers
