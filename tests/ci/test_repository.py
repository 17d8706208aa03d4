"""The files by which this repository is hosted: they are valid, safe, and say what is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from email import message_from_bytes
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from markdown_it import MarkdownIt

from pytest_llmeval import __version__
from tests.ci.tools import run_tool
from tests.project import Project

ROOT = Path(__file__).parents[2]
HOST = ROOT / ".github"
WORKFLOWS = {path.stem: path for path in sorted((HOST / "workflows").glob("*.yml"))}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCHEMAS = {
    **dict.fromkeys(WORKFLOWS.values(), "vendor.github-workflows"),
    HOST / "dependabot.yml": "vendor.dependabot",
    HOST / "ISSUE_TEMPLATE" / "bug.yml": "vendor.github-issue-forms",
    HOST / "ISSUE_TEMPLATE" / "config.yml": "vendor.github-issue-config",
}
LEFT_OUT = re.compile(r"\.venv.*|\.\w+_cache|\.git|build|dist|__pycache__")


def content(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def jobs() -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the jobs of all workflows, by the names of both."""
    return {
        (workflow, name): job
        for workflow, path in WORKFLOWS.items()
        for name, job in content(path)["jobs"].items()
    }


@cache
def text_files() -> dict[Path, str]:
    """Return the texts of the repository: what a name of its owner may stand in."""
    found = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not LEFT_OUT.fullmatch(name)]
        for path in (Path(folder, name) for name in names):
            if path.suffix in (".md", ".toml", ".yml", ".py"):
                found[path] = path.read_text(encoding="utf-8")
    return found


# --- as files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_a_file_fits_the_schema_of_its_host(path: Path) -> None:
    done = run_tool("check-jsonschema", "--builtin-schema", SCHEMAS[path], path, folder=ROOT)

    assert done.returncode == 0, done.stdout


def test_every_file_of_the_host_is_checked() -> None:
    read = {path for path in HOST.rglob("*") if path.suffix in (".yml", ".yaml")}
    assert read == set(SCHEMAS)
    assert set(WORKFLOWS) == {"ci", "docs", "release"}


def test_zizmor_finds_nothing() -> None:
    done = run_tool("zizmor", "--offline", "--no-progress", HOST, folder=ROOT)

    assert done.returncode == 0, done.stdout
    assert "ignore[" not in "".join(path.read_text() for path in WORKFLOWS.values())


# --- what the jobs may do ---------------------------------------------------------------------


def test_no_job_may_more_than_it_needs() -> None:
    read = {"contents": "read"}
    allowed: dict[tuple[str, str], Mapping[str, str]] = dict.fromkeys(jobs(), read)
    allowed["docs", "deploy"] = {"pages": "write", "id-token": "write"}
    allowed["release", "publish"] = {"id-token": "write"}
    given = {
        (workflow, name): job.get("permissions", content(WORKFLOWS[workflow])["permissions"])
        for (workflow, name), job in jobs().items()
    }

    assert given == allowed


def test_what_may_write_runs_no_code_of_the_project_and_nothing_has_a_secret() -> None:
    for name in (("docs", "deploy"), ("release", "publish")):
        used = [step.get("uses", "").partition("@")[0] for step in jobs()[name]["steps"]]
        assert not any("run" in step for step in jobs()[name]["steps"])
        assert "actions/checkout" not in used
        assert jobs()[name]["environment"]["name"] in ("github-pages", "pypi")
    texts = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS.values())
    assert "secrets." not in texts
    assert "pull_request_target" not in texts
    checkouts = re.findall(r"uses: actions/checkout@.*\n +with: (.*)", texts)
    assert set(checkouts) == {"{ persist-credentials: false }"}
    assert len(checkouts) == texts.count("actions/checkout@")


