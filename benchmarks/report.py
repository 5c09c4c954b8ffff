"""What is stored beside the cells (exponents, verdicts), and the tables that the terminal shows."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bars import GROWTH, verdicts
from benchmarks.cases import WORDS
from benchmarks.peers import ALL
from benchmarks.results import Results
from benchmarks.shares import OTHER, PARTS, PYTHON
from tinyattn.analysis.measure import fit_exponent

MODES_OF = {
    "time": ("forward", "gradients"),
    "memory": ("forward", "gradients"),
    "schedule": ("",),
}
FIELD_OF = {"time": "seconds", "memory": "bytes", "schedule": "seconds"}


def summary(results: Results) -> dict:
    """What was computed, exponents and verdicts."""
    return {"works": WORDS, "exponents": list(exponents(results)), "bars": verdicts(results)}


def exponents(results: Results) -> Iterator[dict]:
    """One fit for each kind, case and mode over all lengths up to 64k tokens."""
    measured = sorted({key[:3] for key in results.cells})
    for kind, case, mode in measured:
        if kind not in FIELD_OF:
            continue
        points = [
            point
            for point in results.series(kind, case, mode, FIELD_OF[kind])
            if point[0] <= GROWTH[1] and point[1] > 0
        ]
        if len(points) < 2:
            continue
        fit = fit_exponent(*zip(*points, strict=True))
        yield {
            "kind": kind,
            "case": case,
            "mode": mode,
            "n": [n for n, _ in points],
            "exponent": fit.exponent,
            "spread": fit.spread,
        }


def tables(results: Results) -> str:
    """All tables as Markdown, then the bars, then what did not run."""
    blocks = [_machine(results)]
    for kind, modes in MODES_OF.items():
        blocks += [_table(results, kind, mode) for mode in modes]
    blocks += [_shares(results, mode) for mode in MODES_OF["time"]]
    blocks += [_bars(verdicts(results)), _failures(results)]
    return "\n\n".join(block for block in blocks if block)


def line(cell: dict) -> str:
    """A cell as one line, for whoever waits."""
    said = f"{cell['n']:8,} {cell['kind']:8} {cell['mode']:9} {cell['case']:28}"
    if "error" in cell:
        return f"{said} {cell['error']}"
    if cell["kind"] == "shares":
        return said + "".join(f" {part} {cell[part]:.2f}" for part in (*PARTS, OTHER, PYTHON))
    if "seconds" in cell:
        said += f" {1000 * cell['seconds']:10.1f} ms"
    if "to_dense" in cell:
        said += f" {cell['to_dense']:8.4f} × dense"
    if "to_limit" in cell:
        said += f" {cell['to_limit']:6.2f} × limit"
    if "bytes" in cell:
        said += f" {cell['bytes'] / 1e6:10.1f} MB"
    return said


def _machine(results: Results) -> str:
    found = results.machine
    libraries = ", ".join(f"{name} {number}" for name, number in found["libraries"].items())
    return (
        f"{found['cpu']}, {found['cores']} cores, {found['memory_gb']} GB, "
        f"{found['instructions']}, torch {found['torch']}, {found['threads']} threads; "
        f"{libraries or 'no other libraries'}"
    )


def _table(results: Results, kind: str, mode: str) -> str:
    cells = [c for c in results.cells.values() if (c["kind"], c["mode"]) == (kind, mode)]
    lengths = sorted({cell["n"] for cell in cells})
    names = sorted({cell["case"] for cell in cells}, key=_place)
    fits = {f["case"]: f for f in exponents(results) if (f["kind"], f["mode"]) == (kind, mode)}
    rows = []
    for name in names:
        shown = [_cell(results.cells.get((kind, name, mode, n))) for n in lengths]
        rows.append([name, *shown, _exponent(fits.get(name))])
    if not rows:
        return ""
    title = {
        "time": "Time of dense attention's (× the pattern's limit)",
        "memory": "Memory that one call adds, MB",
        "schedule": "Milliseconds to build a schedule (MB)",
    }[kind]
    return f"## {title}, {mode}\n\n".replace(", \n", "\n") + markdown(
        ["case", *(f"{n:,}" for n in lengths), "∝ n^"], rows
    )


def _shares(results: Results, mode: str) -> str:
    parts = [*PARTS, OTHER, PYTHON]
    rows = [
        [c["case"], f"{c['n']:,}", *(f"{c[part]:.2f}" for part in parts)]
        for c in sorted(results.cells.values(), key=lambda cell: _place(cell["case"]))
        if (c["kind"], c["mode"]) == ("shares", mode) and "error" not in c
    ]
    title = f"## Where the time goes, {mode}"
    return f"{title}\n\n" + markdown(["case", "n", *parts], rows) if rows else ""


def _place(name: str) -> int:
    return list(ALL).index(name) if name in ALL else len(ALL)


def _cell(cell: dict | None) -> str:
    if cell is None:
        return ""
    if "error" in cell:
        return cell["error"].split(":")[0]
    if cell["kind"] == "memory":
        return f"{cell['bytes'] / 1e6:.0f}"
    if cell["kind"] == "schedule":
        return f"{1000 * cell['seconds']:.1f} ({cell['bytes'] / 1e6:.0f})"
    if "to_dense" not in cell:
        return f"{cell['seconds']:.2f} s"
    limit = f" ({cell['to_limit']:.2f})" if "to_limit" in cell else ""
    return f"{cell['to_dense']:.3f}{limit}"


def _exponent(fit: dict | None) -> str:
    if fit is None:
        return ""
    spread = "" if fit["spread"] is None else f" ± {fit['spread']:.2f}"
    return f"{fit['exponent']:.2f}{spread}"


def _bars(judged: list[dict]) -> str:
    rows = [
        [
            bar["what"],
            bar["of"],
            f"{'≥' if bar['at_least'] else '≤'} {bar['limit']:g}",
            "" if bar["value"] is None else f"{bar['value']:.3g}",
            bar["status"] + (f" here: {bar['elsewhere']}" if bar["elsewhere"] else ""),
            bar["source"],
        ]
        for bar in judged
    ]
    counts = {
        s: sum(bar["status"] == s for bar in judged) for s in ("met", "missed", "not measured")
    }
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"## Bars: {said}\n\n" + markdown(
        ["bar", "of", "limit", "value", "verdict", "source"], rows
    )


def _failures(results: Results) -> str:
    lines = [line(cell) for cell in results.failures()]
    return "## What did not run\n\n" + "\n".join(lines) if lines else ""


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns line up in a terminal too."""
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in table
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
