"""Uploads: forms of several parts, read as objects of JSON, so that they have keys and draws."""

from __future__ import annotations

import hashlib
import re
from email import message_from_bytes
from pathlib import PurePath

from pytest_llmeval.models.http.stream import JsonObject

FORM = "multipart/form-data"
_BOUNDARY = re.compile(r'boundary="?([^";,]+)"?', re.IGNORECASE)
# A reply in another form than JSON is not understood, so it is not kept.
_AS_JSON = (None, "json", "verbose_json", "diarized_json")


def form_object(content: bytes, content_type: str) -> JsonObject | None:
    """Read a form whose reply is kept; None for any other.

    What is random in it is left out: the boundary between its parts, and all of a file's name but
    its ending. The file itself stands there by its digest.
    """
    found = _BOUNDARY.search(content_type)
    fields: dict[str, list[object]] = {}
    for part in content.split(b"--" + found[1].encode())[1:-1] if found else ():
        head, _, value = part.partition(b"\r\n\r\n")
        headers = message_from_bytes(head.lstrip())
        name, file = headers.get_param("name", header="content-disposition"), headers.get_filename()
        value = value.removesuffix(b"\r\n")
        told: object = value.decode("utf-8", "replace")
        if file is not None:
            told = {"suffix": PurePath(file).suffix, "sha256": hashlib.sha256(value).hexdigest()}
        fields.setdefault(str(name), []).append(told)
    form = {name: told[0] if len(told) == 1 else told for name, told in fields.items()}
    is_kept = form.pop("stream", "false") == "false" and form.get("response_format") in _AS_JSON
    return form if form and is_kept else None
