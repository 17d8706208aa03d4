from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.imports import import_package, read_installed_once
from tests.platforms import obstacle
from tests.project import Project, make_project, make_small_project
from tests.warm_python import warm_python

pytest_plugins = ["pytester"]

# A quarter of the time until all tests are found went into garbage of which there is none yet.
gc.disable()

# Other processes may have the cores: no law hangs on a clock, nor does the making of its examples.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

if "PYTEST_XDIST_WORKER" in os.environ:
    # It is measured itself; of what it starts, coverage would be one of the modules.
    os.environ.pop("COVERAGE_PROCESS_START", None)


@pytest.fixture(scope="session", autouse=True)
def _no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no client read a list of authorities, for 25 ms: the servers here speak plain HTTP."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_ci() -> Iterator[None]:
    """Let no session of a test take the job that runs the tests for its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_STEP_SUMMARY"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _wide_page() -> Iterator[None]:
    """Let no sentence be broken: how that is done is tested by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "500")
        yield


# What is imported at the first question, or by workers. Of two copies of a library one does not
# know the exceptions of the other, and pickles no function of it.
LATE = (
    "anthropic", "concurrent.futures.thread", "httpcore", "jiter",
    "multiprocessing.connection", "ollama",
    "openai.resources.chat.chat", "openai.resources.chat.completions.completions",
    *filter(find_spec, ["httpcore2"]),  # not there beside the oldest SDKs
)  # fmt: skip


# pytester forgets the modules that a nested session was the first to import, and numpy objects
# to being imported twice, and a check of jsonschema raises the errors of its first import. Here,
# for a process that only deals tests out needs none of them.
ONCE = ("jsonschema", "hypothesis", "numpy", "scipy.stats")
# A second copy would start a second server of forked processes, without what the first imported.
FORKING = ("tests.forked", "multiprocessing.popen_forkserver") if hasattr(os, "fork") else ()


@pytest.fixture(scope="session")
def imported() -> None:
    """Import for good what each nested session would import again, which took most of its time."""
    for name in (*ONCE, *FORKING):
        import_module(name)
    import_package()
    for name in LATE:
        import_module(name)


@pytest.fixture(scope="session")
def installed() -> Iterator[None]:
    """Read once what is installed: pytest reads it three times a session, for a third of it."""
    with pytest.MonkeyPatch.context() as patch:
        read_installed_once(patch)
        yield


# Each process that a nested session starts would import all of hypothesis and anyio for these
# plugins of theirs, which takes half as long as the rest of a session.
NO_PLUGINS = "-p no:hypothesispytest -p no:anyio -p no:flaky -p no:pytest-retry"
# It leaves a socket that listens behind in each session; tests of reruns load it.
NO_RERUNS = "-p no:rerunfailures"


@pytest.fixture
def pytester(
    imported: None, installed: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{NO_PLUGINS} {NO_RERUNS}")
    # Workers, and sessions of a base, begin with what they need imported.
    monkeypatch.setattr(sys, "executable", warm_python())
    monkeypatch.setenv("WARM_PYTHON", sys.executable)
    return pytester


@pytest.fixture
def sdks(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other processes of nested sessions begin with the clients of the vendors imported."""
    monkeypatch.setattr(sys, "executable", warm_python(*LATE))
    monkeypatch.setenv("WARM_PYTHON", sys.executable)


@pytest.fixture
def anyio_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nested sessions load anyio's plugin."""
    monkeypatch.delenv("PYTEST_ADDOPTS")


@pytest.fixture
def reruns_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nested sessions load the plugin of ``--reruns``."""
    monkeypatch.setenv("PYTEST_ADDOPTS", NO_PLUGINS)


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return make_project(pytester)


@pytest.fixture
def small_project(pytester: pytest.Pytester) -> Project:
    return make_small_project(pytester)


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the projects that are made once, and copied."""
    return tmp_path_factory.mktemp("originals")


# Replies and runs are made durable one by one: on a disk the tests would mostly wait for it.
MEMORY = Path("/dev/shm")  # noqa: S108 - below it every user has a folder


def fits_into_memory() -> bool:
    """Tell whether programs can run there, and a gigabyte is free: in a container often not."""
    if not MEMORY.is_dir():
        return False
    found = os.statvfs(MEMORY)
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > 2**30


def pytest_configure() -> None:
    """Keep temporary folders in memory, and let the sessions that tests start be interrupted.

    A job in the background of a shell begins with Ctrl-C ignored, and hands that down.
    """
    if fits_into_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Look for garbage again, but not among the tests and all that they import."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After each module, let later sessions look for garbage among what is theirs alone.

    Each session ends with such a search, and sessions in this process leave things behind.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Count no branches in laws and second opinions: their examples would take twice as long.

    Each branch is reached by a test with a name for it.
    """
    coverage = sys.modules.get("coverage")
    measured = coverage.Coverage.current() if coverage else None
    if not measured or not any(map(item.get_closest_marker, ("hypothesis", "unmeasured"))):
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        measured.start()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what the operating system cannot do."""
    for item in items:
        if isinstance(item, pytest.Function) and (reason := obstacle(item)):
            item.add_marker(pytest.mark.skip(reason=reason))


# Tests that install packages, tests in environments that `make` installs, and tests of minutes.
OUTSIDE = ("fresh", "libraries", "truth")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, unless they are named, the tests that are no part of the suite."""
    name = collection_path.name
    is_outside = name in OUTSIDE and collection_path.parent == Path(__file__).parent
    return True if is_outside and not any(name in typed for typed in config.args) else None
