"""dspy: predictors, its own cache off, on LiteLLM's engine."""

import os

import dspy

URL = os.environ["GATEWAY"] + "/v1"
# Its own cache would give each repeat the first draw.
model = dspy.LM(
    "openai/gpt-4o-mini", api_base=URL, api_key="sk-test", cache=False, engine="litellm"
)
dspy.configure(lm=model)
embedder = dspy.Embedder(
    "openai/text-embedding-3-small", api_base=URL, api_key="sk-test", caching=False
)
in_json = dspy.JSONAdapter()


class Answer(dspy.Signature):
    """Answer the question."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()
    inhabitants: int = dspy.OutputField()


predict = dspy.Predict(Answer)
think = dspy.ChainOfThought("question -> answer")


def shown(prediction):
    return {name: str(value) for name, value in prediction.items()}


def text(question):
    return shown(think(question=question))


def structured(question):
    with dspy.context(adapter=in_json):
        return shown(predict(question=question))


def vectors(question):
    return embedder([question, "Bye"]).tolist()


async def atext(question):
    return shown(await think.acall(question=question))


async def astructured(question):
    with dspy.context(adapter=in_json):
        return shown(await predict.acall(question=question))


async def avectors(question):
    return (await embedder.acall([question, "Bye"])).tolist()


def streamed(**options):
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    return dspy.streamify(think, stream_listeners=[listener], **options)


def stream_text(question):
    return [str(piece) for piece in streamed(async_streaming=False)(question=question)]


async def astream_text(question):
    return [str(piece) async for piece in streamed()(question=question)]


WAYS = {
    "sync": {"text": text, "structured": structured, "embeddings": vectors},
    "async": {"text": atext, "structured": astructured, "embeddings": avectors},
    "stream": {"text": stream_text},
    "async stream": {"text": astream_text},
}
