"""A Python that has imported what sessions need, for processes that tests do not start themselves.

Workers of xdist and the session of a base are started by ``sys.executable``, and a bare one spends
most of their time on imports. In its place stands a script which has a process forked off a warm
one, hands its files to it, passes signals on, and ends as it ends.
"""

from __future__ import annotations

import functools
import gc
import importlib
import io
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from types import ModuleType

# Takes 10 ms: no site, and modules that are built in. What it does not know it leaves to Python.
_SCRIPT = """#!{python} -ISE
import _signal, _socket, marshal, posix, sys

given, flags = sys.argv[1:], []
while given and given[0] in ("-B", "-P", "-u"):
    flags.append(given.pop(0))
if given[:1] == ["-mpytest"]:
    given[:1] = ["-m", "pytest"]
environ = {{name.decode(): text.decode() for name, text in posix.environ.items()}}
known = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
is_known = given and (given[0] in ("-c", "-m") or given[0][0] != "-")
if not is_known or any(
    name.startswith("PYTHON") and name not in known for name in environ
):
    posix.execv({python!r}, [{python!r}, *sys.argv[1:]])
warm = _socket.socket(_socket.AF_UNIX)
passed_on = [_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP]
_signal.pthread_sigmask(_signal.SIG_BLOCK, passed_on)
for number in passed_on:
    _signal.signal(number, lambda number, frame: warm.send(bytes([number])))
warm.connect({address!r})
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
request = marshal.dumps((sys.argv[0], flags, given, posix.getcwd(), environ))
warm.sendmsg(
    [len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)]
)
warm.sendall(request)
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, passed_on)
for number in (0, 1, 2):
    posix.close(number)
status = int.from_bytes(warm.recv(4), "big", signed=True)
if status < 0:
    if status != -_signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -status)
posix._exit(status)
"""


PYTHON = sys.executable  # the bare one, for tests of what it imports or what a parent does


@functools.cache
def _scripts() -> tempfile.TemporaryDirectory[str]:
    """Make the folder of the scripts; processes that are forked need none."""
    return tempfile.TemporaryDirectory(prefix="warm-python-")


@functools.cache
def warm_python(*more: str) -> str:
    """Return the path of the script; that of Python itself where processes cannot be awaited.

    Beside it lie the commands ``pytest`` and ``llmeval``.

    Args:
        more: names of modules that it has imported too.
    """
    if not hasattr(os, "pidfd_open"):
        return PYTHON
    from tests.forked import FORKS, start_server

    folder = Path(tempfile.mkdtemp(dir=_scripts().name))
    script, address = folder / "python", folder / "socket"
    script.write_text(_SCRIPT.format(python=PYTHON, address=str(address)))
    script.chmod(0o755)
    for command, module in (("pytest", "pytest"), ("llmeval", "pytest_llmeval")):
        written = script.with_name(command)
        written.write_text(f'#!/bin/sh\nexec {script} -P -m {module} "$@"\n')
        written.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(64)
        start_server()
        FORKS.Process(target=_serve, args=(listener, more), daemon=True).start()
    return str(script)


def _serve(listener: socket.socket, more: tuple[str, ...]) -> None:
    """Attend to each client in a process, until the process ends that tests run in."""
    for name in more:
        importlib.import_module(name)
    gc.freeze()
    parent = parent_process()
    assert parent is not None
    while True:
        ready, _, _ = select.select([listener, parent.sentinel], [], [])
        if listener not in ready:
            return
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _attend(client)
            return
        client.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _attend(client: socket.socket) -> None:
    """Start what a client asks for, pass its signals on, and tell how it ended.

    Where the client is killed, so is what it asked for.
    """
    size, files, _, _ = socket.recv_fds(client, 4, 3)
    request = client.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    process = os.fork()
    if process == 0:
        client.close()
        for target, number in enumerate(files):
            os.dup2(number, target)
            os.close(number)
        _be_python(marshal.loads(request))  # noqa: S302 - of our own script
    for number in files:
        os.close(number)
    ended, number = os.pidfd_open(process), b" "
    while number and ended not in select.select([ended, client], [], [])[0]:
        number = client.recv(1)
        os.kill(process, number[0] if number else signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with suppress(OSError):
        client.sendall(code.to_bytes(4, "big", signed=True))
    os._exit(0)


_Request = tuple[str, list[str], list[str], str, dict[str, str]]


def _be_python(request: _Request) -> None:
    """Be what Python is that was started like that."""
    from tests.forked import begin_anew, ended_by_ctrl_c

    script, flags, (kind, *arguments), folder, environment = request
    first = {"-c": "", "-m": folder}.get(kind, str(Path(folder, kind).parent))
    begin_anew(Path(folder), environment, [] if "-P" in flags else [first])
    sys.executable = script
    sys.dont_write_bytecode = "-B" in flags or "PYTHONDONTWRITEBYTECODE" in environment
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)))
    with ended_by_ctrl_c():
        if kind == "-m":
            sys.argv = [kind, *arguments[1:]]
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            sys.argv = [kind, *arguments[1:]]
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(arguments[0], vars(main))  # noqa: S102 - as Python does
        else:
            sys.argv = [kind, *arguments]
            runpy.run_path(kind, run_name="__main__")
    raise SystemExit(0)
