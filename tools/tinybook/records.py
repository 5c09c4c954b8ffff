"""The directive {records}: what the longer checks found, read from results/ when the book is built.

    ```{records} mutants
    ```

shows what `make mutants` wrote; {records} survivors, {records} untried, {records} flaky, {records}
binder and {records} lighthouse show the rest. Each names the commit and the date, and says what is
older than the code.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import mutants as trial
import stamps
from tinybook.checks import page, table

OUTCOMES = ("passed", "failed", "skipped")
SCORES = ("performance", "accessibility", "best-practices", "seo")


def percent(part: int, whole: int) -> str:
    """Rounded down: 100 % is said of all and of nothing less."""
    return f"{100 * part // whole} %"


def mutants(record: dict) -> list[tuple[str, ...]]:
    """A row for each module, and one for all."""
    rows = []
    for name, module in record["modules"].items():
        explained = sum(bool(one["why"]) for one in module["survived"])
        when = f"{module['stamp']['date']}, {module['stamp']['commit']}"
        numbers = module["changes"], module["sample"], module["killed"], explained
        rows.append((name, *numbers, when))
    sums = [sum(row[column] for row in rows) for column in (1, 2, 3, 4)]
    return [
        (
            name,
            *(str(number) for number in (changes, tried, seen, same)),
            percent(seen, tried),
            percent(seen + same, tried),
            when,
        )
        for name, changes, tried, seen, same, when in [*rows, ("all", *sums, "")]
    ]


def survivors(record: dict) -> list[tuple[str, str, str, str]]:
    """Module, line, what became of it, and why no test sees that."""
    return [
        (name, one["old"], one["new"], one["why"] or "not explained yet")
        for name, module in record["modules"].items()
        for one in module["survived"]
    ]


def untried(record: dict) -> dict[str, list[str]]:
    """For each reason to leave modules out, which."""
    found: dict[str, list[str]] = {}
    for name, why in trial.untried(record).items():
        found.setdefault(why, []).append(name)
    return found


def flaky(record: dict) -> list[tuple[str, ...]]:
    """A row for each run of each suite."""
    return [
        (
            name,
            run["order"],
            str(run["threads"]),
            run["instructions"],
            *(str(run.get(outcome, 0)) for outcome in OUTCOMES),
        )
        for name, suite in record["suites"].items()
        for run in suite["runs"]
    ]


def binder(record: dict) -> list[tuple[str, str]]:
    """What, and how much of it."""
    rows = [
        ("packages installed", str(record["packages"])),
        ("MiB on disk", str(record["disk_mib"])),
        ("MiB of memory that a process may hold", str(record["memory_limit_mib"])),
    ]
    chapters = record["chapters"].items()
    return rows + [(f"MiB that {name} held", str(one["peak_mib"])) for name, one in chapters]


def lighthouse(record: dict) -> list[tuple[str, ...]]:
    """A row for each page and screen: four scores out of a hundred, and what was sent."""
    return [
        (
            row["page"],
            row["screen"],
            *(str(row[name]) for name in (*SCORES, "kB")),
        )
        for row in record["rows"]
    ]


def made(record: dict) -> str:
    """When, on what, and of which tests, in a sentence."""
    one = record["stamp"]
    what = f", of {', '.join(record['paths'])}" if "paths" in record else ""
    if record.get("without"):
        what += f", but for {', '.join(record['without'])}"
    return f"Made on {one['date']}, at commit {one['commit']}{what}."


class Records(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        kind = self.arguments[0]
        name = "mutants" if kind in ("survivors", "untried") else kind
        path = Path(self.env.app.srcdir, "results", f"{name}.json")
        self.env.note_dependency(str(path))
        if not path.is_file():
            return [nodes.paragraph("", f"Not done yet: {stamps.RECORDS[name]} does it.")]
        record = json.loads(path.read_text(encoding="utf-8"))
        if kind == "survivors":
            rows = survivors(record)
            return folded(f"The {len(rows)} changes that survived", listed(rows))
        if kind == "untried":
            return [left_out(untried(record))]
        heads = {
            "mutants": [
                "module",
                "changes",
                "tried",
                "seen",
                "the same",
                "seen %",
                "with the same",
                "when",
            ],
            "flaky": ["tests", "order", "threads", "instructions", *OUTCOMES],
            "binder": ["what", "how much"],
            "lighthouse": ["page", "screen", *SCORES, "kB"],
        }
        makers = {"mutants": mutants, "flaky": flaky, "binder": binder, "lighthouse": lighthouse}
        rows = makers[name](record)
        if name == "lighthouse":
            rows = [(page(address), *rest) for address, *rest in rows]
        sentences = [made(record)] if "stamp" in record else []
        if name == "flaky":
            both = sum(len(suite["differences"]) for suite in record["suites"].values())
            sentences.append(f"Tests that said two things: {both}.")
        old = stamps.stale(name, path.parent)
        sentences += [capital(f"{one}.") for one in old] or ["The code is the same now."]
        return [table(heads[name], rows), *(nodes.paragraph("", one) for one in sentences)]


def capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def folded(title: str, inside: nodes.Node) -> list[nodes.Node]:
    """A list too long to stand open."""
    start = f'<details class="folded"><summary>{title}</summary>'
    return [nodes.raw("", start, format="html"), inside, nodes.raw("", "</details>", format="html")]


def listed(rows: list[tuple[str, str, str, str]]) -> nodes.bullet_list:
    items = []
    for module, old, new, why in rows:
        words = [nodes.Text(f"{module}: "), nodes.literal("", old), nodes.Text(" became ")]
        words += [nodes.literal("", new) if new else nodes.Text("nothing")]
        items.append(nodes.list_item("", nodes.paragraph("", "", *words, nodes.Text(f": {why}."))))
    return nodes.bullet_list("", *items)


def left_out(modules: dict[str, list[str]]) -> nodes.Node:
    """An item for each reason; a sentence if nothing was left out."""
    if not modules:
        return nodes.paragraph("", "None is left out.")
    items = [
        nodes.list_item("", nodes.paragraph("", "", nodes.Text(f"{why}: {', '.join(names)}.")))
        for why, names in modules.items()
    ]
    return nodes.bullet_list("", *items)


def setup(app) -> None:
    app.add_directive("records", Records)
