"""Run one submitted notebook while nothing worth looking for lies around it.

nbgrader runs a submission in a kernel whose working directory is the course: students' code could
read the hidden tests in the gradebook, and write into it. Here the whole course directory is in
memory, not on disk, until the kernel has ended. The kernel works in an empty folder; what it prints
is cut off after a while, and of what it shows only text and PNG pictures are kept.
"""

from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute

LARGEST_OUTPUT = 100_000  # characters of one cell that are kept
LARGEST_PICTURE = 1_000_000  # characters of one picture
LARGEST_MESSAGE = 2_000  # characters of one error
KEPT = ("text/plain", "image/png")
CUT = "\n... cut off: the cell prints more than is kept ...\n"


class ShieldedExecute(Execute):
    """nbgrader's step that runs the cells, with the course out of reach and outputs limited.

    Settings of Execute (timeout of a cell, for one) hold here too.
    """

    def preprocess(self, nb, resources, km=None):
        self.kept = {}
        root = Path(resources["nbgrader"]["db_url"].removeprefix("sqlite:///")).parent
        scratch = root.parent / "scratch"
        scratch.mkdir(exist_ok=True)
        resources["metadata"]["path"] = str(scratch)
        files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for path in files:
            path.unlink()
        try:
            return super().preprocess(nb, resources, km)
        finally:
            for path, content in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_bytes(content)

    def _get_timeout(self, cell):
        """The imports at the top are ours: a slow machine's import of PyTorch costs nobody points."""
        marks = cell.metadata.get("nbgrader", {}) if cell is not None else {}
        is_ours = marks.get("locked") and not marks.get("grade")
        return None if is_ours else super()._get_timeout(cell)

    def output(self, outs, msg, display_id, cell_index):
        content = msg["content"]
        if msg["msg_type"] == "stream":
            room = LARGEST_OUTPUT - self.kept.get(cell_index, 0)
            if room <= 0 or content["name"] == "stderr":
                return None  # nbgrader takes points for whatever stands on stderr, warnings too
            content["text"] = _shortened(content["text"], room)
            self.kept[cell_index] = self.kept.get(cell_index, 0) + len(content["text"])
        elif msg["msg_type"] == "error":
            content["evalue"] = _shortened(content["evalue"], LARGEST_MESSAGE)
            content["traceback"] = [
                _shortened(line, LARGEST_MESSAGE) for line in content["traceback"]
            ]
        elif "data" in content:
            content["data"] = _harmless(content["data"])
            if len(outs) >= 50 or not content["data"]:
                return None
        return super().output(outs, msg, display_id, cell_index)

    def on_cell_executed(self, **kwargs):
        super().on_cell_executed(**kwargs)
        cell = kwargs["cell"]
        reply = kwargs["execute_reply"]["content"]
        if _is_graded(cell) and reply["status"] != "ok" and not _has_error(cell):
            cell.outputs.append(new_output("error", ename="Error", evalue="", traceback=["Error"]))
        for output in cell.outputs if _is_graded(cell) else []:
            if output.output_type == "error":  # the lines above the message show the hidden test
                said = output.evalue if output.ename == "AssertionError" else ""
                output.traceback = [said or f"{output.ename}: {output.evalue}"]


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else text[:room] + CUT


def _harmless(data: dict) -> dict:
    """Text and pictures: no HTML or script reaches the page that a teacher opens."""
    kept = {kind: data[kind] for kind in KEPT if isinstance(data.get(kind), str)}
    if len(kept.get("image/png", "")) > LARGEST_PICTURE:
        del kept["image/png"]
    if "text/plain" in kept:
        kept["text/plain"] = _shortened(kept["text/plain"], LARGEST_OUTPUT)
    return kept


def _is_graded(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def _has_error(cell: NotebookNode) -> bool:
    return any(output.output_type == "error" for output in cell.outputs)
