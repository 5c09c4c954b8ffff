"""One training loop, short enough to read, and a progress bar that leaves nothing behind."""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tinyattn.checks import whole_numbers


def train(
    model: nn.Module | Iterable[nn.Parameter],
    loss_of_step: Callable[[torch.Generator], Float[Tensor, ""]],
    steps: int,
    *,
    lr: float,
    warmup: int = 100,
    weight_decay: float = 0.01,
    max_norm: float = 1.0,
    after_step: Callable[[], None] | None = None,
    seed: int = 0,
    label: str = "training",
    progress: bool = True,
) -> list[float]:
    """Lower a loss by AdamW for a fixed number of steps; returns the loss at every step.

    Each step draws a batch, takes the gradient, shortens it to `max_norm` if it is longer, and
    moves by the rate that `learning_rate` gives. The number of steps is fixed and never depends
    on a clock, so the same seed trains the same model.

    Args:
        model: what is trained, in place: a module, which is put in training mode, or parameters.
        loss_of_step: draws a batch with the generator it is given and returns its mean loss.
        steps: how many.
        lr: the highest learning rate, reached after `warmup` steps.
        warmup: steps over which the rate grows.
        weight_decay: AdamW's; it leaves parameters of one axis alone, such as the biases of Linear
            and what a LayerNorm learns.
        max_norm: length that the gradient may have.
        after_step: called after each step, for what learns outside the gradient, such as
            `lambda: update_routers(model)`.
        seed: of the batches and of dropout; the global random state is left as it was.
        label: what the progress bar says.
        progress: whether to show one where somebody can see it.

    Raises:
        ValueError: if steps, lr or max_norm is not positive, warmup or weight_decay negative, or
            there is nothing to train.
        TypeError: if steps, warmup or seed is no whole number.
        FloatingPointError: if the loss or its gradient stops being finite; says at which step.
            The model is left as the step before made it.

    Source:
        Loshchilov and Hutter 2019, "Decoupled weight decay regularization" (arXiv:1711.05101);
        clipping by norm: Pascanu et al. 2013 (arXiv:1211.5063).

    Example:
        >>> x = nn.Parameter(torch.tensor(3.0))
        >>> losses = train([x], lambda generator: (x - 1) ** 2, 200, lr=0.1, weight_decay=0.0)
        >>> len(losses), round(x.item(), 2)
        (200, 1.0)
    """
    steps, warmup, seed = whole_numbers(steps=steps, warmup=warmup, seed=seed)
    if steps < 1 or not 0 < lr < math.inf or not max_norm > 0:
        raise ValueError(
            "steps, lr and max_norm must be positive, and lr finite, "
            f"got steps={steps}, lr={lr}, max_norm={max_norm}"
        )
    if warmup < 0 or not 0 <= weight_decay < math.inf:
        raise ValueError(
            "warmup and weight_decay must be 0 or more, and weight_decay finite, "
            f"got warmup={warmup}, weight_decay={weight_decay}"
        )
    if isinstance(model, nn.Module):
        model.train()
        model = model.parameters()
    parameters = [parameter for parameter in model if parameter.requires_grad]
    if not parameters:
        raise ValueError("there must be a parameter that requires a gradient, got none")
    matrices = [parameter for parameter in parameters if parameter.dim() > 1]
    vectors = [parameter for parameter in parameters if parameter.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=lr,
    )
    generator = torch.Generator().manual_seed(seed)
    losses: list[float] = []
    with seeded(seed), Progress(steps, label, visible=progress) as bar:
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, lr, warmup)
            loss = loss_of_step(generator)
            losses.append(loss.item())
            _check_finite("loss", losses[-1], step)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(parameters, max_norm)
            _check_finite("norm of the gradient", norm.item(), step)
            optimizer.step()
            if after_step is not None:
                after_step()
            bar.advance(f"loss {losses[-1]:.3f}")
    return losses


def _check_finite(what: str, number: float, step: int) -> None:
    if not math.isfinite(number):
        raise FloatingPointError(
            f"the {what} must stay finite, got {number} at step {step}; "
            "a lower lr or a longer warmup usually helps"
        )