def test_every_action_is_pinned_and_has_the_pin_of_the_recipes() -> None:
    pin = re.compile(r"uses: ([\w./-]+)@(\S+?),? +# (v\d+\.\d+\.\d+)$", re.MULTILINE)
    texts = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS.values())
    others = re.findall(r"uses: (?!\$/)", texts)
    pinned = set(pin.findall(texts))
    shown = {
        found
        for path, text in text_files().items()
        if path.suffix in (".md", ".yml") and HOST not in path.parents
        for found in pin.findall(text)
    }

    assert len(pin.findall(texts)) == len(others)
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for _, commit, _ in pinned | shown)
    of = {name: commit for name, commit, _ in pinned}
    newer = [f"{name}: {commit}" for name, commit, _ in shown if of.get(name, commit) != commit]
    assert newer == [], "README, docs/ci.md and cli/starters have other pins: mend them too"
    assert {"actions/checkout", "actions/setup-python"} <= {name for name, *_ in shown}


def test_a_release_is_tested_built_once_and_attested() -> None:
    publish = jobs()["release", "publish"]

    assert publish["needs"] == ["test", "build"]
    assert jobs()["release", "test"]["uses"] == "$/.github/workflows/ci.yml"
    assert "workflow_call" in content(WORKFLOWS["ci"])[True]  # YAML 1.1 reads "on" as true
    assert publish["steps"][-1]["with"] == {"attestations": True}
    # zizmor finds whether a cache of another branch could reach it


# --- what pyproject.toml says -----------------------------------------------------------------


def test_the_classifiers_are_what_is_tested() -> None:
    matrix = jobs()["ci", "suite"]["strategy"]["matrix"]
    steps = [step for job in jobs().values() for step in job.get("steps", [])]
    tested = {step.get("with", {}).get("python-version", "") for step in steps}
    tested |= {*matrix["python"], *(one["python"] for one in matrix["include"])}
    systems = {*matrix["os"], *(one["os"] for one in matrix["include"])}
    classified = PROJECT["classifiers"]
    python, system = "Programming Language :: Python :: ", "Operating System :: "

    assert {one.removeprefix(python) for one in classified if one.startswith(f"{python}3.")} == {
        version for version in tested if re.fullmatch(r"3\.\d+", version)
    }
    assert [one.rpartition(" ")[2] for one in classified if one.startswith(system)] == [
        "MacOS",
        "Windows",
        "Linux",
    ]
    assert systems == {"macos-latest", "windows-latest", "ubuntu-latest"}
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert min(tested & {"3.10", "3.11", "3.12"}) == oldest


def test_ci_runs_what_a_clone_can_run() -> None:
    (run,) = (step["run"] for step in jobs()["ci", "whole"]["steps"] if "run" in step)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert run == "bash .ci/run"
    assert "make test-dist\n" in script
    assert "twine check --strict" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert ".." not in re.sub(r'cd "\$\(dirname "\$0"\)/\.\."', "", script)


def test_one_name_owns_all_addresses() -> None:
    """The owner stands in [project.urls]; each other place is compared with it."""
    name = PROJECT["name"]
    found = re.fullmatch(rf"https://github\.com/([\w-]+)/{name}", PROJECT["urls"]["Source"])
    assert found is not None, "Source in [project.urls] is https://github.com/OWNER/NAME"
    owner = found[1]
    address = re.compile(
        rf"github(?:usercontent)?\.com/([\w-]+)/{name}\b|github\.io/([\w-]+)/{name}\b|([\w-]+)\.github\.io/{name}\b"
    )
    others = {
        (str(path.relative_to(ROOT)), *filter(None, match.groups()))
        for path, text in text_files().items()
        if path != Path(__file__)
        for match in address.finditer(text)
    }

    wrong = sorted(place for place in others if place[1] != owner)
    assert wrong == [], (
        f"[project.urls] of pyproject.toml says that {owner} owns the repository, and these say "
        f"another. Put the name in all: git grep -lE '{wrong[0][1]}(/|\\.github\\.io/){name}' "
        f"| xargs sed -i -E 's#{wrong[0][1]}(/|\\.github\\.io/){name}#{owner}\\1{name}#g'"
    )
    assert len(others) >= 2
    assert all(url.count(owner) == 1 for url in PROJECT["urls"].values())


# --- what the index shows ---------------------------------------------------------------------

ADDRESS = re.compile(r'(href|src|srcset)="([^"]*)"')


def addresses(markdown: str) -> list[tuple[str, str]]:
    """List the attributes of a text that hold an address, and what they hold."""
    return ADDRESS.findall(MarkdownIt().render(markdown))


