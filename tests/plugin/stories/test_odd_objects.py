"""What stands in a process and is hostile to being looked at loses no run that was paid for."""

from __future__ import annotations

from typing import NoReturn

import pytest

from pytest_llmeval.engine import run_header
from tests.project import INI, Project

# Each is a line that puts something odd into `modules`, a dictionary.
ODD_MODULES = """
class Lib:
    "As cffi's libraries: it claims to be a module, and has no dictionary."
    __slots__ = ()
    __class__ = property(lambda self: types.ModuleType)

class Raises:
    def __getattribute__(self, name): raise ValueError(name)
    def __eq__(self, other): raise ValueError("eq")
    __hash__ = None

class Lazy(types.ModuleType):
    __dict__ = property(lambda self: 1 / 0)
    def __getattribute__(self, name): raise ValueError(name)

class Text(str):
    def __str__(self): raise ValueError("str")
    __bool__ = __repr__ = __str__

def with_file(file):
    module = types.ModuleType("made")
    module.__file__ = file
    return module

ODD = [
    Lib(), Raises(), Lazy("lazy"), types.ModuleType.__new__(types.ModuleType), None,
    mock.MagicMock(), mock.MagicMock(spec=types.ModuleType), with_file(Raises()),
    with_file(mock.MagicMock()), with_file(Text("/x.py")), with_file("/a/nul\\0byte.py"),
    with_file("/a/\\ud800.py"), with_file(7),
    with_file(str(pathlib.Path(__file__).parent / "half\\ud800.py")),
]
"""
EVALS = f"""
import pathlib, sys, types
from unittest import mock
import pytest
from pytest_llmeval import llm_eval
{ODD_MODULES}

@llm_eval(repeats=2)
@pytest.mark.parametrize("which", range(len(ODD)))
def test_imports(llm, which):
    assert llm.ask("Say yes. rate=1").text == "yes"
    sys.modules["odd" + str(which)] = ODD[which]
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_odd_objects_in_sys_modules(project: Project, workers: str) -> None:
    project.write(test_evals=EVALS, pytest_ini=INI)
    project.commit()

    result, report = project.gate("-n", workers)

    assert result.ret == 0
    assert len(project.runs()) == 1
    assert not [note for note in report["notes"] if "could not be listed" in str(note)]


def test_a_parameter_and_a_property_that_cannot_be_written(project: Project) -> None:
    project.write(
        test_evals="""
            import pytest
            from pytest_llmeval import llm_eval

            class Odd:
                def __repr__(self): raise ValueError("repr")

            @llm_eval(repeats=2)
            @pytest.mark.parametrize("odd", [Odd()])
            def test_x(llm, odd, record_property):
                assert llm.ask("Say yes. rate=1").text == "yes"
                record_property("odd", odd)
        """
    )

    result = project.run()

    assert result.ret == 0
    assert len(project.runs()) == 1


def lost(*_: object) -> NoReturn:
    raise RuntimeError("what is this?")


def test_a_search_for_files_that_fails_costs_a_note(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(test_evals=EVALS.replace("len(ODD)", "1"))
    monkeypatch.setattr(run_header, "files_used", lost)

    result = project.run()

    assert result.ret == 0
    assert len(project.runs()) == 1
    result.stdout.fnmatch_lines(["*could not be listed (RuntimeError: what is this[?])*"])


def test_a_search_that_fails_in_a_worker_costs_a_note(project: Project) -> None:
    project.write(
        test_evals=EVALS.replace("len(ODD)", "1"),
        conftest="""
            import pytest_llmeval.engine.workers as workers
            from tests.plugin.stories.test_odd_objects import lost

            def pytest_configure(config):
                if hasattr(config, "workerinput"):
                    workers.files_used = lost
        """,
    )

    result = project.run("-n", "1")

    assert result.ret == 0
    assert len(project.runs()) == 1
    result.stdout.fnmatch_lines(["*could not be listed (RuntimeError: what is this[?])*"])
