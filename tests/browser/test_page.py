"""The page of HTML in a real Chromium, opened from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.reports.judgements import FORMS
from tests.reports.planted import page_of, recorded

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

axe = pytest.importorskip("axe_playwright_python")

AXE = Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    judgement = recorded(folder / ".llmeval", earlier=["ppppm"])
    path = folder / "report.html"
    path.write_text(page_of(judgement), encoding="utf-8")
    return path


class Opened:
    """A page that was opened, and what a browser had to complain of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: object) -> None:
        url = str(request.url)  # type: ignore[attr-defined]
        if not url.startswith(("file:", "data:")):
            self.complaints.append(url)

    def go(self, path: Path, state: str = "") -> Page:
        self.page.goto(f"{path.as_uri()}{state and '#'}{state}")
        return self.page


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    page = browser.new_page()
    opened = Opened(page)
    yield opened
    page.close()
    assert opened.complaints == []


def names(page: Page) -> list[str]:
    return page.locator(".case:not([hidden]) .name").all_inner_texts()


def state(page: Page) -> str:
    return page.url.partition("#")[2]


def test_it_opens_from_the_disk_with_every_function(opened: Opened, file: Path) -> None:
    page = opened.go(file)

    assert page.inner_text("h1") == "REGRESSED"
    rows = page.locator(".forest > li:not(.axis) .name").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["test_label", "test_tone"]
    assert page.inner_text("#shown") == "13 of 13 cases"


@pytest.mark.parametrize("form", FORMS)
def test_no_form_has_a_browser_complain(opened: Opened, tmp_path: Path, form: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(FORMS[form]()), encoding="utf-8")
    page = opened.go(path)

    for width in (400, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_reply_with_a_script_runs_nothing(opened: Opened, file: Path) -> None:
    page = opened.go(file)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    broke = page.locator(".case.fell").first
    broke.scroll_into_view_if_needed()  # what is off the screen need not be drawn
    broke.get_by_text("<script>window.ran = true</script>").first.wait_for()
    assert page.evaluate("window.ran") is None
    assert page.locator("main img").count() == 0


def test_filters_hide_cases_and_stand_in_the_address(opened: Opened, file: Path) -> None:
    page = opened.go(file)

    page.check("input[value=fell]")
    assert len(names(page)) == 4
    assert page.inner_text("#shown") == "4 of 13 cases"
    assert page.locator(".function:not([hidden])").count() == 1

    page.fill("input[name=text]", "gift")
    assert names(page) == ["test_label[gift-refund]"]
    assert state(page) == "show=fell&text=gift"

    page.check("input[value='']")
    page.fill("input[name=text]", "")
    page.select_option("select", "parcel")
    assert len(names(page)) == 8
    assert state(page) == "value=parcel"


def test_an_address_brings_back_what_its_sender_saw(opened: Opened, file: Path) -> None:
    case = "evals/test_shop.py::test_label[late-refund]"
    page = opened.go(file, f"show=fell&value=refund&case={case}")

    assert len(names(page)) == 4
    assert page.input_value("select") == "refund"
    assert page.locator("details[open] > summary .name").all_inner_texts() == [
        "test_label[late-refund]"
    ]


@pytest.mark.parametrize(
    "state",
    ["case=filters&show=<script>", "case=__proto__&value=%22]", "%%%&text=%ff%00", "case=f1"],
)
def test_a_hostile_address_does_nothing(opened: Opened, file: Path, state: str) -> None:
    page = opened.go(file, state)

    assert page.locator(".case details[open]").count() == 0
    assert page.evaluate("document.forms.filters.parentElement.open") is None


def test_cases_of_a_table_may_be_called_as_parts_of_the_page_are(
    opened: Opened, tmp_path: Path
) -> None:
    names_of = ("filters", "shown", "cases", "f1", "trust")
    rows = [f"{side},{case},0,{side == 'a':d}" for side in "ab" for case in names_of]
    (tmp_path / "t.csv").write_text("\n".join(["condition,case_id,repeat,score", *rows]))
    table = str(tmp_path / "t.csv")
    page = CliRunner().invoke(main, ["compare", f"{table}::a", f"{table}::b", "--html"]).stdout
    (tmp_path / "x.html").write_text(page, encoding="utf-8")

    for name in names_of:
        shown = opened.go(tmp_path / "x.html", f"case={name}")
        shown.reload()  # another hash alone loads nothing
        assert shown.locator("details[open] > summary .name").all_inner_texts() == [name]


def test_a_long_value_does_not_widen_the_page(opened: Opened, tmp_path: Path) -> None:
    rows = [f"{side},t[{case}-{'x' * 300}],0,{side == 'a':d}" for side in "ab" for case in range(6)]
    (tmp_path / "t.csv").write_text("\n".join(["condition,case_id,repeat,score", *rows]))
    table = str(tmp_path / "t.csv")
    written = CliRunner().invoke(main, ["compare", f"{table}::a", f"{table}::b", "--html"]).stdout
    (tmp_path / "x.html").write_text(written, encoding="utf-8")
    page = opened.go(tmp_path / "x.html")
    page.set_viewport_size({"width": 400, "height": 900})

    assert page.locator("select").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_keys_go_from_case_to_case(opened: Opened, file: Path) -> None:
    page = opened.go(file)
    page.check("input[value=fell]")
    focused = "document.activeElement.querySelector('.name')?.textContent"

    page.keyboard.press("j")
    first = page.evaluate(focused)
    page.keyboard.press("j")
    second = page.evaluate(focused)
    page.keyboard.press("Enter")
    assert page.locator(".case details[open] .name").all_inner_texts() == [second]
    assert "case=" in state(page)
    page.keyboard.press("k")

    assert [first, second] == names(page)[:2]
    assert page.evaluate(focused) == first


def test_a_letter_that_is_typed_is_no_key(opened: Opened, file: Path) -> None:
    page = opened.go(file)
    page.click("input[name=text]")
    page.keyboard.type("jk")

    assert page.input_value("input[name=text]") == "jk"
    assert names(page) == []


def test_every_reply_is_on_paper(opened: Opened, file: Path) -> None:
    page = opened.go(file)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")

    assert page.locator("details:not([open])").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_it_can_be_read_by_all(browser: Browser, file: Path, width: int, scheme: str) -> None:
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
        bypass_csp=True,  # for axe, which looks from within the page
    )
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(AXE)

    found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa']})")

    page.close()
    assert found["passes"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
