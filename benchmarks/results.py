"""Where the numbers are kept: one file, in which a new run replaces the cells that it measured."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

FILE = Path(__file__).parents[1] / "results" / "bench.json"
SAME_MACHINE = ("cpu", "cores", "memory_gb", "instructions", "torch", "threads")
LIBRARIES = (
    "local-attention",
    "transformers",
    "reformer-pytorch",
    "routing-transformer",
    "axial-attention",
)

Key = tuple[str, str, str, int]


def machine() -> dict:
    """What the numbers depend on; nothing that says whose machine it is."""
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
    }


class Results:
    """Cells by kind ("time", "memory", "schedule", "shares"), case, mode and n."""

    def __init__(self, machine: dict, cells: Iterable[dict] = ()) -> None:
        self.machine = machine
        self.cells: dict[Key, dict] = {}
        for cell in cells:
            self.add(cell)

    def add(self, cell: dict) -> None:
        """Put a cell in the place of an older one."""
        self.cells[cell["kind"], cell["case"], cell["mode"], cell["n"]] = cell

    def get(self, kind: str, case: str, mode: str, n: int, field: str) -> float | None:
        """One number, or None if it was not measured."""
        return self.cells.get((kind, case, mode, n), {}).get(field)

    def series(self, kind: str, case: str, mode: str, field: str) -> list[tuple[int, float]]:
        """A number of one case at every n at which it was measured, ascending."""
        return sorted(
            (n, cell[field])
            for (a_kind, a_case, a_mode, n), cell in self.cells.items()
            if (a_kind, a_case, a_mode) == (kind, case, mode) and field in cell
        )

    def failures(self) -> list[dict]:
        """Cells that hold an error instead of numbers."""
        return [cell for cell in self.cells.values() if "error" in cell]

    @classmethod
    def load(cls, path: Path) -> Results:
        """What a file holds."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        return cls(stored["machine"], stored["cells"])

    @classmethod
    def to_continue(cls, path: Path, machine: dict) -> Results:
        """What a file holds; nothing if it is missing, or tells of another machine."""
        if path.exists():
            stored = cls.load(path)
            if all(stored.machine.get(key) == machine[key] for key in SAME_MACHINE):
                return cls(machine, stored.cells.values())
            print(f"{path.name} held the numbers of another machine; they are replaced.")
        return cls(machine)

    def save(self, path: Path, summary: dict) -> None:
        """Write everything, one cell a line, so that a diff shows which ones are new."""
        cells = [self.cells[key] for key in sorted(self.cells)]
        head = {"date": date.today().isoformat(), "machine": self.machine, **summary}
        lines = [f" {json.dumps(key)}: {_on_lines(value)}," for key, value in head.items()]
        text = "\n".join(["{", *lines, f' "cells": {_on_lines(cells)}', "}"]) + "\n"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def _on_lines(value: object) -> str:
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    items = [f"  {json.dumps(_rounded(item), ensure_ascii=False)}" for item in value]
    return "[\n" + ",\n".join(items) + "\n ]"


def _rounded(item: dict) -> dict:
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in item.items()}


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (AttributeError, ValueError, OSError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
