"""boto3: Converse and its stream, and a model's own language, blocking as all of it is."""

import json
import os

import boto3

MODEL = "anthropic.claude-haiku-4-5-v1:0"
client = boto3.client(
    "bedrock-runtime",
    region_name="us-east-1",
    endpoint_url=os.environ["GATEWAY"],
    aws_access_key_id="test",
    aws_secret_access_key="test",  # noqa: S106 - no key at all
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOCATE = {"toolSpec": {"name": "locate", "inputSchema": {"json": SCHEMA}}}


def asked(question):
    return {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": question}]}]}


def content(reply):
    return reply["output"]["message"]["content"][0]


def text(question):
    return content(client.converse(**asked(question)))["text"]


def tools(question):
    reply = client.converse(**asked(question), toolConfig={"tools": [LOCATE]})
    return content(reply)["toolUse"]["input"]


def invoke(question):
    messages = [{"role": "user", "content": question}]
    own = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": messages}
    reply = client.invoke_model(modelId=MODEL, body=json.dumps(own))
    return json.loads(reply["body"].read())["content"][0]["text"]


def stream_text(question):
    return list(client.converse_stream(**asked(question))["stream"])


WAYS = {
    "sync": {"text": text, "tools": tools, "invoke": invoke},
    "stream": {"text": stream_text},
}
