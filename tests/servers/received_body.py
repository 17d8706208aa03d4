"""The body of a request, of known length or in chunks."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler


def received_body(request: BaseHTTPRequestHandler) -> bytes:
    """Read it to its end: what is left would be taken for the next request of the connection."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    chunks = []
    while size := int(request.rfile.readline(), 16):
        chunks.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(chunks)
