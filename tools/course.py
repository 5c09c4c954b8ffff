"""A course directory of nbgrader, opened from Python with the settings that stand in it."""

from __future__ import annotations

import logging
import os
import sysconfig
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.converters.base import BaseConverter
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

SETTINGS = "nbgrader_config.py"


def convert(
    step: type[BaseConverter],
    root: Path,
    assignment: str,
    student: str = "*",
    config: Config | None = None,
    **settings: object,
) -> None:
    """Run one step of nbgrader, GenerateAssignment for example; its warnings go to stderr.

    Raises:
        nbgrader.converters.base.NbGraderException: if the step fails for any student.
    """
    config = config or configuration(root)
    course = CourseDirectory(
        root=str(root.resolve()), assignment_id=assignment, student_id=student, config=config
    )
    converter = step(coursedir=course, config=config, **settings)
    converter.log.setLevel(logging.ERROR)
    converter.log.addHandler(logging.StreamHandler())
    find_alembic()
    converter.start()


def configuration(root: Path) -> Config:
    return PyFileConfigLoader(SETTINGS, path=str(root.resolve())).load_config()


def gradebook(root: Path) -> Gradebook:
    """The marks of a course, an SQLite file; it is made if there is none."""
    find_alembic()
    return Gradebook(f"sqlite:///{root.resolve() / 'gradebook.db'}", "tinyattn")


def find_alembic() -> None:
    """nbgrader calls the command `alembic`, which stands beside this Python and not always on PATH."""
    scripts = sysconfig.get_path("scripts")
    if scripts not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = scripts + os.pathsep + os.environ.get("PATH", "")
