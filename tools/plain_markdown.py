"""Turn the book's Markdown into what JupyterLab shows without the book's machinery.

Folded boxes become HTML, links to chapters become links to the published page, citations the
names and the year. What has no plain form is refused: a student must not meet raw directives.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(`{3,}|:{3,})(?:\{([\w-]+)\}[ ]*)?(.*)\n((?:.*\n)*?)\1[ ]*$", re.MULTILINE)
OPTIONS = re.compile(r"\A(?::[\w-]+:.*\n)+")
ROLE = re.compile(r"\{([\w:-]+)\}`([^`]+)`")
BOXES = {"note": "Note", "tip": "Tip", "important": "Important", "warning": "Warning"}


def plain(markdown: str, page: str) -> str:
    """The same text in plain Markdown.

    Args:
        markdown: of a cell.
        page: where it stands, from the repository's root, "book/exercises/attention.ipynb".

    Raises:
        ValueError: if the text holds a directive or a role that has no plain form here.

    Example:
        >>> print(plain("```{dropdown} Hint\\nTransposed.\\n```\\n", "book/a.ipynb"))
        <details>
        <summary>Hint</summary>
        <BLANKLINE>
        Transposed.
        <BLANKLINE>
        </details>
    """
    text, done = [], 0
    for fence in FENCE.finditer(markdown):
        text += [_without_roles(markdown[done : fence.start()], page), _unfolded(fence, page)]
        done = fence.end()
    return "".join([*text, _without_roles(markdown[done:], page)]).strip()


def _unfolded(fence: re.Match, page: str) -> str:
    _, directive, title, body = fence.groups()
    if directive is None:
        return fence[0]  # a block of code
    body = plain(OPTIONS.sub("", body), page)
    if directive == "dropdown":
        return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"
    if directive == "math":
        return f"$$\n{body}\n$$"
    if directive in BOXES:
        lines = f"**{BOXES[directive]}.** {body}".splitlines()
        return "\n".join(f"> {line}".rstrip() for line in lines)
    raise ValueError(f"{page}: the directive {directive} has no plain form in an assignment")


def _without_roles(text: str, page: str) -> str:
    def replace(found: re.Match) -> str:
        name, content = found.groups()
        if name == "doc":
            return _link(content, page)
        if name.startswith("cite"):
            return _citation(content, in_brackets=name in ("cite", "cite:p"))
        if name == "math":
            return f"${content}$"
        raise ValueError(f"{page}: the role {name} has no plain form in an assignment")

    return ROLE.sub(replace, text)


def _link(content: str, page: str) -> str:
    titled = re.fullmatch(r"(.*?)\s*<(.+)>", content)
    title, target = titled.groups() if titled else (None, content)
    path = _from_root(Path(page).parent, target)
    return f"[{title or _title(path)}]({site()}/{path}.html)"


def _from_root(folder: Path, target: str) -> str:
    parts = [] if target.startswith("/") else list(folder.parts)
    for part in target.strip("/").split("/"):
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _title(path: str) -> str:
    """Of a page of the book: its first heading."""
    import nbformat

    notebook = ROOT / f"{path}.ipynb"
    text = (
        nbformat.read(notebook, as_version=4).cells[0].source
        if notebook.exists()
        else (ROOT / f"{path}.md").read_text(encoding="utf-8")
    )
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1]


def site() -> str:
    """The address of the published book: GitHub Pages of the repository in _config.yml."""
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    owner, name = re.search(r"url: https://github\.com/([\w-]+)/([\w-]+)", config).groups()
    return f"https://{owner}.github.io/{name}"


def _citation(keys: str, in_brackets: bool) -> str:
    said = [_authors_and_year(key.strip()) for key in keys.split(",")]
    if in_brackets:
        return f"({'; '.join(f'{authors}, {year}' for authors, year in said)})"
    return " and ".join(f"{authors} ({year})" for authors, year in said)


def _authors_and_year(key: str) -> tuple[str, str]:
    sources = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    entry = re.search(rf"^@\w+\{{{re.escape(key)},([\s\S]*?)^\}}", sources, re.MULTILINE)
    if entry is None:
        raise ValueError(f"book/references.bib has no entry {key}")
    names = re.search(r"author\s*=\s*\{(.*?)\}\s*,?\s*$", entry[1], re.MULTILINE)[1].split(" and ")
    last = [
        re.sub(r"[{}]", "", name.split(",")[0] if "," in name else name.split()[-1])
        for name in names
    ]
    year = re.search(r"year\s*=\s*\{?(\d{4})", entry[1])[1]
    authors = last[0] if len(last) == 1 else f"{last[0]} et al."
    return (" and ".join(last) if len(last) == 2 else authors), year
