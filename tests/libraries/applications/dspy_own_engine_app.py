"""dspy on the engine that it takes by itself, which sends over sockets of its own."""

import os

import dspy

URL = os.environ["GATEWAY"] + "/v1"
dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", api_base=URL, api_key="sk-test", cache=False))
think = dspy.ChainOfThought("question -> answer")


def streamed(**options):
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    return dspy.streamify(think, stream_listeners=[listener], **options)


def text(question):
    return think(question=question).answer


async def atext(question):
    return (await think.acall(question=question)).answer


def stream_text(question):
    return [str(piece) for piece in streamed(async_streaming=False)(question=question)]


async def astream_text(question):
    return [str(piece) async for piece in streamed()(question=question)]


WAYS = {
    "sync": {"text": text},
    "async": {"text": atext},
    "stream": {"text": stream_text},
    "async stream": {"text": astream_text},
}
