"""What belongs to the process, held across a model call."""

import contextlib
import io
import logging
import os
import sys
import threading
import warnings

import pytest

from pytest_llmeval import llm_eval, waiting

REPEATS = 5
LOG = logging.getLogger("suite")


class Box:
    content = "nothing"


@pytest.fixture
def phases(request):
    assert os.environ["PYTEST_CURRENT_TEST"] == f"{request.node.nodeid} (setup)"
    yield
    assert os.environ["PYTEST_CURRENT_TEST"] == f"{request.node.nodeid} (teardown)"


@llm_eval(repeats=REPEATS)
@pytest.mark.parametrize("number", [1, 2])
def test_name_of_the_test(llm, phases, request, number):
    llm.ask(f"meet: name {number}")
    assert os.environ["PYTEST_CURRENT_TEST"] == f"{request.node.nodeid} (call)"


@llm_eval(repeats=REPEATS)
def test_environment(llm):
    assert "SUITE_MINE" not in os.environ
    os.environ["SUITE_MINE"] = trial = llm.ask("meet: environment").text
    llm.ask("meet: environment again")
    assert os.environ.pop("SUITE_MINE") == trial


@llm_eval(repeats=REPEATS)
def test_directory(llm, tmp_path):
    before = os.getcwd()
    with contextlib.chdir(tmp_path):
        llm.ask("meet: directory")
        assert os.path.samefile(os.getcwd(), tmp_path)
    assert os.getcwd() == before


@llm_eval(repeats=REPEATS)
def test_redirected_streams(llm):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        print("a", end="")
        trial = llm.ask("meet: redirected").text
        print(trial, end="")
        print(trial, end="", file=sys.stderr)
    assert (out.getvalue(), err.getvalue()) == (f"a{trial}", trial)


@llm_eval(repeats=REPEATS)
def test_expected_warning(llm):
    with pytest.warns(UserWarning) as caught:
        warnings.warn("expected", UserWarning)
        trial = llm.ask("meet: expected warning").text
        warnings.warn(f"expected by {trial}", UserWarning)
    assert [str(one.message) for one in caught] == ["expected", f"expected by {trial}"]


@llm_eval(repeats=REPEATS)
def test_plain_warning(llm):
    warnings.warn("plain before", UserWarning)
    llm.ask("meet: plain warning")
    warnings.warn("plain after", DeprecationWarning)


@llm_eval(repeats=REPEATS)
def test_silenced_warning(llm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        llm.ask("meet: silenced warning")
        warnings.warn("silenced", UserWarning)


@pytest.mark.filterwarnings("error::UserWarning")
@llm_eval(repeats=REPEATS)
def test_warning_made_an_error(llm):
    llm.ask("meet: warning made an error")
    with pytest.raises(UserWarning, match="raised"):
        warnings.warn("raised", UserWarning)


@llm_eval(repeats=REPEATS)
def test_recorded_warnings(llm, recwarn):
    warnings.warn("recorded", UserWarning)
    llm.ask("alone: recorded")
    assert [str(one.message) for one in recwarn] == ["recorded"]


@llm_eval(repeats=REPEATS)
def test_captured_output(llm, capsys):
    print("before")
    llm.ask("alone: captured")
    print("after")
    assert capsys.readouterr().out == "before\nafter\n"


@llm_eval(repeats=REPEATS)
def test_captured_descriptors(llm, capfd):
    os.write(1, b"before\n")
    llm.ask("alone: descriptors")
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "before\nafter\n"


@llm_eval(repeats=REPEATS)
def test_captured_logs(llm, caplog):
    caplog.set_level(logging.DEBUG)
    LOG.debug("before")
    llm.ask("alone: logs")
    LOG.debug("after")
    assert caplog.messages == ["before", "after"]


def test_after_captured_logs(caplog):
    LOG.debug("not at this level")
    assert caplog.messages == []


@llm_eval(repeats=REPEATS)
def test_patched_environment(llm, monkeypatch):
    monkeypatch.setenv("SUITE_PATCHED", "yes")
    monkeypatch.setattr(Box, "content", "patched")
    llm.ask("alone: patched")
    assert (os.environ["SUITE_PATCHED"], Box.content) == ("yes", "patched")


def test_after_patched_environment():
    assert "SUITE_PATCHED" not in os.environ
    assert Box.content == "nothing"


@llm_eval(repeats=REPEATS)
def test_thread_of_its_own(llm):
    texts = []
    thread = threading.Thread(target=lambda: texts.append(llm.ask("alone: thread").text))
    thread.start()
    waiting(thread.join)
    assert texts == [llm.ask("alone: thread", temperature=0).text]


@llm_eval(repeats=REPEATS)
def test_waiting(llm):
    trial = llm.ask("meet: waiting").text
    assert waiting(str, trial) == trial


@llm_eval(repeats=REPEATS)
def test_same_question_twice(llm, llm_score, record_property):
    first, second = (llm.ask("meet: twice").text for _ in range(2))
    assert first == second
    llm_score(int(first) / 10)
    llm_score(1 - int(first) / 10, "tone")
    record_property("trial", first)


@llm_eval(repeats=REPEATS)
def test_prints_and_logs(llm):
    trial = llm.ask("meet: prints").text
    print(f"out before {trial}")
    print(f"err before {trial}", file=sys.stderr)
    LOG.warning("log before %s", trial)
    llm.ask("meet: prints again")
    print(f"out after {trial}")
    print(f"err after {trial}", file=sys.stderr)
    LOG.warning("log after %s", trial)


def test_after_all():
    assert not [name for name in os.environ if name.startswith("SUITE_M")]
    assert "(call)" in os.environ["PYTEST_CURRENT_TEST"]
    assert not os.path.samefile(os.getcwd(), "/")
