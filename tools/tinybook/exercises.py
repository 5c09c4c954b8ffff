"""Names for exercises: {ref}`7.3 <exercise-7-3>` leads to the section "Exercise 7.3. Its title".
Cells that are tagged as solutions fold under that word."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

NUMBERED = re.compile(r"Exercise (\d+)\.(\d+)\. ")


class Exercises(SphinxTransform):
    default_priority = 400  # before Sphinx collects what can be referred to

    def apply(self, **options) -> None:
        for section in self.document.findall(nodes.section):
            number = NUMBERED.match(section[0].astext())
            if number:
                name = f"exercise-{number[1]}-{number[2]}"
                section["names"].append(name)
                self.document.note_explicit_target(section, section)
                section["ids"].append(name)  # for links that know no title: the list of progress
        for cell in self.document.findall(is_solution):
            cell["prompt_show"], cell["prompt_hide"] = "Solution", "Hide the solution"


def is_solution(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "tag_solution" in node["classes"]


def setup(app) -> None:
    app.add_transform(Exercises)
