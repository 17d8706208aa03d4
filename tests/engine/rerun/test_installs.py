"""What was installed from a checkout is known by what the installer noted."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from unittest.mock import patch

import pytest

from pytest_llmeval.engine.rerun.relocation import Install, installs_from


def installed(site: Path, url: str | None, *files: str, top_level: str = "") -> None:
    """Make what pip leaves of a distribution."""
    info = site / "my_bot-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: My-Bot\nVersion: 1\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    if url is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {}}))
    if top_level:
        (info / "top_level.txt").write_text(top_level)


def found(site: Path, checkout: Path) -> list[Install]:
    finder = metadata.MetadataPathFinder
    context = metadata.DistributionFinder.Context(path=[str(site)])
    with patch.object(metadata, "distributions", lambda: finder.find_distributions(context)):
        return list(installs_from(checkout))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "check out"
    (folder / "inner").mkdir(parents=True)
    return folder


def test_a_copy_brings_what_was_copied(site: Path, checkout: Path) -> None:
    files = (
        "bot/__init__.py",
        "bot/__pycache__/__init__.cpython-311.pyc",
        "one.py",
        "fast.cpython-311-x86_64-linux-gnu.so",
        "../../bin/bot",
        "../../share/bot/prompt.txt",
        "my_bot-1.dist-info/METADATA",
    )
    installed(site, (checkout / "inner").as_uri(), *files)
    (site / "my_bot-1.dist-info" / "entry_points.txt").write_text("[console_scripts]\nbot=bot:run")

    [install] = found(site, checkout)

    assert install.project == checkout / "inner"
    (prompt,) = install.data  # a command imports what it runs
    assert prompt.endswith("share/bot/prompt.txt")
    assert install.names == {"bot", "one", "fast"}
    assert str(site / "bot" / "__init__.py") in install.files


@pytest.mark.parametrize("helper", ["__editable__.bot.pth", "__editable___bot_finder.py"])
def test_an_editable_one_of_setuptools_lists_its_names(
    site: Path, checkout: Path, helper: str
) -> None:
    installed(site, checkout.as_uri(), helper, top_level="bot\ntools\n")
    assert found(site, checkout)[0].names == {"bot", "tools"}


def test_of_one_that_lists_nothing_the_name_is_guessed(site: Path, checkout: Path) -> None:
    installed(site, checkout.as_uri(), "_editable_impl_my_bot.pth")
    assert found(site, checkout)[0].names == {"my_bot"}


def test_a_wheel_that_was_built_in_the_checkout_is_of_it(site: Path, checkout: Path) -> None:
    wheel = checkout / "inner" / "bot-1-py3-none-any.whl"
    wheel.touch()
    installed(site, wheel.as_uri(), "bot/__init__.py")
    assert found(site, checkout)[0].project == checkout


@pytest.mark.parametrize(
    "url", [None, "https://example.org/bot.git", "file:///elsewhere/bot", "http://[", 7]
)
def test_others_are_not(site: Path, checkout: Path, url: str | None) -> None:
    installed(site, url, "bot/__init__.py")
    assert found(site, checkout) == []


def test_a_note_that_cannot_be_read_is_none(site: Path, checkout: Path) -> None:
    installed(site, "", "bot/__init__.py")
    (site / "my_bot-1.dist-info" / "direct_url.json").write_text("[]")
    assert found(site, checkout) == []
