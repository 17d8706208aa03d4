import pytest

SESSION = []


@pytest.fixture(scope="session")
def session_wide():
    SESSION.append("up")
    yield SESSION
    SESSION.append("down")
