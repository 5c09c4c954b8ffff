"""The package's docstrings as parts of a page: plain words, no markup but `code`."""

import re
from textwrap import dedent

from docutils import nodes

SECTIONS = ("Args", "Returns", "Yields", "Raises", "Source", "Example")
INLINE = re.compile(r"`([^`]+)`|arXiv:(\d{4}\.\d{5})")


def parsed(docstring: str) -> list[nodes.Node]:
    """What a docstring says, section by section, as nodes of a page."""
    found: list[nodes.Node] = []
    for name, text in sections(docstring):
        if name:
            found.append(nodes.rubric("", name, classes=["api-section"]))
        if name in ("Args", "Raises"):
            found.append(definitions(text))
        elif name == "Example":
            found.append(code(text, "pycon"))
        else:
            found += paragraphs(text)
    return found


def sections(docstring: str) -> list[tuple[str, str]]:
    """Names and texts of the sections; the first has no name."""
    found, lines = [], []
    name = ""
    for line in docstring.strip("\n").splitlines():
        if line.rstrip().removesuffix(":") in SECTIONS and line.rstrip().endswith(":"):
            found.append((name, lines))
            name, lines = line.strip().removesuffix(":"), []
        else:
            lines.append(line)
    found.append((name, lines))
    texts = [(name, dedent("\n".join(lines)).strip("\n")) for name, lines in found]
    return [(name, text) for name, text in texts if text.strip()]


def paragraphs(text: str) -> list[nodes.Node]:
    """Paragraphs; what is indented is shown as it is, what starts with a dash is a list."""
    found: list[nodes.Node] = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("    "):
            found.append(code(dedent(block), "text"))
        elif block.startswith("- "):
            items = [
                nodes.list_item("", paragraph(item))
                for item in re.split(r"\n?^- ", block, flags=re.MULTILINE)
                if item
            ]
            found.append(nodes.bullet_list("", *items))
        else:
            found.append(paragraph(block))
    return found


def definitions(text: str) -> nodes.definition_list:
    """Lines of the form `name: what it is`, the next ones indented."""
    items = []
    for entry in re.split(r"\n(?=\S)", text):
        term, _, meaning = entry.partition(":")
        items.append(
            nodes.definition_list_item(
                "",
                nodes.term("", "", nodes.literal("", term.strip())),
                nodes.definition("", *paragraphs(dedent(meaning.strip("\n")).strip())),
            )
        )
    return nodes.definition_list("", *items)


def paragraph(text: str) -> nodes.paragraph:
    """One paragraph with code in backticks, and papers as links."""
    text = re.sub(r"\s*\n\s*", " ", text.strip())
    parts: list[nodes.Node] = []
    end = 0
    for match in INLINE.finditer(text):
        parts.append(nodes.Text(text[end : match.start()]))
        if match[1]:
            parts.append(nodes.literal("", match[1]))
        else:
            parts.append(nodes.reference("", match[0], refuri=f"https://arxiv.org/abs/{match[2]}"))
        end = match.end()
    parts.append(nodes.Text(text[end:]))
    return nodes.paragraph("", "", *parts)


def code(text: str, language: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language)
