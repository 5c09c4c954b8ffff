"""What tinyattn sets itself to reach, as data, and whether it does.

`source` says where a limit comes from: what another library, or an earlier trial in plain
PyTorch, reached at 16,384 tokens on two cores of an AMD EPYC with AVX-512.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import DENSE, LINEAR, PATTERNS, ours
from benchmarks.results import Results
from benchmarks.timing import MODES
from tinyattn.analysis.measure import fit_exponent

CHAPTERS = Path(__file__).parents[1] / "results" / "chapters.json"  # make chapters RECORD=--record
AT = 16_384  # where ratios are compared
GROWTH = (4096, 65_536)  # where exponents are fitted
MILLION = 2**20
FEW_KEYS = ("global", "star", "random-8", "random-32")  # fewer than 64 in a row

LSH = ("lsh", "lsh-causal")
FLEX = {  # what compiled FlexAttention runs, and where it stood when the limits were set
    "window": "both 1.4 × the limit",
    "longformer": "FlexAttention: 1.87 × the limit",
    "bigbird": "FlexAttention: 1.23 × the limit",
    "blocks": "FlexAttention: 1.15 × the limit",
}

Value = Callable[[Results], float | None]


@dataclass(frozen=True)
class Bar:
    """One number to reach.

    Args:
        what: the bar, in words; several cases may share it.
        of: the case, and the mode if both are held to it.
        limit: the number: at least that if `at_least`, else at most.
        value: takes it from results; None if something it needs was not measured.
        source: where the limit comes from.
        at_least: whether more is better.
        elsewhere: what measures it, if the benchmark does not.
    """

    what: str
    of: str
    limit: float
    value: Value
    source: str = ""
    at_least: bool = False
    elsewhere: str = ""

    def verdict(self, results: Results) -> dict:
        """The bar with its value and "met", "missed" or "not measured", ready to be stored."""
        value = self.value(results)
        status = "not measured"
        if value is not None:
            met = value >= self.limit if self.at_least else value <= self.limit
            status = "met" if met else "missed"
        stored = ("what", "of", "limit", "at_least", "source", "elsewhere")
        return {**{key: getattr(self, key) for key in stored}, "value": value, "status": status}


def verdicts(results: Results) -> list[dict]:
    """Every bar and whether it is met."""
    return [bar.verdict(results) for bar in BARS]


# ------------------------------------------------------------ how a value is taken from results


def number(kind: str, case: str, mode: str, field: str, n: int = AT, *, unit: float = 1.0) -> Value:
    def value(results: Results) -> float | None:
        found = results.get(kind, case, mode, n, field)
        return None if found is None else found / unit

    return value


def to_dense(case: str, mode: str) -> Value:
    """Time over that of dense attention in the same run."""
    return number("time", case, mode, "to_dense")


def to_limit(case: str, mode: str) -> Value:
    """Time over dense attention's time multiplied by the share of pairs that are allowed."""
    return number("time", case, mode, "to_limit")


def quotient(above: Value, below: Value) -> Value:
    def value(results: Results) -> float | None:
        a, b = above(results), below(results)
        return None if a is None or b is None else a / b

    return value


def exponent(kind: str, case: str, mode: str, field: str) -> Value:
    """Fitted from 4k to 64k tokens: both ends must be there, and something between."""

    def value(results: Results) -> float | None:
        points = [
            point
            for point in results.series(kind, case, mode, field)
            if GROWTH[0] <= point[0] <= GROWTH[1]
        ]
        if len(points) < 3 or (points[0][0], points[-1][0]) != GROWTH:
            return None
        return fit_exponent(*zip(*points, strict=True)).exponent

    return value


def not_here(results: Results) -> None:
    """For what other commands measure."""


def of_chapters(field: str, combine: Callable, unit: float) -> Value:
    """What all notebooks of the book took when they were last recorded."""

    def value(results: Results) -> float | None:
        if not CHAPTERS.is_file():
            return None
        recorded = json.loads(CHAPTERS.read_text(encoding="utf-8"))
        return combine(one[field] for one in recorded.values()) / unit

    return value


# ------------------------------------------------------------------------------------- the bars


def _engine(mode: str, limit: float, source: str, aim: float, of_limit: float) -> list[Bar]:
    window = to_dense(ours("window"), mode)
    of = f"window, {mode}"
    return [
        Bar("share of dense attention's time", of, limit, window, source),
        Bar("aim: share of dense attention's time", of, aim, window, f"{of_limit} × the limit"),
    ]


def _both_modes(what: str, work: str, limit: float, take: Callable, *sources: str) -> list[Bar]:
    """One bar for the forward pass and one with gradients."""
    return [
        Bar(what, f"{work}, {mode}", limit, take(ours(work), mode), source)
        for mode, source in zip(MODES, sources, strict=True)
    ]


def _of_limit(work: str, limit: float, *sources: str) -> list[Bar]:
    return _both_modes("time × the pattern's limit", work, limit, to_limit, *sources)


def _of_flex(work: str, source: str) -> Bar:
    theirs, mine = (to_dense(name, "forward") for name in (f"{work}/FlexAttention", ours(work)))
    what = "time × compiled FlexAttention's: the same bar on any machine"
    return Bar(what, f"{work}, forward", 1.0, quotient(mine, theirs), source)


def _of_dense(work: str, limit: float, *sources: str) -> list[Bar]:
    return _both_modes("share of dense attention's time", work, limit, to_dense, *sources)


def _few_keys(work: str) -> list[Bar]:
    """For these the limit is tiny: a group of 64 queries costs what its keys do, not its pairs."""
    what, source = "share of dense attention's time, under 64 keys a row", "trial: 0.027"
    return _both_modes(what, work, 0.025, to_dense, source, source)


