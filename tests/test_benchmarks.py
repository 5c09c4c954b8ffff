"""The benchmark measures what it says: right results, right arithmetic, nothing hidden."""

import json
import platform
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from benchmarks import bars, memory, peers, shares, timing
from benchmarks.__main__ import main
from benchmarks.bars import AT, BARS, FEW_KEYS, MILLION, Bar, verdicts
from benchmarks.cases import (
    CASES,
    DENSE,
    LAYOUTS,
    LINEAR,
    PATTERNS,
    ROUTERS,
    WORDS,
    Case,
    Ready,
    ours,
    tensors,
)
from benchmarks.report import line, summary, tables
from benchmarks.results import Results, machine
from tinyattn import attention
from tinyattn.content import lsh_buckets, lsh_mask, soft_permutation
from tinyattn.patterns import Window, axial_columns, axial_rows, bp_transformer

from .close import assert_same

MACHINE = {
    "cpu": "a processor",
    "cores": 2,
    "memory_gb": 8,
    "instructions": "AVX2",
    "torch": "2.13.0",
    "threads": 2,
    "libraries": {},
}


def cell(kind: str, case: str, n: int = AT, mode: str = "", **values: object) -> dict:
    return timing.cell(kind, case, n, mode, **values)


def planted(*cells: dict) -> Results:
    return Results(MACHINE, cells)


def verdict(results: Results, what: str, of: str) -> tuple[float | None, str]:
    (found,) = [v for v in verdicts(results) if (v["what"], v["of"]) == (what, of)]
    return found["value"], found["status"]


# ------------------------------------------------------------------------- what is measured


BY_RULE = [case for case in CASES if case.work not in ROUTERS]


