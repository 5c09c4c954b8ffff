"""nbgrader's settings for the assignments of this book. It stands in the course directory."""

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.preprocessors import ClearHiddenTests, GetGrades

c = get_config()  # which nbgrader defines

c.CourseDirectory.course_id = "tinyattn"

# The empty answer stands above this line, and stays.
c.ClearSolutions.code_stub = {"python": "# Replace the ... above by your answer."}

# A deleted check is put back, a changed one too (always). Endless answers are stopped.
c.OverwriteCells.add_missing_cells = True
c.Execute.timeout = 30
c.Execute.iopub_timeout = 20  # for the last output to arrive, on a machine that is busy

# Of an error only its first line and its message are kept: the lines between show hidden tests.
c.LimitOutput.max_lines = 200
c.LimitOutput.max_traceback = 3

# Feedback shows students their own cells and marks, not the hidden tests and their seed.
c.GenerateFeedback.preprocessors = [GetGrades, ClearHiddenTests, CSSHTMLHeaderPreprocessor]

# Students write Markdown that the teacher's browser shows: no script in it runs.
c.HTMLExporter.sanitize_html = True