def _times_faster(work: str, library: str, limit: float, source: str) -> Bar:
    theirs, mine = (to_dense(name, "gradients") for name in (f"{work}/{library}", ours(work)))
    of = f"{work}, {library}, gradients"
    return Bar("times faster than a library", of, limit, quotient(theirs, mine), source, True)


def _growth(work: str, mode: str, kind: str, field: str, limit: float) -> Bar:
    grown = exponent(kind, ours(work), mode, field)
    what = f"exponent of {kind}, 4k to 64k tokens"
    return Bar(what, f"{work}, {mode}", limit, grown, "1 is linear")


def _memory(work: str, mode: str) -> Bar:
    bytes_of = [number("memory", case, mode, "bytes") for case in (ours(work), DENSE)]
    trial = "trial: 1.0 to 1.2"
    return Bar("memory × dense attention's", f"{work}, {mode}", 1.15, quotient(*bytes_of), trial)


def _schedule(work: str) -> list[Bar]:
    built = number("schedule", ours(work), "", "seconds")
    once = number("time", ours(work), "forward", "seconds")
    return [
        Bar("time of a schedule × one forward", work, 0.3, quotient(built, once), "trial: 0.3"),
        Bar(
            "exponent of a schedule's time, 4k to 64k tokens",
            work,
            1.06,
            exponent("schedule", ours(work), "", "seconds"),
            "1 is linear",
        ),
    ]


def _million(work: str, field: str, what: str, limit: float, unit: float = 1.0) -> Bar:
    case = ours(work)
    value = number("schedule", case, "", field, MILLION, unit=unit)
    return Bar(f"{what} of a schedule for 1,048,576 tokens", work, limit, value)


def _elsewhere(what: str, of: str, limit: float, command: str) -> Bar:
    return Bar(what, of, limit, not_here, elsewhere=command)


BARS: list[Bar] = [
    *_engine("forward", 0.045, "compiled FlexAttention: 0.044, trial: 0.040 to 0.045", 0.039, 1.25),
    *_engine("gradients", 0.045, "FlexAttention has none, trial: 0.043 to 0.046", 0.042, 1.35),
    *(_of_flex(work, source) for work, source in FLEX.items()),
    *_of_limit("longformer", 1.4, "FlexAttention: 1.87, trial: 1.51", "trial: 1.62"),
    *_of_limit("bigbird", 1.3, "FlexAttention: 1.23, trial: 1.51", "trial: 1.40"),
    *_of_limit("blocks", 1.1, "FlexAttention: 1.15, trial: 1.11", "trial: 1.17"),
    *_of_limit("image-2d", 1.25, "trial: 1.23", "trial: 1.32"),
    *_of_limit("fixed", 1.5, "trial: 1.56", "trial: 1.51"),
    *(bar for work in FEW_KEYS for bar in _few_keys(work)),
    *_of_dense("lsh", 0.10, "reformer-pytorch: 0.45, trial: 0.12", "0.31, trial: 0.12"),
    *_of_dense("lsh-causal", 0.10, "as both ways", "as both ways"),
    *_of_dense("routing", 0.035, "routing-transformer: 0.085, trial: 0.045", "0.047, trial: 0.032"),
    *_of_dense(
        "sinkhorn", 0.03, "sinkhorn-transformer: 0.034, trial: 0.032", "0.033, trial: 0.031"
    ),
    *_of_dense("axial", 0.025, "axial-attention: 0.072, trial: 0.025", "0.050, trial: 0.025"),
    *(_growth(work, mode, "time", "seconds", 1.06) for work in LINEAR for mode in MODES),
    *(_growth(w, m, "time", "seconds", 1.15) for w in LSH for m in MODES),
    *(_growth("routing", mode, "time", "seconds", 1.6) for mode in MODES),
    *(_growth(work, mode, "memory", "bytes", 1.05) for work in (*LINEAR, *LSH) for mode in MODES),
    *(_memory(work, mode) for work in PATTERNS for mode in MODES),
    *(bar for work in PATTERNS for bar in _schedule(work)),
    _million("longformer", "seconds", "seconds", 1.0),
    _million("bigbird", "seconds", "seconds", 5.0),
    _million("longformer", "bytes", "GB", 1.0, 1e9),
    _million("bigbird", "bytes", "GB", 1.0, 1e9),
    _times_faster("window", "local-attention", 2.4, "trial: 2.5"),
    _times_faster("longformer", "transformers", 6.0, "trial: 7.5"),
    _times_faster("bigbird", "transformers", 9.0, "trial: 9.4"),
    _times_faster("lsh", "reformer-pytorch", 2.5, "trial: 2.6"),
    _times_faster("routing", "routing-transformer", 1.4, "trial: 1.5"),
    _times_faster("axial", "axial-attention", 1.5, "trial: 2.0"),
    Bar("seconds to run", "the slowest chapter", 60, of_chapters("seconds", max, 1)),
    Bar("GiB resident", "the largest chapter", 1, of_chapters("mebibytes", max, 2**10)),
    Bar("minutes to run", "all chapters", 8, of_chapters("seconds", sum, 60)),
    _elsewhere("minutes from a fresh clone", "make test", 20, "time make test"),
    _elsewhere("minutes from a fresh clone", "make book", 5, "time make book"),
    _elsewhere("seconds to rebuild", "make book", 30, "time make book"),
    _elsewhere("kB gzipped", "a page without its lazy figures", 500, "make site"),
    _elsewhere("kB gzipped", "a page with its lazy figures", 900, "make site"),
    _elsewhere("axe violations, console errors, requests to others", "a page", 0, "make site"),
]
