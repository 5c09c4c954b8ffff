"""Quizzes and lists to tick off, as Python makes them and as they look without JavaScript."""

import json
from html.parser import HTMLParser

import pytest

from tinyattn.show import Checklist, quiz

CHOICES = {"2w": "Its own key is missing.", "2w + 1": "w on each side & its own."}


def asked(**changes):
    given = {"name": "atomic/keys", "question": "How many?", "choices": CHOICES, "right": "2w + 1"}
    return quiz(**{**given, **changes})


class State(HTMLParser):
    """The state that a page's widget starts from."""

    found: dict

    def handle_starttag(self, tag, attrs):
        if "data-state" in (named := dict(attrs)):
            self.found = json.loads(named["data-state"])


def state_of(html):
    parser = State()
    parser.feed(html)
    return parser.found


def test_the_page_knows_every_answer_and_its_reason_in_order():
    state = state_of(asked().page_html())
    assert state["kind"] == "quiz"
    assert [choice["text"] for choice in state["choices"]] == list(CHOICES)
    assert [choice["why"] for choice in state["choices"]] == list(CHOICES.values())
    assert [choice["right"] for choice in state["choices"]] == [False, True]


def test_without_javascript_each_answer_folds_out_its_sentence():
    still = asked().still()
    assert "<summary>2w</summary><p>Not that one. Its own key is missing.</p>" in still
    assert "<summary>2w + 1</summary><p>Right. w on each side &amp; its own.</p>" in still


def test_markup_in_a_question_stays_text():
    assert "<script>" not in asked(question="<script>alert(1)</script>").page_html()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"right": "3w"}, "right must be one of two or more choices, got '3w'"),
        ({"choices": {"2w + 1": "Yes."}}, "two or more choices"),
        ({"choices": {"2w": " ", "2w + 1": "Yes."}}, "'2w' has none"),
        ({"name": "keys"}, "name must be \"chapter/name\", got 'keys'"),
        ({"name": "/"}, "name must be \"chapter/name\", got '/'"),
        ({"name": 5}, 'name must be "chapter/name", got 5'),
        ({"question": " "}, "question must be a sentence, got ' '"),
        ({"question": 5}, "question must be a sentence, got 5"),
        ({"right": ["2w"]}, r"right must be one of two or more choices, got \['2w'\]"),
        ({"right": None}, "right must be one of two or more choices, got None"),
    ],
)
def test_a_quiz_that_teaches_nothing_is_refused(changes, problem, refusals):
    with pytest.raises(ValueError, match=problem):
        asked(**changes)


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        (["2w", "2w + 1"], "choices must be a mapping from text to text, got list"),
        (None, "choices must be a mapping from text to text, got NoneType"),
        ({"2w": 5, "2w + 1": "Yes."}, "choices must be texts for texts, got '2w': 5"),
        ({2: "No.", "2w + 1": "Yes."}, "choices must be texts for texts, got 2: 'No.'"),
    ],
)
def test_choices_are_texts_for_texts(choices, problem, refusals):
    with pytest.raises(TypeError, match=problem):
        asked(choices=choices)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        (["Attention"], "groups must be mappings by name, got list"),
        ({"Attention": ["attention/row"]}, "the group 'Attention' must be a mapping .*, got list"),
        ({"Attention": {"attention/row": 5}}, "the group 'Attention' must be texts for texts"),
    ],
)
def test_what_is_to_be_done_has_a_name_and_a_title(groups, problem, refusals):
    with pytest.raises(TypeError, match=problem):
        Checklist("Solved", groups)


def test_a_list_says_what_there_is_to_do():
    groups = {"Attention": {"attention/row": "One row", "attention/heads": "Heads"}}
    done = Checklist("Solved", groups)
    assert state_of(done.page_html())["groups"][0]["items"][1]["title"] == "Heads"
    assert "<li>One row</li><li>Heads</li>" in done.still()
    assert repr(done).splitlines() == [
        "Solved",
        "  Attention",
        "    [ ] One row",
        "    [ ] Heads",
    ]
    with pytest.raises(ValueError, match="the group 'Empty' has nothing"):
        Checklist("Solved", {"Empty": {}})


def test_a_front_end_is_sent_what_a_page_is_told():
    items = Checklist("Solved", {"Attention": {"attention/row": "1. A row"}})
    for widget in (asked(), items):
        state = widget.page_state()
        assert {key: widget.get_state()[key] for key in state} == state


def test_a_list_has_no_buttons_if_nobody_asks_for_them():
    assert not Checklist("Solved", {"Attention": {"attention/row": "1. A row"}}).overview


def test_a_thing_with_a_place_leads_there():
    done = Checklist("Solved", {"A": {"a/b": "B & C", "a/d": "D"}}, links={"a/b": "x.html#b"})
    assert '<li><a href="x.html#b">B &amp; C</a></li><li>D</li>' in done.still()
    items = state_of(done.page_html())["groups"][0]["items"]
    assert [item["link"] for item in items] == ["x.html#b", ""]
