"""What a call prints, logs and warns of in a thread of its own; without a session of pytest."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.logging import LogCaptureHandler

from pytest_llmeval.engine.isolation.call_output import CallOutput, CallsInTurn, following_calls

LOGGER = logging.getLogger("test_call_output")


@pytest.fixture
def handler() -> LogCaptureHandler:
    return LogCaptureHandler()


@pytest.fixture
def stream(handler: LogCaptureHandler) -> Iterator[io.StringIO]:
    """Follow what goes to a stream and a handler of pytest."""
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LOGGER, "level", logging.INFO)
        with following_calls([("stdout", stream)], [handler]):
            yield stream


def called(function: Callable[[], object], output: CallOutput | None = None) -> CallOutput:
    """Call a function as a model is called."""
    output = output or CallOutput()
    output.context().run(function)
    return output


def shown(output: CallOutput, *handlers: logging.Handler) -> None:
    in_turn = CallsInTurn(handlers)
    in_turn.put_on(output)
    assert in_turn.take_off() is output
    in_turn.show()  # of the session nothing is kept


def test_what_a_call_prints_is_kept_until_its_trial_is_in_turn(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", stream)  # pytest has one for each phase

    def prints() -> None:
        print("printed", end=" ")
        sys.stdout.write("written ")
        print("elsewhere", file=elsewhere)

    elsewhere = io.StringIO()
    output = called(prints)
    print("in turn", end=" ")
    assert (stream.getvalue(), elsewhere.getvalue()) == ("in turn ", "elsewhere\n")

    shown(output)

    assert stream.getvalue() == "in turn printed written "
    assert output.printed == []


def test_a_stream_that_takes_nothing_loses_only_what_was_for_it(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    output = called(lambda: print("printed"))
    output.printed.insert(0, ("no such stream", "lost"))

    shown(output)

    assert stream.getvalue() == "printed\n"


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ([("always", None, Warning, None, 0)], 1),
        ([("ignore", "old", Warning, None, 0)], 0),
        ([("ignore", "another", Warning, None, 0)], 1),
        ([("ignore", None, Warning, "another_module", 0)], 1),
        ([("ignore", None, ImportWarning, None, 0)], 1),
        ([("ignore", None, Warning, None, 1)], 1),
        ([], 1),
    ],
    ids=["always", "text", "another text", "module", "category", "line", "none"],
)
def test_warnings_of_a_call_meet_the_filters_of_its_trial(filters: list[Any], count: int) -> None:
    with warnings.catch_warnings(record=True) as recorded:
        warnings.filters[:] = filters  # type: ignore[index]
        output = called(lambda: warnings.warn("old", DeprecationWarning, stacklevel=2))
        assert len(output.warned) == count
        assert recorded == []
        warnings.warn(ResourceWarning("in turn"), stacklevel=1)
        assert "in turn" in str(recorded.pop().message)
        shown(output)

    assert [str(one.message) for one in recorded] == ["old"] * count


@pytest.mark.usefixtures("stream")
def test_a_warning_that_is_an_error_is_raised_in_the_call() -> None:
    def warns() -> None:
        with pytest.raises(UserWarning, match="given as it is"):
            warnings.warn(UserWarning("given as it is"), stacklevel=99)  # from no frame at all

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="given")
        called(warns)


@pytest.mark.usefixtures("stream")
def test_what_a_call_logs_goes_to_handlers_of_pytest_later_and_to_others_at_once(
    handler: LogCaptureHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, deaf = LogCaptureHandler(), LogCaptureHandler()
    deaf.setLevel(logging.ERROR)
    monkeypatch.setattr(LOGGER, "handlers", [own, deaf])
    output = called(lambda: LOGGER.info("logged"))
    assert (len(own.records), deaf.records, handler.records) == (1, [], [])
    LOGGER.info("in turn")
    assert len(own.records) == 2

    shown(output, handler, deaf)

    assert [record.msg for record in handler.records] == ["logged"]
    assert deaf.records == []


@pytest.mark.usefixtures("stream")
def test_what_reaches_no_handler_of_pytest_is_not_kept(
    handler: LogCaptureHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOGGER, "propagate", False)
    assert called(lambda: LOGGER.info("logged")).logged == []
    monkeypatch.setattr(LOGGER, "handlers", [handler])
    assert len(called(lambda: LOGGER.info("logged")).logged) == 1


def test_a_record_that_cannot_be_formatted_is_left(handler: LogCaptureHandler) -> None:
    class Strict(LogCaptureHandler):
        def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
            raise ValueError(record)

    output = CallOutput()
    output.logged.append(LOGGER.makeRecord("", 20, "", 0, "%d", ("no number",), None))

    shown(output, Strict(), handler)

    assert output.logged == []
