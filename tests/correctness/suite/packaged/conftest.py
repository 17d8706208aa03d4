import pytest

EVENTS = []


@pytest.fixture(scope="package")
def of_the_package():
    EVENTS.append("up")
    yield EVENTS[-1]
    EVENTS.append("down")
