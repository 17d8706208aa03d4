"""Which requests are taken for questions to a model, by where they go and what they bear."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import anthropic
import openai
import pytest

from pytest_llmeval.models.vendors.recognition import Recognition, lacks_key
from pytest_llmeval.models.vendors.vendor import vendor_named
from pytest_llmeval.vendors import SERVICES, VENDORS, ServiceLine

JSON = {"content-type": "application/json"}
CHAT = "/v1/chat/completions"
VERTEX = "/v1/projects/p/locations/us-central1/publishers"
US = "https://us-central1-aiplatform.googleapis.com"
GEMINI = "/v1beta/models/gemini-2.5-flash"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gpt.example.com:8443/team")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "no url at all")
    monkeypatch.setenv("OLLAMA_HOST", "box:7000")


def seen(url: str, *, method: str = "POST", **headers: str) -> str:
    """Vendor and certainty, of a recognition that was told of two hosts."""
    recognition = Recognition(("gw.example.com", "Other.example.com:99"))
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    parts, all_headers = urlsplit(url), {**JSON, **named}
    vendor, certainty = recognition.recognize(method, parts, all_headers)
    if vendor is None:
        return ""
    dialect = f" as {vendor.speaks_as}" if vendor.speaks_as else ""
    return f"{vendor.provider}{dialect}: {certainty}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"https://api.openai.com{CHAT}", "openai: known"),
        ("https://eu.api.openai.com/v1/responses", "openai: known"),
        (
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?v=1",
            "openai as openai: known",
        ),
        ("https://x.services.ai.azure.com/models/chat/completions", "openai as openai: known"),
        ("https://x.services.ai.azure.com/anthropic/v1/messages", "anthropic as anthropic: known"),
        ("https://openai.azure.com/openai/responses", "openai: no"),
        (f"https://api.mistral.ai{CHAT}", "mistral as openai: known"),
        ("https://codestral.mistral.ai/v1/fim/completions", "mistral as openai: known"),
        (f"https://openrouter.ai/api{CHAT}", "openrouter as openai: known"),
        ("https://openrouter.ai/api/v1/messages", "openrouter as anthropic: known"),
        ("https://api.groq.com/openai/v1/responses", "groq as openai: known"),
        ("https://eu.openrouter.ai/api/v1/responses", "openrouter as openai: known"),
        ("https://api.together.xyz/v1/embeddings", "together as openai: known"),
        (f"https://api-inference.together.ai{CHAT}", "together as openai: known"),
        (f"https://router.huggingface.co{CHAT}", "huggingface as openai: known"),
        (f"https://x.us-east-1.endpoints.huggingface.cloud{CHAT}", "huggingface as openai: known"),
        (f"https://ollama.com{CHAT}", "ollama as openai: known"),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
            "gemini as openai: known",
        ),
        ("https://api.cohere.com/v2/chat", "cohere: known"),
        ("https://api.cohere.ai/v1/embed", "cohere: known"),
        ("https://api.cohere.ai/compatibility/v1/chat/completions", "cohere as openai: known"),
        ("https://api.together.xyz/v1/rerank", "together as cohere: known"),
        ("https://example.com/v1/chat", "cohere: no"),
        (f"https://api.groq.com.example.com{CHAT}", "openai: no"),
        ("https://api.groq.com/openai/v1/models", ""),
        ("https://api.anthropic.com/v1/messages", "anthropic: known"),
        ("https://ollama.com/api/chat", "ollama: known"),
        (f"https://generativelanguage.googleapis.com{GEMINI}:generateContent", "gemini: known"),
        (f"https://gw.example.com/google{GEMINI}:streamGenerateContent?alt=sse", "gemini: known"),
        (f"https://gw.example.com{GEMINI}:batchEmbedContents", "gemini: known"),
        (
            f"https://generativelanguage.googleapis.com.example.com{GEMINI}:embedContent",
            "gemini: no",
        ),
        (f"http://localhost:8000{GEMINI}:generateContent", "gemini: no"),
        (f"https://generativelanguage.googleapis.com{GEMINI}:countTokens", ""),
        (f"https://generativelanguage.googleapis.com{GEMINI}:batchGenerateContent", ""),
        (
            f"https://aiplatform.googleapis.com{VERTEX}/google/models/g:generateContent",
            "gemini as gemini: known",
        ),
        (
            f"{US}/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
            "openai as openai: known",
        ),
        (f"{US}{VERTEX}/anthropic/models/claude-4@5:rawPredict", "anthropic as anthropic: known"),
        (f"{US}{VERTEX}/anthropic/models/claude:streamRawPredict", "anthropic as anthropic: known"),
        (f"{US}{VERTEX}/anthropic/models/count-tokens:rawPredict", ""),
        (f"{US}{VERTEX}/mistralai/models/mistral:rawPredict", ""),
        (
            f"https://aiplatform.us.rep.googleapis.com{VERTEX}/anthropic/models/claude:rawPredict",
            "anthropic as anthropic: known",
        ),
        (f"https://x.example.com{VERTEX}/anthropic/models/claude:rawPredict", "anthropic: no"),
        ("http://localhost:11434/api/chat", "ollama: known"),
        ("http://127.0.0.1:11434/api/chat", "ollama: known"),
        ("http://[::1]:11434/v1/chat/completions", "openai: known"),
        ("http://localhost:11435/api/chat", "ollama: no"),
        ("https://gpt.example.com:8443/team/embeddings", "openai: known"),
        ("http://box:7000/api/embeddings", "ollama: known"),
        (f"https://gw.example.com{CHAT}", "openai: known"),
        ("https://gw.example.com:1/v1/messages", "anthropic: known"),
        (f"https://other.example.com:99{CHAT}", "openai: known"),
        (f"http://localhost:8000{CHAT}", "openai: if it names a model"),
        (f"http://[::1]:8000{CHAT}", "openai: if it names a model"),
        (f"https://other.example.com{CHAT}", "openai: no"),
        ("https://gpt.example.com/team/embeddings", "openai: no"),
        ("https://gpt.example.com:8443/teams/embeddings", "openai: no"),
        (f"https://notapi.openai.com.example.com{CHAT}", "openai: no"),
        (f"https://fakeapi.openai.com{CHAT}", "openai: no"),
        ("http://localhost:8000/completions", "openai: no"),
        ("http://localhost:8000/v1/messages", "anthropic: no"),
        ("http://localhost:3000/api/chat", "ollama: no"),
        ("https://api.openai.com/v1/files", ""),
        ("https://api.anthropic.com/v1/messages/count_tokens", ""),
    ],
)
def test_where_a_request_goes(url: str, expected: str) -> None:
    assert seen(url) == expected


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/v1/messages", {"anthropic_version": "2023-06-01"}, "anthropic: known"),
        ("/api/generate", {"user_agent": "ollama-python/0.6.3 (x86_64)"}, "ollama: known"),
        (
            f"{GEMINI}:generateContent",
            {"x_goog_api_client": "google-adk/1 google-genai-sdk/3.4.0 gl-python/3.11"},
            "gemini: known",
        ),
        (f"{GEMINI}:generateContent", {"x_goog_api_key": "k"}, "gemini: no"),
        ("/chat/completions", {"x_stainless_lang": "python"}, "openai: if it names a model"),
        ("/v1/messages", {"x_stainless_lang": "python"}, "anthropic: no"),
        (CHAT, {"user_agent": "mistral-client-python/3.7.0"}, "openai: if it names a model"),
        (CHAT, {"user_agent": "unknown/None; hf_hub/2.4.0; x"}, "openai: if it names a model"),
        ("/chat/completions", {"user_agent": "python-httpx/0.28.1"}, "openai: no"),
    ],
)
def test_what_a_request_bears(path: str, headers: dict[str, str], expected: str) -> None:
    assert seen(f"https://somewhere.example.com{path}", **headers) == expected


def test_this_machine_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    recognition = Recognition(("127.0.0.1:99",))

    assert seen("http://127.0.0.1:8000/v1/embeddings") == "openai: known"
    assert seen("http://[::1]:8000/v1/embeddings") == "openai: known"
    assert recognition.is_model_host("::1", 8000)
    assert recognition.is_model_host("localhost", 99)
    assert not recognition.is_model_host("localhost", 100)


def test_only_json_that_is_posted_is_looked_at() -> None:
    assert not seen(f"https://api.openai.com{CHAT}", method="GET")
    assert not seen(f"https://api.openai.com{CHAT}", content_type="multipart/form-data")


def test_without_anything_in_the_environment_ollama_is_where_it_usually_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OLLAMA_HOST")
    monkeypatch.delenv("OPENAI_BASE_URL")

    assert seen("http://127.0.0.1:11434/api/chat") == "ollama: known"
    assert seen("https://gpt.example.com:8443/team/embeddings") == "openai: no"


def test_a_host_that_the_environment_or_the_ini_file_names_is_the_vendors_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://openrouter.ai/api/v1")
    groq = "api.groq.com"
    vendor, _ = Recognition((groq,)).recognize("POST", urlsplit(f"https://{groq}{CHAT}"), JSON)

    assert seen(f"https://openrouter.ai/api{CHAT}") == "openai: known"
    assert vendor is not None
    assert (vendor.provider, vendor.speaks_as) == ("openai", "")


@pytest.mark.parametrize(
    ("host", "port", "is_known"),
    [
        ("api.groq.com", 443, True),
        ("team.openai.azure.com", 443, True),
        ("api.anthropic.com", 443, True),
        ("gw.example.com", 80, True),
        ("other.example.com", 99, True),
        ("other.example.com", 443, False),
        ("gpt.example.com", 8443, True),
        ("box", 7000, True),
        ("api.groq.com.example.com", 443, False),
        ("database.example.com", 5432, False),
        ("localhost", 11434, True),
        ("127.0.0.1", 11434, True),
        ("::1", 11434, True),
        ("127.0.0.1", 11435, False),
        ("127.0.0.10", 11434, False),
        ("api.replicate.com", 443, True),
        ("notapi.replicate.com", 443, False),
        ("dashscope-intl.aliyuncs.com", 443, True),
        ("us-central1-aiplatform.googleapis.com", 443, True),
        ("storage.googleapis.com", 443, False),
    ],
)
def test_where_models_are(host: str, port: int, *, is_known: bool) -> None:
    recognition = Recognition(("gw.example.com", "Other.example.com:99"))

    assert recognition.is_model_host(host, port) is is_known


def test_no_two_services_have_a_host_a_name_or_a_key() -> None:
    lines = [*SERVICES, *(ServiceLine(name, (), vendor_named(name).hosts) for name in VENDORS)]
    for column in zip(*lines, strict=True):
        names = [name for cell in column for name in ([cell] if isinstance(cell, str) else cell)]
        assert len(names) - names.count("") == len({*names} - {""})


def ask_anthropic() -> object:
    said = [{"role": "user", "content": "Hi"}]
    return anthropic.Anthropic().messages.create(model="m", max_tokens=9, messages=said)  # type: ignore[call-overload]


@pytest.mark.parametrize("ask", [openai.OpenAI, openai.AsyncOpenAI, ask_anthropic])
def test_a_client_without_a_key_says_so_before_it_asks(
    ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each SDK has its own
        ask()
    assert lacks_key(caught.value)

    wrapped = RuntimeError("no answer")
    wrapped.__cause__ = caught.value
    assert lacks_key(wrapped)


def test_what_an_application_says_of_keys_is_its_own() -> None:
    with pytest.raises(ValueError, match="api_key") as own:
        raise ValueError("api_key is not set")
    with pytest.raises(TypeError) as other:
        openai.OpenAI(api_key="k", nonsense=1)  # type: ignore[call-arg]
    never_raised = ValueError("api_key")

    class Mute(Exception):
        def __str__(self) -> str:
            raise NotImplementedError

    with pytest.raises(Mute) as mute:
        raise Mute
    assert not any(map(lacks_key, (own.value, other.value, mute.value, never_raised)))
