"""Where the time of a call goes: the parts of it that PyTorch's profiler sees in its operations.

The profiler costs time of its own, most of it for short operations, so that parts are rough.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator

from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.cases import Case, tensors
from benchmarks.timing import attempt, cell, runner, warm_up

PARTS = {  # words of an operation's name; the first part that has one gets its time
    "products": ("mm",),  # bmm, addmm, sampled_addmm, …
    "softmax": ("softmax", "exp", "amax", "max", "sum", "log", "norm"),
    "copies": (
        "copy", "cat", "clone", "index", "scatter", "gather", "fill", "zero", "embedding_bag", "sort",
    ),
}  # fmt: skip
OTHER, PYTHON = "other operations", "between operations"


def part_of(operation: str) -> str:
    """Which part an operation belongs to; what is no operation of PyTorch's is Python."""
    if not operation.startswith("aten::"):
        return PYTHON
    name = operation.removeprefix("aten::")
    found = (part for part, words in PARTS.items() if any(word in name for word in words))
    return next(found, OTHER)


def measure(cases: Iterable[Case], n: int, modes: Iterable[str]) -> Iterator[dict]:
    """Cells: for each case and mode the share of every part in one call at n tokens."""
    for case in cases:
        for mode in modes:
            found = attempt(lambda case=case, mode=mode: shares(case, n, mode))
            numbers = {"error": found} if isinstance(found, str) else found
            yield cell("shares", case.name, n, mode, **numbers)


def shares(case: Case, n: int, mode: str) -> dict[str, float]:
    """Part: its share of the time of a call, after calls to warm up."""
    call = runner(case.make(*tensors(n)), mode)
    warm_up(call)
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU]) as seen, record_function("call"):
        call()
    time = Counter(dict.fromkeys([*PARTS, OTHER, PYTHON], 0.0))
    for event in seen.key_averages():
        time[part_of(event.key)] += event.self_cpu_time_total
    return {part: spent / time.total() for part, spent in time.items()}
