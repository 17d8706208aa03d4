"""The cells of the table in docs/clients.md: three sessions of an application, and what came."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.libraries.libraries import Library
from tests.servers.gateway_server import GatewayServer

Way = tuple[str, str]  # a road, and what is asked on it
TRIALS = 2
PROMPT, CHANGED = "Name a capital.", "Name a river."

# The question tells the server which way it came.
EVALS = """
import json

import pytest
from application import WAYS
from prompt import PROMPTS
from pytest_llmeval import llm_eval


def ways(*roads):
    found = [(road, form, p) for road in roads for form in WAYS.get(road, {}) for p in PROMPTS]
    return pytest.mark.parametrize(("road", "form", "prompt"), found)


def question(road, form, prompt):
    return f"{prompt} ({road}: {form})"


def heard(road, form, prompt, answer):
    with open("heard.jsonl", "a") as file:
        file.write(json.dumps([road, form, prompt, answer]) + "\\n")


@llm_eval(repeats=%(trials)d, intercept=True)
@ways("sync", "stream")
def test_blocking(road, form, prompt):
    heard(road, form, prompt, WAYS[road][form](question(road, form, prompt)))


@llm_eval(repeats=%(trials)d, intercept=True)
@ways("async", "async stream")
async def test_awaitable(road, form, prompt):
    heard(road, form, prompt, await WAYS[road][form](question(road, form, prompt)))
"""

# Neither a name is resolved nor a connection opened but on this machine.
NOWHERE_ELSE = """
import sys


def refuse(event, arguments):
    host = None
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    if isinstance(host, bytes):
        host = host.decode()
    if host not in (None, "", "127.0.0.1", "localhost", "::1"):
        with open("elsewhere.txt", "a") as file:
            file.write(f"{host}\\n")
        raise ConnectionRefusedError(f"{host} is not on this machine")


sys.addaudithook(refuse)
"""

INI = """
[pytest]
llm_intercept_hosts = {host}
filterwarnings = default
"""


@dataclass(frozen=True, kw_only=True)
class Session:
    """What one session came to.

    Attributes:
        requests: how many came to the server, for each way.
        besides: the paths of those that came no way.
        connections: how many were opened to the server.
        heard: what the application returned, for each way and prompt, sorted.
        printed: by pytest.
    """

    requests: Counter[Way]
    besides: Counter[str]
    connections: int
    heard: Mapping[tuple[Way, str], list[str]]
    printed: str


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The outcome for one library.

    Attributes:
        outcomes: of each way; empty where it holds, else what went wrong.
        elsewhere: hosts beyond this machine that were looked for.
        sessions: the first, the second, and one under replay that knows another prompt, too.
    """

    version: str
    outcomes: Mapping[Way, str]
    elsewhere: list[str]
    unknown: list[str]
    sessions: tuple[Session, Session, Session]


def tried(library: Library, folder: Path) -> Tried:
    """Run the application of a library in its environment, three times."""
    shutil.copy(library.application, folder / "application.py")
    (folder / "test_application.py").write_text(EVALS % {"trials": TRIALS})
    (folder / "conftest.py").write_text(NOWHERE_ELSE)
    # As people have it: there the files of all modules are looked for.
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    with GatewayServer() as server:
        (folder / "pytest.ini").write_text(INI.format(host=server.origin.removeprefix("http://")))
        first = _session(library, folder, server, PROMPT)
        second = _session(library, folder, server, PROMPT)
        replay = _session(library, folder, server, PROMPT, CHANGED, options=("--llm-cache=replay",))
    elsewhere = folder / "elsewhere.txt"
    ways = _printed(library, WAYS_OF, folder)
    return Tried(
        version=_printed(library, VERSION_OF.format(library.package), folder),
        outcomes={
            way: _outcome(way, first, second, replay)
            for way in ((road, form) for road, forms in json.loads(ways).items() for form in forms)
        },
        elsewhere=sorted(set(elsewhere.read_text().split())) if elsewhere.exists() else [],
        unknown=server.unknown,
        sessions=(first, second, replay),
    )


WAYS_OF = (
    "import json, application; print(json.dumps({r: list(f) for r, f in application.WAYS.items()}))"
)
VERSION_OF = "from importlib.metadata import version; print(version('{}'))"


def _outcome(way: Way, first: Session, second: Session, replay: Session) -> str:
    """Say what went wrong on a way; nothing where it holds."""
    answers = first.heard.get((way, PROMPT), [])
    wrong = {
        "fails": len(answers) < TRIALS,
        "is never asked": not first.requests[way],
        "has equal draws": len(set(answers)) < TRIALS,
        "is asked again": bool(second.requests[way]),
        "is replayed otherwise": second.heard.get((way, PROMPT)) != answers,
        "is not answered under replay": replay.heard.get((way, PROMPT)) != answers,
        "is asked under replay": bool(replay.requests[way]) or (way, CHANGED) in replay.heard,
    }
    return next((what for what, is_so in wrong.items() if is_so), "")


def _session(
    library: Library,
    folder: Path,
    server: GatewayServer,
    *prompts: str,
    options: Sequence[str] = (),
) -> Session:
    (folder / "prompt.py").write_text(f"PROMPTS = {prompts!r}\n")
    heard = folder / "heard.jsonl"
    heard.unlink(missing_ok=True)
    requests, connections = len(server.requests), server.connections
    printed = _run(library, folder, server, "-m", "pytest", *PLAIN, *options)
    answers: dict[tuple[Way, str], list[str]] = {}
    for line in heard.read_text().splitlines() if heard.exists() else []:
        road, form, prompt, answer = json.loads(line)
        answers.setdefault(((road, form), prompt), []).append(json.dumps(answer))
    ways = [(_way(one.body), one.path) for one in server.requests[requests:]]
    return Session(
        requests=Counter(way for way, _ in ways if way),
        besides=Counter(path for way, path in ways if not way),
        connections=server.connections - connections,
        heard={asked: sorted(several) for asked, several in answers.items()},
        printed=printed,
    )


PLAIN = ("-p", "no:cacheprovider", "-p", "no:randomly", "-ra")
_TAG = re.compile(rb"\(((?:async )?(?:stream|sync|async)): ([\w ]+)\)")


def _way(body: bytes) -> Way | None:
    found = _TAG.search(body)
    return None if found is None else (found[1].decode(), found[2].decode())


def _printed(library: Library, code: str, folder: Path) -> str:
    environment = _environment(library, folder, "http://127.0.0.1:9")
    done = subprocess.run(
        [library.python, "-c", code],
        cwd=folder, env=environment, text=True, capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()[-1]


def _run(library: Library, folder: Path, server: GatewayServer, *arguments: str) -> str:
    done = subprocess.run(
        [library.python, *arguments],
        cwd=folder, env=_environment(library, folder, server.origin), stdin=subprocess.DEVNULL,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300,
    )  # fmt: skip
    return done.stdout


def _environment(library: Library, folder: Path, origin: str) -> dict[str, str]:
    """Return the variables of a session: a key as people have one, and no host."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not re.match(r"PYTEST_|COVERAGE_|WARM_|.*_(API_KEY|BASE_URL|HOST|TOKEN)$", name)
    }
    own = {"HOME": str(folder), "OPENAI_API_KEY": "sk-test", "GATEWAY": origin, "COLUMNS": "200"}
    return kept | library.variables | own
