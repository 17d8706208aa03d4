"""However a base reads its prompt: a worse one is found by it, or that base is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.project import EVALS, INI, MODEL, make_project

GOOD, BAD = "Say yes to {case}. rate=0.9", "Say yes to {case}. rate=0.2"
SMALL = EVALS.replace("range(20)", "range(8)").replace("repeats=5", "repeats=3")
BESIDE = "from pathlib import Path\nFILE = Path(__file__).with_name({!r})\n"
FROM_FILE = BESIDE.format("prompt.txt") + "PROMPT = FILE.read_text()\n"
DOTENV = (
    BESIDE.format("local.txt")
    + "import os\nif FILE.exists(): os.environ['BOT_KEY'] = FILE.read_text()\n"
)
CHANGED = {"prompt_txt": BAD}
REPAIR = "If this branch repairs that commit, run it once with:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How a project reads its prompt, and what a session says of a worse one.

    Attributes:
        base: files of main, ``branch`` those of the branch, by the names of ``Project.write``.
        options: of the session, ``environ`` its variables; with braces for the checkout.
        said: a part of what refuses the base; nothing where the worse prompt is found.
        left: files here that git ignores.
    """

    base: Mapping[str, str] = field(default_factory=dict)
    branch: Mapping[str, str] = field(default_factory=lambda: CHANGED)
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    said: str = ""
    left: Mapping[str, str] = field(default_factory=dict)


KINDS = {
    "by the working directory": Kind(base={"app": "PROMPT = open('prompt.txt').read()"}),
    "file:// in a variable": Kind(
        base={
            "app": "import os\nfrom urllib.request import urlopen\n"
            "with urlopen(os.environ['APP']) as file: PROMPT = file.read().decode()\n"
        },
        environ={"APP": "file://{}/prompt.txt"},
    ),
    "JSON in a variable": Kind(
        base={
            "app": "import json, os\nfrom pathlib import Path\n"
            "PROMPT = Path(json.loads(os.environ['APP'])['file']).read_text()\n"
        },
        environ={"APP": '{{"file": "{}/prompt.txt"}}'},
    ),
    "a variable that another process reads": Kind(
        base={
            "app": "import subprocess\n"
            "PROMPT = subprocess.check_output(['sh', '-c', 'cat ${APP#*=}'], text=True)\n"
        },
        environ={"APP": "file={}/prompt.txt"},
    ),
    "a list in a variable": Kind(
        base={
            "app": "import os, pathlib\n"
            "PROMPT = pathlib.Path(os.environ['APP'].split(',')[1]).read_text()\n"
        },
        environ={"APP": "fast,{}/prompt.txt"},
    ),
    "an option": Kind(
        base={
            "app": "import conftest, pathlib\nPROMPT = pathlib.Path(conftest.NAMED).read_text()\n",
            "conftest": "def pytest_addoption(parser): parser.addoption('--prompt')\n"
            "def pytest_configure(config):\n    global NAMED\n    NAMED = config.option.prompt\n",
        },
        options=("--prompt={}/prompt.txt",),
    ),
    "a file at home": Kind(
        base={
            "app": "import pathlib\nNAMED = pathlib.Path.home().joinpath('bot').read_text()\n"
            "PROMPT = pathlib.Path(NAMED).read_text()\n"
        },
        said="it read prompt.txt, which is of this checkout",
    ),
    "a folder that the branch has renamed": Kind(
        base={
            "app": "import os, pathlib\n[FILE] = pathlib.Path(os.environ['APP']).glob('*.txt')\n"
            "PROMPT = FILE.read_text()\n",
            "prompts/prompt_txt": GOOD,
        },
        branch={"renamed/prompt_txt": BAD},
        environ={"APP": "{}/renamed"},
        said="it read renamed/prompt.txt, which is of this checkout",
    ),
    "a database by a URI": Kind(
        base={
            "app": "import pathlib, sqlite3\n"
            "NAMED = pathlib.Path.home().joinpath('bot').read_text()\n"
            "sqlite3.connect(f'file:{NAMED}?mode=ro', uri=True).close()\n"
            f"PROMPT = {GOOD!r}\n"
        },
        said="it read prompt.txt, which is of this checkout",
    ),
    "a conftest that writes": Kind(
        base={"conftest": BESIDE.format("calls.log") + "FILE.write_text('begun')\n"}
    ),
    "rootdir is typed": Kind(options=("--rootdir={}",)),
    "a file was moved": Kind(
        branch={
            **CHANGED,
            "test_evals": "",
            "test_moved": SMALL,
            "pytest_ini": f"{INI}llm_renamed = test_evals.py -> test_moved.py\n",
        }
    ),
    "an option that the branch adds": Kind(
        branch={**CHANGED, "conftest": "def pytest_addoption(parser): parser.addoption('--new')\n"},
        options=("--new=1",),
        said=REPAIR,
    ),
    "main names no model": Kind(
        base={"pytest_ini": "[pytest]\npythonpath = .\n"},
        branch={**CHANGED, "pytest_ini": INI},
        said="it is no baseline. See above",
    ),
    "a key that git ignores": Kind(
        base={
            "conftest": DOTENV,
            "model": f"import os\nKEY = os.environ['BOT_KEY']\n{MODEL}",
        },
        left={"local_txt": "sk-1"},
        said="It lacks what git ignores (local.txt): copy or make that by llm_base_files",
    ),
    "the key of a vendor that git ignores": Kind(
        base={
            "conftest": DOTENV.replace("BOT_KEY", "OPENAI_API_KEY"),
            "pytest_ini": INI.replace("function/model:answer", "openai/gpt-6-luna"),
        },
        left={"local_txt": "sk-1"},
        said="OPENAI_BASE_URL), more than 5 %: it is no baseline. Run again: only calls without a "
        "reply are sent again. It lacks what git ignores (local.txt)",
    ),
    "data that git ignores": Kind(
        base={"conftest": BESIDE.format("local.txt") + "FILE.read_text()\n"},
        left={"local_txt": "question"},
        said="with 4; see above. It lacks what git ignores (local.txt)",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_it(
    name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kind, project = KINDS[name], make_project(pytester)
    for folder in ("prompts", "renamed"):
        (project.path / folder).mkdir()
    (project.path / ".gitignore").write_text("__pycache__/\ncalls.log\nlocal.txt\n")
    files = {"test_evals": SMALL, "app": FROM_FILE, "prompt_txt": GOOD}
    project.write(**{**files, **kind.base})
    project.commit("main")
    project.git("switch", "-qc", "feature")
    project.write(**kind.branch)
    project.commit("worse")
    project.write(**kind.left)
    for key in ("BOT_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(key, "")  # what a conftest sets is taken away again
        monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bot").write_text(f"{project.path}/prompt.txt")
    for variable, text in kind.environ.items():
        monkeypatch.setenv(variable, text.format(project.path))
    options = [option.format(project.path) for option in kind.options]

    result = project.run("--llm-baseline=main", "--llm-on-missing=rerun", *options)

    assert result.ret == (4 if kind.said else 1)
    told = " ".join(f"{result.stdout}{result.stderr}".split())
    assert (kind.said or "REGRESSED: 1 ") in told
    assert project.git("status", "--porcelain") == ""
