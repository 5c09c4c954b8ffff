"""What a training run leaves behind: small JSON for its numbers, .npz for weights."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

N_LOSSES = 60  # means of the loss curve that are kept


def results_folder() -> Path:
    """The folder `results` of the checkout that this package, or a chapter, lies in.

    Raises:
        FileNotFoundError: if there is none, as when the package is installed without the book.
    """
    for start in (Path(__file__).resolve(), Path.cwd().resolve() / "here"):
        for folder in start.parents:
            if (folder / "results").is_dir() and (folder / "_toc.yml").is_file():
                return folder / "results"
    raise FileNotFoundError(
        "found no folder `results` beside a `_toc.yml`: clone the book's repository, it holds the "
        "numbers, and `make results` writes them anew"
    )


def timed(run: Callable[[], list[float]]) -> tuple[list[float], float]:
    """The losses that a training returns, and the seconds that it took."""
    start = time.perf_counter()
    losses = run()
    return losses, round(time.perf_counter() - start, 1)


def record(seed: int, losses: list[float], seconds: float, scores: dict[str, float]) -> dict:
    """One run as plain data: its losses thinned to means of equal stretches."""
    pieces = np.array_split(np.array(losses), min(N_LOSSES, len(losses)))
    return {
        "seed": seed,
        "steps": len(losses),
        "seconds": seconds,
        "scores": {name: round(score, 4) for name, score in scores.items()},
        "first_losses": [round(loss, 4) for loss in losses[:20]],
        "losses": [round(float(piece.mean()), 4) for piece in pieces],
    }


def save(name: str, config: Any, runs: list[dict], **more: Any) -> Path:
    """Write results/NAME.json: what was trained, with which versions, and what came out."""
    if not is_dataclass(config):
        raise TypeError(f"config must be a dataclass, got {type(config).__name__}")
    content = {
        "name": name,
        "config": asdict(config),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "threads": torch.get_num_threads(),
        "runs": runs,
        **more,
    }
    path = results_folder() / f"{name}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def load(name: str) -> dict[str, Any]:
    """Read results/NAME.json.

    Raises:
        FileNotFoundError: if it has not been written yet.
    """
    path = results_folder() / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(f"no results of {name} yet: `make results` writes them")
    return json.loads(path.read_text(encoding="utf-8"))


def load_bench() -> dict[str, Any]:
    """What `make bench` wrote to results/bench.json; no machine and no cells if it never ran.

    Chapters then say that nothing was measured, instead of failing for a number that every
    machine has to find for itself.
    """
    path = results_folder() / "bench.json"
    if not path.is_file():
        return {"machine": None, "cells": []}
    return json.loads(path.read_text(encoding="utf-8"))


def save_weights(name: str, model: nn.Module) -> Path:
    """Write results/NAME.npz: every parameter under its name, in half the digits (float16)."""
    path = results_folder() / f"{name}.npz"
    arrays = {key: value.half().numpy() for key, value in model.state_dict().items()}
    np.savez_compressed(path, **arrays)
    return path


def load_weights(name: str, model: nn.Module) -> nn.Module:
    """Fill a model with the weights of results/NAME.npz; returns it."""
    with np.load(results_folder() / f"{name}.npz", allow_pickle=False) as arrays:
        state = {key: torch.from_numpy(arrays[key].astype(np.float32)) for key in arrays}
    model.load_state_dict(state)
    return model
