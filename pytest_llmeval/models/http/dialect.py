"""The language of a vendor: how its requests and replies are told and read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple

from pytest_llmeval.cache.key import Canonical, canonical_request
from pytest_llmeval.cache.reply import Told
from pytest_llmeval.models.http.stream import JsonObject, joined
from pytest_llmeval.models.limits.budget import OwnLimit
from pytest_llmeval.models.message import ASKING, as_it_is, said_in

AnswerCheck = Callable[[JsonObject], bool]
AnswerFields = Mapping[str, type | tuple[type, ...]]

PLACEHOLDER_KEY = "llmeval-no-key-is-set"

FORM = "multipart/form-data"
_BOUNDARY = re.compile(r'boundary="?([^";,]+)"?', re.IGNORECASE)
# A reply in another form than JSON is not understood, so it is not kept.
_AS_JSON = (None, "json", "verbose_json", "diarized_json")
# Types of a body that may be JSON: LiteLLM names none to ollama, and aiohttp puts in its own.
MAYBE_JSON = ("application/json", "", "application/octet-stream")

# Fields in which most vendors' replies have their answer, and its type.
ANSWER_FIELDS: AnswerFields = {
    "choices": list, "content": (list, str), "data": list, "embedding": list, "embeddings": list,
    "message": dict, "output": list, "response": str, "results": list,
}  # fmt: skip


class RequestFacts(NamedTuple):
    """The facts that a request tells in its path and its body.

    Attributes:
        model: the name of the model; no text where it names none.
        is_stream: a stream is wanted.
        sampling: an object that has the sampling parameters, by our names, among others.
    """

    model: object
    is_stream: bool
    sampling: object


@cache
def ending_in(ends: tuple[str, ...]) -> re.Pattern[str]:
    """Compile patterns for ends of paths; of the one that fits best there is a numbered group.

    It begins first: /api/embeddings of one vendor ends as /embeddings of another does.
    """
    return re.compile(f"(?:{'|'.join(f'({end})' for end in ends)})$")


def read_body(_path: str, body: JsonObject) -> RequestFacts:
    """Read the facts of a request that has them in its body, as most vendors' have."""
    return RequestFacts(model=body.get("model"), is_stream=bool(body.get("stream")), sampling=body)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The language of one vendor: its paths, its headers and its replies.

    Attributes:
        provider: the first half of a model name.
        speaks_as: the vendor whose dialect this is, which stands in keys; "" for the provider.
        paths: patterns for the ends of the paths whose replies are kept.
        uploads: patterns for the ends of paths that take a form with a file.
        key_variable: environment variable of the API key.
        base_variable: the variable of the base URL, whose host is part of every key; "" for none.
        beta_header: request header that changes what a request means, "" for none.
        read_facts: picks model, fingerprint and tokens out of a reply.
        read_request: reads model, stream and sampling parameters out of path and body.
        part_of: words a chunk of a stream as a part of a reply in one piece, see ``joined``.
        is_whole: tells whether such a reply is whole, where the vendor sends no end mark.
        asking: fields of a request that hold messages, in the order in which a model reads them,
            and who says those that name nobody.
        said: lists what a reply says: messages, parts of one, or texts.
        common: words any of these as most vendors do, see ``messages_in``.
        answer_fields: fields of a reply that have room for an answer, and their types.
        reply_limit: reads the most tokens of a reply from a field that no other vendor has.
        answers: by the end of a path, a check whether the reply of a model is an answer. It is
            given the reply, in one piece.
    """

    provider: str
    speaks_as: str = ""
    paths: tuple[str, ...]
    uploads: tuple[str, ...] = ()
    key_variable: str
    read_facts: Callable[[JsonObject], Told]
    base_variable: str = ""
    beta_header: str = ""
    read_request: Callable[[str, JsonObject], RequestFacts] = read_body
    part_of: Callable[[JsonObject], JsonObject] = as_it_is
    is_whole: AnswerCheck = lambda _: False
    asking: Mapping[str, str] = field(default_factory=lambda: ASKING)
    said: Callable[[JsonObject], Iterable[object]] = said_in
    common: Callable[[Any], Any] = as_it_is
    answer_fields: AnswerFields = field(default_factory=lambda: ANSWER_FIELDS)
    reply_limit: OwnLimit = lambda _: None
    answers: Mapping[str, AnswerCheck] = field(default_factory=dict)

    def keeps(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Return whether the reply to such a request is kept, if its body can be read.

        Args:
            method: in upper case.
            path: without query.
            headers: by lower-case name.
        """
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        ends = self.paths if content_type in MAYBE_JSON else ()
        ends = self.uploads if content_type == FORM else ends
        return method == "POST" and bool(ends) and ending_in(ends).search(path) is not None

    def check_of(self, path: str) -> AnswerCheck | None:
        """Find what tells whether a reply to a request to a path is an answer."""
        for end in self.answers:
            if path.endswith(end):
                return self.answers[end]
        return None

    def join(self, chunks: Iterable[JsonObject]) -> JsonObject:
        """Put the chunks of a stream together to the reply that one piece would be."""
        return joined(map(self.part_of, chunks))

    def canonical(self, request: HttpRequest, aliases: Sequence[tuple[str, str]]) -> Canonical:
        """Write a request in the form of which its key is made.

        Args:
            request: what is to be sent.
            aliases: pairs of origins; a request to the first has the key of the second.
        """
        return canonical_request(
            provider=self.speaks_as or self.provider,
            method="POST",
            origin=request.origin,
            path=request.path,
            query=request.query,
            body=request.body,
            beta=request.headers.get(self.beta_header) if self.beta_header else None,
            aliases=aliases,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request by POST whose reply is kept.

    Attributes:
        origin: scheme, host and port, without user or password.
        path: as sent; ``query`` likewise, "" for none.
        headers: by lower-case name. They hold the key, so none is kept and nothing shows them.
        body: the JSON object that is sent.
    """

    origin: str
    path: str
    query: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False, compare=False)
    body: JsonObject = field(repr=False)