def learning_rate(step: int, steps: int, highest: float, warmup: int = 100) -> float:
    """Up in a straight line for `warmup` steps, then down half a cosine to (nearly) zero.

    Raises:
        ValueError: if step is not in 0 … steps - 1, warmup negative, or highest not positive and
            finite.
        TypeError: if step, steps or warmup is no whole number.

    Source:
        Warm-up: Vaswani et al. 2017, section 5.3; cosine: Loshchilov and Hutter 2017, "SGDR"
        (arXiv:1608.03983), without its restarts.

    Example:
        >>> [round(learning_rate(step, 1000, 1.0), 2) for step in (0, 49, 99, 550, 999)]
        [0.01, 0.5, 1.0, 0.5, 0.0]
    """
    step, steps, warmup = whole_numbers(step=step, steps=steps, warmup=warmup)
    if not 0 <= step < steps or warmup < 0 or not 0 < highest < math.inf:
        raise ValueError(
            "step must be in 0 … steps - 1, warmup 0 or more, and highest positive and finite, "
            f"got step={step}, steps={steps}, warmup={warmup}, highest={highest}"
        )
    if step < warmup:
        return highest * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return highest * 0.5 * (1 + math.cos(math.pi * done))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's global random state starts at `seed`; outside, it is as it was.

    Example:
        >>> with seeded(0):
        ...     first = torch.rand(1)
        >>> with seeded(0):
        ...     bool(torch.rand(1) == first)
        True
    """
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        yield


class Progress:
    """A bar that moves while somebody is watching and leaves no output behind.

    In a notebook that a person runs (JupyterLab, Notebook 7, VS Code) it is one HTML element,
    emptied at the end. In a terminal it is one line on stderr, erased at the end. A notebook
    executed without a front end (nbclient, nbval, papermill) and a piped script get nothing at
    all, so that stored outputs do not depend on timing.

    Example:
        >>> with Progress(3, "counting") as bar:
        ...     for number in range(3):
        ...         bar.advance()
    """

    def __init__(self, total: int, label: str = "", *, visible: bool = True) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self._draw_at = 0.0
        self._screen = _screen() if visible else None

    def __enter__(self) -> Progress:  # noqa: PYI034 - beartype reads Self only on whole classes
        return self

    def __exit__(self, *error: object) -> None:
        if self._screen is not None:
            self._screen.clear()

    def advance(self, note: str = "") -> None:
        """One more of `total` is done; `note` is shown behind the bar."""
        self.done += 1
        if self._screen is None or (now := time.monotonic()) < self._draw_at:
            return
        self._draw_at = now + 0.1  # ten times a second: drawing must not slow the training
        self._screen.draw(self.done, self.total, self.label, note)


class _TerminalLine:
    def draw(self, done: int, total: int, label: str, note: str) -> None:
        filled = 30 * done // max(1, total)
        bar = "#" * filled + "." * (30 - filled)
        print(f"\r\x1b[K{label} [{bar}] {done}/{total} {note}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _NotebookElement:
    def __init__(self) -> None:
        self._handle = None

    def draw(self, done: int, total: int, label: str, note: str) -> None:
        from IPython.display import display

        text = html.escape(f"{label} {done}/{total} {note}")
        bundle = {
            "text/html": f'<label><progress value="{done}" max="{total}"></progress> {text}</label>'
        }
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        # An update to nothing instead of clear_output: what the cell printed before stays.
        if self._handle is not None:
            self._handle.update({}, raw=True)


def _screen() -> _TerminalLine | _NotebookElement | None:
    """Where a bar can be seen: a notebook with a front end, a terminal, or nowhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if hasattr(shell, "kernel"):
        # A front end names the cell it runs, in the request's metadata; a program does not.
        request = shell.get_parent()
        return _NotebookElement() if request.get("metadata", {}).get("cellId") else None
    return _TerminalLine() if sys.stderr.isatty() else None
