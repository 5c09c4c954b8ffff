"""Serves the built book as a web host would, compressed, and counts what it sends."""

import gzip
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Self

COMPRESSED = {".html", ".js", ".css", ".svg", ".json", ".ipynb"}


class Server:
    """A context manager; `sent` maps each path to the bytes of its last answer."""

    def __init__(self, folder: Path) -> None:
        self.sent: dict[str, int] = {}
        handler = partial(Handler, directory=str(folder), sent=self.sent)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}/"

    def __enter__(self) -> Self:
        self.thread = Thread(target=self.http.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for many files, as web hosts have it

    def __init__(self, *args, sent: dict[str, int], **options) -> None:
        self.sent = sent
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        body = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(file))
        if file.suffix in COMPRESSED:
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.sent[self.path] = len(body)

    def log_message(self, *arguments: object) -> None:
        """Stay silent: what goes wrong is seen in the browser."""
