"""Faults to plant in quizzes and lists to tick off."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "the page takes every answer for right",
        "show/study.py",
        '"right": text == right}',
        '"right": True}',
        "show/test_study.py::test_the_page_knows_every_answer_and_its_reason_in_order",
    ),
    Fault(
        "an answer without a reason is let through",
        "show/study.py",
        "if not why.strip()]",
        "if not why]",
        "show/test_study.py::test_a_quiz_that_teaches_nothing_is_refused",
    ),
    Fault(
        "a question's markup reaches the page",
        "show/study.py",
        "<strong>{escape(self.question)}</strong>",
        "<strong>{self.question}</strong>",
        "show/test_study.py::test_markup_in_a_question_stays_text",
    ),
    Fault(
        "a title in a list leads nowhere",
        "show/study.py",
        '(links or {}).get(item, "")',
        '""',
        "show/test_study.py::test_a_thing_with_a_place_leads_there",
    ),
]
