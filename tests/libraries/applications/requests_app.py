"""requests: questions that an application words itself."""

import os

import requests

session = requests.Session()


def posted(path, body, **options):
    reply = session.post(f"{os.environ['GATEWAY']}{path}", json=body, timeout=60, **options)
    reply.raise_for_status()
    return reply


def asked(question, **more):
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": question}], **more}


def text(question):
    reply = posted("/v1/chat/completions", asked(question))
    return reply.json()["choices"][0]["message"]["content"]


def anthropic(question):
    return posted("/v1/messages", asked(question, max_tokens=9)).json()["content"][0]["text"]


def embeddings(question):
    body = {"model": "text-embedding-3-small", "input": question}
    return posted("/v1/embeddings", body).json()["data"][0]["embedding"]


def stream_text(question):
    reply = posted("/v1/chat/completions", asked(question, stream=True), stream=True)
    return [line.decode() for line in reply.iter_lines() if line]


WAYS = {
    "sync": {"text": text, "anthropic": anthropic, "embeddings": embeddings},
    "stream": {"text": stream_text},
}
