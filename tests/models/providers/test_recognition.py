"""Which requests are taken for questions to a model, by where they go and what they bear."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from pytest_llmeval.models.providers.vendor import Recognition

JSON = {"content-type": "application/json"}
CHAT = "/v1/chat/completions"
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
    return "" if vendor is None else f"{vendor.provider}: {certainty}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"https://api.openai.com{CHAT}", "openai: known"),
        ("https://eu.api.openai.com/v1/responses", "openai: known"),
        ("https://x.openai.azure.com/openai/deployments/d/chat/completions?v=1", "openai: known"),
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
        ("/chat/completions", {"user_agent": "python-httpx/0.28.1"}, "openai: no"),
    ],
)
def test_what_a_request_bears(path: str, headers: dict[str, str], expected: str) -> None:
    assert seen(f"https://somewhere.example.com{path}", **headers) == expected


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
