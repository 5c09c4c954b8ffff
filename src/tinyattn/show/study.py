"""Quizzes of one question, and lists to tick off. What a reader did stays in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import traitlets

from tinyattn.show.widgets import StaticWidget


class Quiz(StaticWidget, module="study"):
    """What `quiz` returns: one question, with a sentence for each answer."""

    kind = traitlets.Unicode("quiz").tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Dict()).tag(sync=True)

    def page_state(self) -> dict[str, object]:
        return {key: getattr(self, key) for key in ("kind", "name", "question", "choices")}

    def still(self) -> str:
        answers = "".join(
            f"<details><summary>{escape(choice['text'])}</summary>"
            f"<p>{'Right.' if choice['right'] else 'Not that one.'} {escape(choice['why'])}</p>"
            "</details>"
            for choice in self.choices
        )
        return f'<div class="tinyattn-still"><p><strong>{escape(self.question)}</strong></p>{answers}</div>'

    def __repr__(self) -> str:
        lines = [f"quiz {self.name}: {self.question}"]
        for choice in self.choices:
            lines.append(f"  [{'x' if choice['right'] else ' '}] {choice['text']}: {choice['why']}")
        return "\n".join(lines)


def quiz(name: str, question: str, choices: Mapping[str, str], *, right: str) -> Quiz:
    """A question with answers to choose from; the page explains each, right or wrong.

    It works without a kernel, with the keyboard, and without JavaScript, where each answer folds
    out its sentence. Make it the last line of a cell.

    Args:
        name: chapter and name, "atomic/keys"; under it the browser keeps whether it was answered.
        question: plain text; symbols as Unicode.
        choices: for each answer, in order, why it is right or what thought leads to it.
        right: the one of them that is.

    Raises:
        TypeError: if `choices` hold anything but a sentence for each answer.
        ValueError: if the name or the question is none, there are fewer than two answers, `right` is none of them, or an answer has
            no sentence.

    Example:
        >>> quiz("atomic/keys", "Window(w): how many keys does an inner query read?", right="2w + 1",
        ...      choices={"2w": "Its own key is missing.", "2w + 1": "w on each side, and its own."})
        quiz atomic/keys: Window(w): how many keys does an inner query read?
          [ ] 2w: Its own key is missing.
          [x] 2w + 1: w on each side, and its own.
    """
    if not isinstance(name, str) or name.count("/") != 1 or not all(name.split("/")):
        raise ValueError(f'name must be "chapter/name", got {name!r}')
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"question must be a sentence, got {question!r}")
    _check_sentences("choices", choices)
    if len(choices) < 2 or right not in list(choices):
        raise ValueError(
            f"right must be one of two or more choices, got {right!r} and {list(choices)}"
        )
    if silent := [text for text, why in choices.items() if not why.strip()]:
        raise ValueError(f"every choice needs a sentence that explains it, {silent[0]!r} has none")
    listed = [{"text": text, "why": why, "right": text == right} for text, why in choices.items()]
    return Quiz(name=name, question=question, choices=listed)


class Checklist(StaticWidget, module="study"):
    """Things to tick off, in groups; the ticks stay in the reader's browser.

    Args:
        title: what the list is, for screen readers.
        groups: for each group's name, its things: {"chapter/name": "title"}.
        overview: offer to save, load and forget everything that the browser keeps.
        links: for each thing's name, where it is on the book's pages; their titles lead there.

    Raises:
        TypeError: if a group holds anything but a title for each name.
        ValueError: if a group is empty.
    """

    kind = traitlets.Unicode("list").tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    groups = traitlets.List(traitlets.Dict()).tag(sync=True)
    overview = traitlets.Bool().tag(sync=True)

    def __init__(
        self,
        title: str,
        groups: Mapping[str, Mapping[str, str]],
        *,
        overview: bool = False,
        links: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(groups, Mapping):
            raise TypeError(f"groups must be mappings by name, got {type(groups).__name__}")
        for group, items in groups.items():
            _check_sentences(f"the group {group!r}", items)
        if empty := [name for name, items in groups.items() if not items]:
            raise ValueError(f"the group {empty[0]!r} has nothing to tick off")
        listed = [
            {
                "name": name,
                "items": [
                    {"name": item, "title": said, "link": (links or {}).get(item, "")}
                    for item, said in items.items()
                ],
            }
            for name, items in groups.items()
        ]
        super().__init__(title=title, groups=listed, overview=overview)

    def page_state(self) -> dict[str, object]:
        return {key: getattr(self, key) for key in ("kind", "title", "groups", "overview")}

    def still(self) -> str:
        groups = "".join(
            f"<p>{escape(group['name'])}</p><ul>"
            + "".join(f"<li>{_linked(item)}</li>" for item in group["items"])
            + "</ul>"
            for group in self.groups
        )
        return f'<div class="tinyattn-still">{groups}</div>'

    def __repr__(self) -> str:
        lines = [self.title]
        for group in self.groups:
            lines.append(f"  {group['name']}")
            lines += [f"    [ ] {item['title']}" for item in group["items"]]
        return "\n".join(lines)


def _check_sentences(what: str, given: object) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a mapping from text to text, got {type(given).__name__}")
    for key, text in given.items():
        if not (isinstance(key, str) and isinstance(text, str)):
            raise TypeError(f"{what} must be texts for texts, got {key!r}: {text!r:.80}")


def _linked(item: Mapping[str, str]) -> str:
    title = escape(item["title"])
    return f'<a href="{escape(item["link"])}">{title}</a>' if item["link"] else title
