"""A loopback server of git repositories, which insists on a header and counts what it is asked.

::

    with GitServer(folder, header="AUTHORIZATION: basic c2VjcmV0") as server:
        ...  # address of folder/origin.git: server.url + "/origin.git"
"""

from __future__ import annotations

import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast

from tests.servers.received_body import received_body


class GitServer:
    """Serves the repositories of a folder by ``git http-backend``, from ``with`` on to its end.

    Args:
        folder: of the repositories.
        header: ``NAME: VALUE`` that a request must have, once; else it is answered with 401.

    Attributes:
        requests: each one, as ``POST /origin.git/git-upload-pack``.
        refused: how many lacked the header, or had it twice.
        goes_on: requests are answered while it is set.
    """

    def __init__(self, folder: Path, *, header: str | None = None) -> None:
        self.folder = folder
        self.header = header
        self.requests: list[str] = []
        self.refused = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        cast(Any, self._server).git = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Runs the backend as a CGI program for each request."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Write nothing to stderr."""

    def _answer(self) -> None:
        git: GitServer = cast(Any, self.server).git
        body = received_body(self)
        path, _, query = self.path.partition("?")
        git.requests.append(f"{self.command} {path}")
        git.goes_on.wait()
        if git.header is not None:
            name, _, value = git.header.partition(": ")
            # Of "Basic" the case does not matter.
            if [given.lower() for given in self.headers.get_all(name, [])] != [value.lower()]:
                git.refused += 1
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self._run_backend(git.folder, path=path, query=query, body=body)

    def _run_backend(self, folder: Path, *, path: str, query: str, body: bytes) -> None:
        environ = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": "tester",
        }
        done = subprocess.run(
            ["git", "http-backend"], env=environ, input=body, capture_output=True, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