def test_what_readme_links_to_is_found_from_the_index(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(wheel) as files:
        (metadata,) = (name for name in files.namelist() if name.endswith("/METADATA"))
        described = message_from_bytes(files.read(metadata))
    shown = addresses(described.get_payload())
    of_pages = f"{PROJECT['urls']['Source']}/blob/v{__version__}/"
    raw = of_pages.replace("github.com", "raw.githubusercontent.com").replace("/blob/", "/")

    assert described["Description-Content-Type"] == "text/markdown"
    assert [address for _, address in shown if not address.startswith(("https://", "#"))] == []
    for (attribute, here), (_, there) in zip(
        addresses((ROOT / "README.md").read_text(encoding="utf-8")), shown, strict=True
    ):
        if here.startswith(("https://", "#")):
            assert there == here
        else:
            assert (ROOT / here.partition("#")[0]).exists(), here
            assert there == (of_pages if attribute == "href" else raw) + here


# --- what may be released ---------------------------------------------------------------------


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """The folder of a project that may be released as v0.1.0 of somebody/pytest-llm-baseline."""
    (tmp_path / "pytest_llmeval").mkdir()
    (tmp_path / "pytest_llmeval" / "version.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n## 0.1.0 (2027-01-31)\n\n- x\n")
    (tmp_path / "pyproject.toml").write_text(
        '[project.urls]\nSource = "https://github.com/somebody/pytest-llm-baseline"\n'
    )
    (tmp_path / ".ci").mkdir()
    script = ROOT / ".ci" / "may_release.py"
    (tmp_path / ".ci" / script.name).write_text(script.read_text(encoding="utf-8"))
    return tmp_path


def may_release(folder: Path, tag: str = "v0.1.0") -> tuple[int, str]:
    arguments = [".ci/may_release.py", tag, "somebody/pytest-llm-baseline"]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_what_is_ready_may_be_released(release: Path) -> None:
    assert may_release(release) == (0, "")


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("pytest_llmeval/version.py", '__version__ = "0.2.0"\n', "the package says 0.2.0"),
        ("CHANGELOG.md", "## 0.1.0\n\n- x\n", "no heading with a date"),
        ("CHANGELOG.md", "## Unreleased\n\n- y\n\n## 0.1.0 (2027-01-31)\n", "under Unreleased"),
        ("CHANGELOG.md", "## Unreleased\n### Fixed\n- y\n## 0.1.0 (2027-01-31)\n", "under Unr"),
        (
            "pyproject.toml",
            '[project.urls]\nSource = "https://github.com/OWNER/pytest-llm-baseline"\n',
            "put the owner's name there",
        ),
    ],
)
def test_what_is_not_ready_is_not_released(release: Path, path: str, text: str, said: str) -> None:
    (release / path).write_text(text)

    code, told = may_release(release)

    assert code == 1
    assert said in told


# --- what people are told ---------------------------------------------------------------------

MESSAGE = "the reply that nobody may read"


def test_the_form_asks_for_commands_that_print_no_reply(project: Project) -> None:
    form = (HOST / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8")
    commands = re.findall(r"`(llmeval .*?)`", " ".join(form.split()))
    assert commands == ["llmeval show last", "llmeval list --limit 1 --json"]
    project.write(
        model=f"def answer(messages, *, draw, **params):\n    return {MESSAGE!r}\n",
        pytest_ini="[pytest]\nllm_model = function/model:answer\npythonpath = .\n",
    )
    project.run("-q")

    for command in commands:
        done = run_tool(*command.split(), folder=project.path)
        assert done.returncode == 0, done.stderr
        assert "test_says_yes" in done.stdout or '"cases": 20' in done.stdout
        assert MESSAGE not in done.stdout
        assert "Say yes to" not in done.stdout


def test_what_the_pages_of_the_repository_name_is_there() -> None:
    form = (HOST / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
    targets = re.findall(r"`make ([\w-]+)`", form)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == ["lint", "test-fast"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)

    contacts = content(HOST / "ISSUE_TEMPLATE" / "config.yml")["contact_links"]
    private = next(link["url"] for link in contacts if "advisories" in link["url"])
    for page in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        linked = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
        assert [link for link in linked if not (ROOT / link).exists()] == [], page
    assert private in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
