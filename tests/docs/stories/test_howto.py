"""What docs/howto.md shows is run, part by part, and what it says holds."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.docs.pages import blocks, chapter
from tests.project import Project
from tests.servers.openai_server import OpenAIServer, Received, Scripted, chat_completion, serving

PAGE = "docs/howto.md"
AGENT, CONVERSATION = "An agent with tools", "A conversation with a simulated user"
IMAGES, RETRIEVAL, DATASETS = "Images", "Retrieval", "Datasets"
SAYS = {
    "longer": "What is the number of your card?", "4711": "It is extended.",
    "goods": "Within 30 days.", "parcels": "In 3 days.",
    "refund?": "billing", "parcel ": "orders", "Geld": "billing",
}  # fmt: skip


class Models(OpenAIServer):
    """Plays each model of the page: an agent, a desk, its reader, one that sees, one that reads."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.agent = ["find_order", "refund"]  # the tools that it calls before it answers

    def take(self, received: Received) -> Scripted:
        usual, body = super().take(received), received.json
        turn = sum(message["role"] == "tool" for message in body.get("messages", []))
        if "tools" not in body or turn >= len(self.agent):
            return usual
        reply: Any = chat_completion("", body["model"])
        called = {"name": self.agent[turn], "arguments": '{"number": "A17"}'}
        call = {"id": f"call_{turn}", "type": "function", "function": called}
        reply["choices"][0]["message"] |= {"content": None, "tool_calls": [call]}
        return Scripted(body=reply)

    def _say(self, body: Mapping[str, Any], number: int) -> str:
        asked = body["messages"][-1]["content"]
        if isinstance(asked, list):
            sent = asked[1]["image_url"]["url"].removeprefix("data:image/png;base64,")
            return base64.b64decode(sent)[-5:].decode()
        if body["model"] == "gpt-6-sol":
            return "DONE" if "extended" in asked else "It is 4711."
        return next((SAYS[word] for word in SAYS if word in asked), "You have your money back.")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    yield from serving(Models(), monkeypatch)


@pytest.fixture
def empty(project: Project, models: Models) -> Project:
    """A project in which nothing but the model is named."""
    (project.path / "test_evals.py").unlink()
    project.write(pytest_ini="[pytest]\nllm_model = openai/gpt-6-luna\npythonpath = .\n")
    return project


def put(project: Project, heading: str) -> None:
    """Write the files of a part into a project, and commit them."""
    text = chapter(PAGE, heading)
    for block in (one for one in blocks(PAGE, language="python") if one.text in text):
        name = block.text.removeprefix("# ").partition("\n")[0]
        (project.path / name).write_text(block.text)
    for rows in (one for one in blocks(PAGE, language="json") if one.text in text):
        (project.path / "tickets.jsonl").write_text(rows.text)
    project.commit()


def edit(project: Project, name: str, old: str, new: str) -> None:
    text = (project.path / f"{name}.py").read_text()
    assert old in text
    project.write(**{name: text.replace(old, new)})


def lines_of(result: pytest.RunResult, *patterns: str) -> None:
    result.stdout.fnmatch_lines([f"*{pattern}*" for pattern in patterns])


def test_the_agent_looks_up_and_refunds(empty: Project) -> None:
    put(empty, AGENT)

    result = empty.run("-v")

    assert result.ret == 0
    lines_of(result, "5/5 passed", "5 repeats * 15 calls made")


def test_what_the_agent_did_otherwise_is_a_miss_and_shown(
    empty: Project, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(empty, AGENT)
    empty.run()
    models.agent = ["refund"]
    edit(empty, "agent", "Look an order up before you refund it.", "Be quick.")

    lines_of(empty.run("-v", "--llm-baseline=main"), "0/5 passed", "find_order(", "here  refund(")

    monkeypatch.chdir(empty.path)
    shown = CliRunner().invoke(main, ["diff"]).output
    assert re.search(r"part.*find_order.*refund", shown, re.DOTALL), shown


def test_steps_of_the_agent_can_be_gated_beside_pass(empty: Project) -> None:
    put(empty, AGENT)
    (mark,) = re.findall(r"`@llm_eval\((gate=.*?)\)`", chapter(PAGE, AGENT))
    edit(empty, "test_agent", "repeats=5", f"repeats=5, {mark}")
    empty.run()

    _, report = empty.gate("--llm-baseline=last")

    gated = {one["metric"]: one["better"] for one in report["functions"]}
    assert gated == {"pass": "higher", "steps": "lower"}


def test_the_simulated_user_gets_what_they_want(empty: Project) -> None:
    put(empty, CONVERSATION)

    result = empty.run("-v")

    assert result.ret == 0
    lines_of(result, "10/10 passed", "openai/gpt-6-luna · openai/gpt-6-sol · 40 calls made")


def test_a_changed_desk_asks_the_user_anew(empty: Project) -> None:
    put(empty, CONVERSATION)
    empty.run()
    edit(empty, "conversation", "Help with loans.", "Help with a loan.")

    lines_of(empty.run("--llm-baseline=main"), "20 calls made, 20 replayed")


def test_an_image_is_read_and_another_one_is_another_request(empty: Project) -> None:
    (empty.path / "receipts").mkdir()
    for name, total in (("lunch.png", b"12.40"), ("train.png", b"39.00")):
        (empty.path / "receipts" / name).write_bytes(b"\x89PNG" + total)
    put(empty, IMAGES)

    lines_of(empty.run("-v"), "lunch.png* 5/5 passed", "train.png* 5/5 passed", "10 calls made")

    (empty.path / "receipts" / "train.png").write_bytes(b"\x89PNG saved anew 39.00")
    lines_of(empty.run("--llm-baseline=main"), "5 calls made, 5 replayed")


def test_an_edited_document_is_asked_about_anew_alone(empty: Project) -> None:
    put(empty, RETRIEVAL)
    result = empty.run("-v")
    assert result.ret == 0
    lines_of(result, *["5/5 passed, found 1.000"] * 3, "15 calls made")

    edit(empty, "search", "Parcels arrive within 3 days.", "Parcels arrive within 3 days or so.")

    lines_of(empty.run("--llm-baseline=main"), "5 calls made, 10 replayed")


def test_cases_share_the_draws_of_an_embedding(empty: Project) -> None:
    empty.write(
        test_embedding="""
        import pytest
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=5)
        @pytest.mark.parametrize("case", ["a", "b"])
        def test_embeds(openai_client, case):
            assert openai_client.embeddings.create(model="small", input=["one", "two"]).data
        """
    )

    lines_of(empty.run(), "2 cases x 5 repeats * 5 calls made, 5 replayed")


def test_the_tickets_are_judged_by_language(empty: Project) -> None:
    put(empty, DATASETS)

    result = empty.run("-v")

    assert result.ret == 0
    lines_of(result, "english_tickets?t-001? 5/5 passed", "german_tickets?t-003? 5/5 passed")


def test_a_few_tickets_can_be_tried(empty: Project) -> None:
    put(empty, DATASETS)
    empty.run()
    (few,) = re.findall(r'`-k "(.*?)"`', chapter(PAGE, DATASETS))

    result = empty.run("-k", few, "--llm-baseline=last")

    lines_of(result, "partial: 1 of 2 cases of test_english_tickets", "2 passed, 1 deselected")