@pytest.mark.parametrize("case", BY_RULE, ids=lambda case: case.name)
def test_a_case_is_dense_attention_under_its_pattern(case):
    q, k, v = tensors(256)
    ready = case.make(q, k, v)
    if case.work == "axial":
        dense = sum(
            attention(q, k, v, rule.mask(256)) for rule in (axial_rows(16), axial_columns(16))
        )
    elif case.work == "tree":
        q, k, v = (x[:, :, :255] for x in (q, k, v))
        dense = attention(q, k, v, bp_transformer(128, 4).mask(255))
    else:
        mask = None if case.name == DENSE else PATTERNS[case.work](256).mask(256)
        dense = attention(q, k, v, mask)
    assert_same(ready.call(*ready.inputs), dense, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("work", PATTERNS)
def test_patterns_that_are_called_linear_have_linearly_many_pairs(work):
    short, middle, long = (PATTERNS[work](n).edges(n) for n in (1024, 2048, 4096))
    growth = (long - middle) / (middle - short)  # 2 if linear, but for a constant at the borders
    most = 2.4 if work == "image-2d" else 2.1  # its border is as long as the picture's sides
    assert (growth < most) == (work in LINEAR)
    assert (long < 64 * 4096) == (work in FEW_KEYS)


def test_readers_are_told_what_each_work_is():
    assert set(WORDS) == {"dense", *PATTERNS, *ROUTERS, *LAYOUTS}


def test_the_case_of_hashing_is_the_work_of_its_peer():
    q, _, v = tensors(512)
    ready = ROUTERS["lsh"](q, q, v)
    mask = lsh_mask(lsh_buckets(q, n_buckets=8, n_hashes=4), chunk_size=64)
    dense = attention(q, F.normalize(q, dim=-1), v, mask)
    assert_same(ready.call(*ready.inputs), dense, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_the_case_of_clusters_is_the_work_of_its_peer():
    case, (q, k, v) = peer("routing/routing-transformer"), tensors(512)
    ready, theirs = (make(q, k, v) for make in (ROUTERS["routing"], case.make))
    found = ready.call(*ready.inputs), theirs.call(*theirs.inputs)
    # other centroids, so other clusters: as many queries get an answer, up to a few
    answered = [(x.abs().sum(dim=-1) > 0).float().mean() for x in found]
    assert_same(*answered, rtol=0.1, atol=0.0)


def test_the_case_of_sorted_blocks_reads_a_mixture_and_the_own_block():
    ready = ROUTERS["sinkhorn"](*tensors(256))
    q, k, v, scores = ready.inputs
    assert all(x.requires_grad for x in ready.inputs)
    sort = soft_permutation(scores)
    q, k, v = (x.unflatten(2, (4, 64)) for x in (q, k, v))
    mixed = [torch.einsum("bhij,bhjtd->bhitd", sort, x) for x in (k, v)]
    dense = attention(q, *(torch.cat(pair, dim=3) for pair in zip(mixed, (k, v), strict=True)))
    assert_same(ready.call(*ready.inputs), dense.flatten(2, 3), rtol=1e-4, atol=1e-5)


def peer(name: str) -> Case:
    pytest.importorskip(peers.LIBRARIES[name])
    return peers.ALL[name]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["window/local-attention", "blocks/local-attention", "longformer/transformers"]
)
def test_a_library_does_the_same_work(name):
    case, qkv = peer(name), tensors(1024)
    ready = case.make(*qkv)
    dense = attention(*qkv, PATTERNS[case.work](1024).mask(1024))
    for _ in range(2):  # a layer that writes into its input is right only once
        found = ready.call(*ready.inputs)
        if found.dim() == 3:  # (b, n, d_model)
            found = found.unflatten(2, (8, 64)).transpose(1, 2)
        assert_same(found, dense, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_bigbird_of_transformers_reads_random_blocks():
    ready = peer("bigbird/transformers").make(*tensors(1024))
    (reads,) = torch.autograd.grad(ready.call(*ready.inputs)[0, 512].sum(), ready.inputs[2:])
    blocks = reads[0].abs().view(16, 64, 8, 64).sum(dim=(1, 3)) > 0  # (key block, head)
    assert (blocks.sum(dim=0) == 3 + 2 + 3).all()  # neighbours, both ends, random ones


@pytest.mark.parametrize("work", peers.FLEX_RULES)
def test_rules_for_flex_attention_are_those_of_the_patterns(work):
    i, j = torch.arange(1024)[:, None], torch.arange(1024)
    found = peers.FLEX_RULES[work](1024)(torch.tensor(0), torch.tensor(0), i, j)
    assert torch.equal(found, PATTERNS[work](1024).mask(1024))


def test_gradients_are_those_of_all_inputs():
    q, k, v = tensors(8)
    ready = Ready((q, k, v), attention)
    found = timing.runner(ready, "gradients")()
    assert [gradient.shape for gradient in found] == [q.shape, k.shape, v.shape]
    assert not timing.runner(ready, "forward")().requires_grad


# ------------------------------------------------------------------------ nothing is hidden


def fails(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Ready:
    raise ValueError("no luck with /home/someone/library.py today")


def lacks_a_library(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Ready:
    import no_such_library  # noqa: F401


def lacks_a_tool(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Ready:
    raise timing.Missing("a C++ compiler")


def fails_when_called(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Ready:
    return Ready((q, k, v), lambda q, k, v: q @ k)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (fails, "failed: ValueError: no luck with … today"),
        (lacks_a_library, "not installed: no_such_library"),
        (lacks_a_tool, "not installed: a C++ compiler"),
        (fails_when_called, "failed: RuntimeError"),
    ],
)
def test_a_case_that_fails_is_reported_and_the_others_go_on(make, said):
    cases = [Case("window/library", make), *CASES[:2]]
    found = {c["case"]: c for c in timing.measure(cases, 32, ["forward"], repeats=1)}
    assert found["window/library"]["error"].startswith(said)
    assert found[ours("window")]["to_dense"] > 0
    results = planted(*found.values())
    assert "What did not run" in tables(results)
    assert line(found["window/library"]) in tables(results)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux counts peaks")
def test_a_process_that_dies_is_reported():
    def die() -> dict:
        raise SystemExit(3)

    assert memory.in_child(lambda: fails(None, None, None))["error"].startswith("failed: ValueE")
    assert "ended early" in memory.in_child(die)["error"]


# ------------------------------------------------------------------------------- arithmetic


def test_ratios_are_those_of_medians_in_one_run():
    numbers = timing._numbers(ours("window"), 1024, [2.0, 8.0, 4.0], [10.0, 16.0, 40.0])
    share = Window(256).edges(1024) / 1024**2
    assert numbers["to_dense"] == 4 / 16
    assert numbers["to_dense_fastest"] == 2 / 10
    assert numbers["to_limit"] == pytest.approx(4 / 16 / share)


# ------------------------------------------------------------------------------------- bars


def test_a_bar_is_met_missed_or_not_measured():
    def status(value: float | None, at_least: bool = False) -> str:
        bar = Bar("a number", "", 2.0, lambda results: value, at_least=at_least)
        return bar.verdict(planted())["status"]

    assert [status(x) for x in (1.9, 2.0, 2.1, None)] == ["met", "met", "missed", "not measured"]
    assert [status(x, at_least=True) for x in (1.9, 2.0)] == ["missed", "met"]


def test_bars_take_their_values_from_the_right_cells():
    window, forward = ours("window"), "forward"
    results = planted(
        cell("time", window, mode=forward, seconds=0.5, to_dense=0.04, to_limit=1.3),
        cell("time", window, mode="gradients", seconds=2.0, to_dense=0.05),
        cell("time", "window/FlexAttention", mode=forward, to_dense=0.05),
        cell("time", "window/local-attention", mode="gradients", to_dense=0.15),
        cell("time", ours("blocks"), mode=forward, to_limit=1.2),
        cell("memory", DENSE, mode=forward, bytes=100e6),
        cell("memory", window, mode=forward, bytes=110e6),
        cell("schedule", window, seconds=0.2),
        cell("schedule", ours("bigbird"), MILLION, seconds=4.0, bytes=0.5e9),
    )
    assert verdict(results, "share of dense attention's time", "window, forward") == (0.04, "met")
    assert (
        verdict(results, "aim: share of dense attention's time", "window, forward")[1] == "missed"
    )
    assert verdict(results, "share of dense attention's time", "window, gradients") == (
        0.05,
        "missed",
    )
    flex, *others = [v for v in verdicts(results) if "FlexAttention's" in v["what"]]
    assert [v["of"] for v in others] == [
        f"{w}, forward" for w in ("longformer", "bigbird", "blocks")
    ]
    assert all(v["value"] is None for v in others)
    assert (flex["value"], flex["status"]) == (pytest.approx(0.8), "met")
    assert verdict(results, "time × the pattern's limit", "blocks, forward") == (1.2, "missed")
    assert verdict(results, "time × the pattern's limit", "fixed, forward")[1] == "not measured"
    assert verdict(results, "memory × dense attention's", "window, forward")[1] == "met"
    found = verdict(results, "time of a schedule × one forward", "window")
    assert found == (pytest.approx(0.4), "missed")
    faster = "window, local-attention, gradients"
    assert verdict(results, "times faster than a library", faster) == (pytest.approx(3), "met")
    million = "of a schedule for 1,048,576 tokens"
    assert verdict(results, f"seconds {million}", "bigbird") == (4.0, "met")
    assert verdict(results, f"GB {million}", "bigbird") == (0.5, "met")


@pytest.mark.parametrize(("power", "status"), [(1.0, "met"), (1.2, "missed")])
def test_a_bar_on_growth_fits_4k_to_64k(power, status):
    lengths = [1024, 4096, 16_384, 65_536]
    cells = [
        cell("time", ours("star"), n, "forward", seconds=1.0 if n == 1024 else 1e-6 * n**power)
        for n in lengths
    ]
    what = "exponent of time, 4k to 64k tokens"
    value, found = verdict(planted(*cells), what, "star, forward")
    assert (value, found) == (pytest.approx(power), status)
    assert verdict(planted(*cells[:3]), what, "star, forward") == (None, "not measured")


def test_every_bar_is_of_a_case_or_measured_elsewhere():
    for bar in BARS:
        measured = bar.of.split(",")[0] in {*PATTERNS, *ROUTERS, *LAYOUTS}
        assert measured or bar.elsewhere or "chapter" in bar.of


def test_bars_of_chapters_read_what_chapters_took(tmp_path, monkeypatch):
    monkeypatch.setattr(bars, "CHAPTERS", tmp_path / "chapters.json")
    mine = [bar for bar in BARS if "chapter" in bar.of]
    assert [bar.value(Results({})) for bar in mine] == [None] * 3
    took = {"a": {"seconds": 90, "mebibytes": 512}, "b": {"seconds": 30, "mebibytes": 2048}}
    bars.CHAPTERS.write_text(json.dumps(took), encoding="utf-8")
    assert [bar.value(Results({})) for bar in mine] == [90, 2.0, 2.0]


def test_recorded_chapters_keep_their_bars():
    for bar in BARS:
        if "chapter" in bar.of:
            assert bar.verdict(Results({}))["status"] == "met", bar.of
    assert len({(bar.what, bar.of) for bar in BARS}) == len(BARS)


# ------------------------------------------------------------------------------ what is kept


def test_a_partial_run_replaces_only_its_own_cells(tmp_path):
    file = tmp_path / "bench.json"
    before = planted(
        cell("time", DENSE, mode="forward", seconds=1.0),
        cell("time", ours("window"), mode="forward", error="failed: it was Monday"),
        cell("time", ours("blocks"), mode="forward", seconds=0.1),
    )
    before.save(file, summary(before))
    after = Results.to_continue(file, MACHINE)
    after.add(cell("time", ours("window"), mode="forward", seconds=0.05))
    after.save(file, summary(after))
    again = Results.load(file)
    assert again.get("time", ours("window"), "forward", AT, "seconds") == 0.05
    assert again.get("time", ours("blocks"), "forward", AT, "seconds") == 0.1
    assert again.failures() == []


def test_numbers_of_two_machines_are_not_mixed(tmp_path, capsys):
    file = tmp_path / "bench.json"
    planted(cell("time", DENSE, mode="forward", seconds=1.0)).save(file, {})
    found = Results.to_continue(file, {**MACHINE, "cpu": "another processor"})
    assert found.cells == {}
    assert "held the numbers of another machine" in capsys.readouterr().out


def test_the_machine_is_described_and_not_named():
    found = json.dumps(machine())
    assert platform.node() not in found
    assert not re.search(r"/\w+/", found)


def test_one_command_measures_stores_and_reports(tmp_path, capsys):
    file = tmp_path / "bench.json"
    arguments = ["--only", "star", "--n", "256", "--repeats", "1", "--modes", "forward"]
    assert main([*arguments, "--kinds", "time", "schedule", "--out", str(file)]) == 0
    stored = json.loads(file.read_text())
    kinds = {(c["kind"], c["case"]) for c in stored["cells"]}
    assert kinds == {("time", ours("star")), ("schedule", ours("star"))}  # dense was not asked for
    assert all("error" not in c or "only Linux" in c["error"] for c in stored["cells"])
    here = [bar for bar in stored["bars"] if "chapter" not in bar["of"]]
    assert {bar["status"] for bar in here} == {"not measured"}
    said = capsys.readouterr().out
    assert "× dense" in said
    assert main(["--report", "--out", str(file)]) == 0
    assert tables(Results.load(file)) in capsys.readouterr().out


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "widow"])
    assert "no case is called widow" in capsys.readouterr().err


# ---------------------------------------------------------------------- where the time goes


def test_each_operation_belongs_to_one_part():
    expected = {
        "aten::bmm": "products",
        "aten::baddbmm": "products",
        "aten::sampled_addmm": "products",
        "aten::_softmax": "softmax",
        "aten::exp2_": "softmax",
        "aten::index_add_": "copies",
        "aten::cat": "copies",
        "aten::add_": shares.OTHER,
        "_Attend": shares.PYTHON,
        "call": shares.PYTHON,
    }
    assert {name: shares.part_of(name) for name in expected} == expected


def test_a_call_that_only_multiplies_spends_its_time_on_products():
    def multiply(q, k, v):
        for _ in range(3):
            out = q @ k.transpose(-1, -2) @ v
        return out

    cases = [
        Case("products/one", lambda q, k, v: Ready((q, k, v), multiply)),
        Case("broken/one", lambda q, k, v: Ready((q, k, v), lambda q, k, v: 1 / 0)),
    ]
    good, bad = shares.measure(cases, 512, ["forward"])
    parts = {key: good[key] for key in (*shares.PARTS, shares.OTHER, shares.PYTHON)}
    assert sum(parts.values()) == pytest.approx(1)
    assert max(parts, key=parts.get) == "products"
    assert (good["kind"], good["case"], good["n"]) == ("shares", "products/one", 512)
    assert "ZeroDivisionError" in bad["error"]
    said = tables(planted(good, bad))
    assert "Where the time goes, forward" in said
    assert f"{parts['products']:.2f}" in said
