"""What `make` asks before it installs anything."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def run(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def run_as(version: tuple[int, int]) -> subprocess.CompletedProcess:
    script = TOOLS / "supported_python.py"
    return run(
        "-c", f"import sys; sys.version_info = {version}; exec(open({str(script)!r}).read())"
    )


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_supported_pythons_pass_silently(version):
    found = run_as(version)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_other_pythons_are_refused_in_a_sentence(version):
    found = run_as(version)
    assert found.returncode == 1
    assert f"needs Python 3.11, 3.12 or 3.13, and this is Python 3.{version[1]}" in found.stderr


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is asked")


class Index(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/slow"):
            self.server.released.wait(30)
        self.send_response(200 if self.path in ("/good/torch/", "/slow/torch/") else 404)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def index():
    with HTTPServer(("127.0.0.1", 0), Index) as server:
        server.released = threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.released.set()
        server.shutdown()
        thread.join()


@needs_linux
def test_an_index_that_answers_is_used(index):
    found = run(TOOLS / "cpu_wheels.py", f"{index}/good")
    assert found.stdout.strip() == f"--extra-index-url {index}/good"


@needs_linux
@pytest.mark.parametrize("folder", ["slow", "missing"])
def test_an_index_that_does_not_answer_is_not_used(index, folder):
    assert run(TOOLS / "cpu_wheels.py", f"{index}/{folder}").stdout == ""


@needs_linux
def test_a_host_that_is_not_there_is_not_used():
    assert run(TOOLS / "cpu_wheels.py", "http://127.0.0.1:9").stdout == ""
