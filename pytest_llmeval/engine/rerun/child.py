"""Start the pytest process that makes the run of a baseline, and exchange data with it.

It runs in the foreground of the session that started it, and is interrupted with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

import msgspec
import pytest

from pytest_llmeval.engine.compat import INSTALLED
from pytest_llmeval.engine.marker import is_eval
from pytest_llmeval.engine.rerun.base_arguments import BaseArguments
from pytest_llmeval.engine.rerun.opened import opened_files
from pytest_llmeval.engine.rerun.relocation import Relocation, installs_from
from pytest_llmeval.engine.run_header import files_loaded
from pytest_llmeval.records import CONFIRM, RERUN
from pytest_llmeval.runs.lookup.best_run import covers
from pytest_llmeval.settings import BRIEF, AskedRun

PATIENCE = 3  # how often Ctrl-C is passed on before the process is killed
_ENDING = ("SIGTERM", "SIGHUP")
# What stands in the environment is no brief: a branch has many ways to set a variable.
_PYTEST_TOLD = f"""
import os, sys, types, pytest
told = types.ModuleType({BRIEF!r})
told.text = sys.argv[1]
sys.argv[:2] = [os.path.join(os.path.dirname(pytest.__file__), "__main__.py")]
sys.exit(pytest.main(plugins=[told]))
"""


class Terminated(BaseException):
    """This process was told to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A session that is to be started.

    Attributes:
        brief: what it is told.
        given: the arguments of its pytest.
        folder: in which it is started, with the variables ``environ``.
        output: the file that takes what it prints; None for where this process prints.
    """

    brief: Brief
    given: BaseArguments
    folder: Path
    environ: Mapping[str, str]
    output: Path | None = None

    def start(self, opened: ExitStack) -> subprocess.Popen[bytes]:
        """Start it, in a group of its own."""
        output = opened.enter_context(self.output.open("wb")) if self.output else None
        # -P: a folder that is not in sys.path here is not to be in it there
        told = ("-P", "-c", _PYTEST_TOLD, self.brief.written(), *self.given.arguments)
        return subprocess.Popen(  # noqa: S603 - this very interpreter, and no shell
            (sys.executable, *told),
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        )


def run_children(*children: Child) -> list[int]:
    """Run sessions side by side to their end.

    Each is in a group of its own: Ctrl-C at the terminal comes here alone and is passed on once,
    as it is where this process alone is interrupted.

    Returns:
        Their exit codes.

    Raises:
        KeyboardInterrupt: this process was interrupted; the other ones have ended.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    processes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as opened:
        try:
            processes.extend(child.start(opened) for child in children)
            return [process.wait() for process in processes]
        except KeyboardInterrupt:
            for _ in range(PATIENCE):  # until they have recorded what they have; at each Ctrl-C
                for process in processes:
                    _signal(process, signal.SIGINT)
                with suppress(KeyboardInterrupt):
                    for process in processes:
                        process.wait()
                    break
            raise
        finally:
            for process in processes:
                if process.poll() is None:
                    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
                    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif number != signal.SIGINT:  # Windows, where Ctrl-C reaches all processes of a terminal
            process.kill()


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let what is done here be tidied up before a signal ends this process."""
    is_main = threading.current_thread() is threading.main_thread()  # which alone has handlers
    known = [getattr(signal, name) for name in _ENDING if is_main and hasattr(signal, name)]
    ending = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise Terminated

    for number in ending:
        signal.signal(number, end)
    try:
        with suppress(Terminated):
            yield
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), received[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What the session in the worktree is told by the one that started it.

    Attributes:
        session: id of that session, whose caps and refreshed draws are this one's too.
        checkout: top of its working tree, from which nothing may be loaded here.
        worktree: top of the one that is tested instead.
        outcome: the file in which this session tells what came of it.
        asked: what it is to run.
    """

    session: str
    checkout: str
    worktree: str
    outcome: str
    asked: AskedRun

    @property
    def is_here(self) -> bool:
        """Whether it tests the working tree of the session that started it."""
        return self.worktree == self.checkout

    @property
    def made(self) -> str:
        """Why its run is made, see ``records.Run``."""
        return CONFIRM if self.asked.confirmation else RERUN

    def written(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))

    def wants(self, item: pytest.Item) -> bool:
        """Tell whether an item is to run: an eval among what the user chose."""
        chosen = self.asked.selection
        return is_eval(item) and (not chosen or covers(chosen, narrow=(item.nodeid,)))

    def tell(self, *, run: Path | None, foreign: Collection[str]) -> None:
        """Write what came of the session, for the one that waits for it."""
        told = BaseOutcome(None if run is None else str(run), tuple(foreign))
        Path(self.outcome).write_text(json.dumps(asdict(told)))

    def outcome_told(self) -> BaseOutcome:
        """Read what the session told; an empty one if it did not come to that."""
        try:
            return msgspec.convert(json.loads(Path(self.outcome).read_text()), BaseOutcome)
        except (OSError, ValueError):
            return BaseOutcome()


@dataclass(frozen=True, slots=True)
class BaseOutcome:
    """What came of the session in the worktree.

    Attributes:
        run: the run file; None if no eval ran.
        foreign: files of the checkout, or copied from it, that were read there.
    """

    run: str | None = None
    foreign: tuple[str, ...] = ()


def read_brief(config: pytest.Config, text: str) -> Brief:
    """Read what this session was told, which from here on notes the files that it opens."""
    opened_files(config)
    return msgspec.convert(json.loads(text), Brief)


def foreign_files(config: pytest.Config, brief: Brief) -> tuple[str, ...]:
    """List the files that this process read from the checkout, or from a copy of it."""
    checkout, worktree = Path(brief.checkout), Path(brief.worktree)
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), worktree} - {checkout}
    installs = tuple(installs_from(checkout))
    copied = {file for install in installs for file in install.files}
    data = {file for install in installs for file in install.data}

    def is_foreign(file: Path) -> bool:
        is_apart = INSTALLED.search(str(file)) or any(map(file.is_relative_to, prefixes))
        return str(file) in copied or (file.is_relative_to(checkout) and not is_apart)

    loaded = {os.path.realpath(name) for name in files_loaded(config)}
    read = opened_files(config).of_others(Relocation(checkout, worktree), data, loaded)
    return tuple(sorted({*read, *(name for name in loaded if is_foreign(Path(name)))}))
