"""What is measured: seconds in turns, bytes at their highest, and how fast either grows."""

from __future__ import annotations

import gc
import math
import statistics
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from tinyattn.checks import whole_numbers

FEWEST_TURNS = 3

Number = float | int  # the type checker of the tests does not take 2 for a float


@dataclass(frozen=True)
class Fit:
    """values ≈ constant · nᵉˣᵖᵒⁿᵉⁿᵗ; `spread` is the standard error, None with two points."""

    exponent: float
    spread: float | None

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.2f}"
        return f"{self.exponent:.2f}{spread}"


def fit_exponent(n: Sequence[Number], values: Sequence[Number]) -> Fit:
    """How fast values grow with n: least squares of their logarithms.

    A sum of powers has no single exponent. Fitted where the largest of them leads, it comes
    close to that one's; where several are of a size, it says something in between.

    Raises:
        ValueError: if there are fewer than two different n, or a number is not positive
            and finite.

    Example:
        >>> print(fit_exponent([1, 2, 4, 8], [5, 20, 80, 320]))
        2.00 ± 0.00
    """
    positive = all(0 < number < math.inf for number in (*n, *values))  # NaN is neither
    if len(n) != len(values) or len(set(n)) < 2 or not positive:
        raise ValueError(
            "a fit needs positive, finite values at two different n or more, "
            f"got n={list(n)}, values={list(values)}"
        )
    x, y = [math.log(a) for a in n], [math.log(b) for b in values]
    x_mean, y_mean = math.fsum(x) / len(x), math.fsum(y) / len(y)
    around = math.fsum((a - x_mean) ** 2 for a in x)
    slope = math.fsum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True)) / around
    if len(n) == 2:
        return Fit(slope, None)
    residual = math.fsum(
        (b - y_mean - slope * (a - x_mean)) ** 2 for a, b in zip(x, y, strict=True)
    )
    return Fit(slope, math.sqrt(residual / (len(n) - 2) / around))


# -------------------------------------------------------------------------------------- time


def take_turns(
    calls: dict[str, Callable[[], object]], repeats: int, seconds: Number = math.inf
) -> dict[str, list[float]]:
    """Seconds of every call in every turn; each turn starts with another one.

    Calls that are timed one after the other meet different moments of a busy machine. In turns,
    a slow moment hits all of them.

    Args:
        calls: what is timed, by name.
        repeats: turns.
        seconds: after this long no further turn begins, once three are taken.
    """
    (repeats,) = whole_numbers(repeats=repeats)
    names = list(calls)
    taken: dict[str, list[float]] = {name: [] for name in names}
    start = time.perf_counter()
    for turn in range(repeats):
        if turn >= FEWEST_TURNS and time.perf_counter() - start > seconds:
            break
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            before = time.perf_counter()
            out = calls[name]()
            taken[name].append(time.perf_counter() - before)
            del out
    return taken


def medians(calls: dict[str, Callable[[], object]], repeats: int = 7) -> dict[str, float]:
    """The median seconds of each call, taken in turns after one that is not timed.

    Raises:
        ValueError: if repeats is below 1.

    Example:
        >>> seconds = medians({"short": lambda: sum(range(10)), "long": lambda: sum(range(10**5))})
        >>> seconds["short"] < seconds["long"]
        True
    """
    (repeats,) = whole_numbers(repeats=repeats)
    if repeats < 1:
        raise ValueError(f"a median needs 1 or more repeats, got {repeats}")
    take_turns(calls, repeats=1)  # libraries and threads start, and what is cached is cached
    return {name: statistics.median(taken) for name, taken in take_turns(calls, repeats).items()}


# ------------------------------------------------------------------------------------- bytes


class CountBytes(TorchDispatchMode):
    """Bytes of tensors made inside the block: `live` now, `peak` at worst.

    It looks at what every operation returns, and sees when that is freed. Exact and the same on
    every machine; what an operation needs inside, and frees before it returns, stays unseen. So
    does what `torch.tensor` makes of Python's numbers, and a tensor that is resized keeps its old
    bytes beside the new.

    Example:
        >>> import torch
        >>> with CountBytes() as counted:
        ...     doubled = (torch.zeros(1000) + 1) * 2
        >>> counted.peak, counted.live
        (8000, 4000)
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self._note((args, kwargs), count=False)  # what was there before is not counted
        out = operation(*args, **(kwargs or {}))
        self._note(out, count=True)
        return out

    def _note(self, values: object, count: bool) -> None:
        for tensor in tree_leaves(values):
            if not isinstance(tensor, Tensor):
                continue
            storage = tensor.untyped_storage()
            place = storage.data_ptr()
            if place not in self._known:
                self._known[place] = storage.nbytes() if count else 0
                self.live += self._known[place]
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._forget, place)

    def _forget(self, place: int) -> None:
        self.live -= self._known.pop(place)


def kept_bytes(call: Callable[[], object], without: Iterable[Tensor] = ()) -> int:
    """Bytes that autograd keeps of a call for the backward pass, each tensor once.

    Args:
        call: makes a result that gradients can be taken of.
        without: tensors that are there anyway, such as a module's parameters.

    Example:
        >>> import torch
        >>> layer = nn.Linear(8, 3)
        >>> kept_bytes(lambda: layer(torch.zeros(5, 8)), layer.parameters())  # its input
        160
    """
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)  # and with it its address, which is not given away again
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        call()
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    for tensor in without:
        sizes.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


def peak_memory(call: Callable[[], object]) -> int:
    """Bytes by which a call raises the memory that this process holds, at its highest.

    Everything counts, also what an operation frees before it returns. Memory that earlier calls
    freed and the process kept is used again and does not count: measure in a fresh process.

    Raises:
        NotImplementedError: where the system does not count peaks; Linux does.
    """
    peaks = Path("/proc/self/clear_refs")
    if not peaks.exists():
        raise NotImplementedError(
            "only Linux counts the peak of a process; CountBytes runs anywhere"
        )
    gc.collect()
    before = _status("VmRSS")
    peaks.write_text("5")  # the high-water mark starts again from here
    out = call()
    grown = _status("VmHWM") - before
    del out
    return grown


def counted_flops(call: Callable[[], object]) -> int:
    """Operations of the matrix products that run in a call, as PyTorch counts them.

    A multiply-accumulate is two operations. Of products that are added in place, which the
    engine's backward pass uses, PyTorch's counter knows nothing; here it is told. Fused attention
    on a processor stays one operation of which it counts nothing, and so do products of a matrix
    or a vector with a vector.

    Example:
        >>> import torch
        >>> counted_flops(lambda: torch.zeros(2, 3) @ torch.zeros(3, 5))
        60
    """
    added = dict.fromkeys((torch.ops.aten.baddbmm_, torch.ops.aten.addmm_), _added_product)
    with FlopCounterMode(display=False, custom_mapping=added) as counter:
        call()
    return counter.get_total_flops()


def parameters(module: nn.Module) -> int:
    """How many numbers a module learns; one that stands in two places counts once.

    Example:
        >>> parameters(nn.Linear(8, 3))
        27
    """
    return sum(parameter.numel() for parameter in module.parameters())


def _added_product(to: object, left: Sequence[int], right: Sequence[int], **_: object) -> int:
    return 2 * math.prod(left) * right[-1]


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))
