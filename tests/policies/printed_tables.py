"""Tables as the documents of the five systems print them, typed from the documents and not from the code."""

_MODEL_CONTEXT_WINDOWS = """
anthropic _default 200,000
claude-opus-4-20250514 200,000
claude-sonnet-4-20250514 200,000
claude-3-7-sonnet-20250219 200,000
claude-3-5-sonnet-20241022 200,000
claude-3-5-haiku-20241022 200,000
claude-3-opus-20240229 200,000
claude-3-sonnet-20240229 200,000
claude-3-haiku-20240307 200,000
openai _default 128,000
gpt-4o 128,000
gpt-4o-mini 128,000
gpt-4-turbo 128,000
gpt-4 8,192
gpt-3.5-turbo 16,385
o1 200,000
o1-mini 128,000
o1-pro 200,000
o3 200,000
o3-mini 200,000
o4-mini 200,000
gpt-4.1 1,047,576
gpt-4.1-mini 1,047,576
gpt-4.1-nano 1,047,576
gpt-5 1,047,576
google-ai _default 1,048,576
gemini-2.5-pro 1,048,576
gemini-2.5-flash 1,048,576
gemini-2.0-flash 1,048,576
gemini-1.5-pro 2,097,152
gemini-1.5-flash 1,048,576
gemini-3-flash-preview 1,048,576
gemini-3-pro-preview 1,048,576
vertex _default 1,048,576
gemini-2.5-pro 1,048,576
gemini-2.5-flash 1,048,576
gemini-2.0-flash 1,048,576
gemini-1.5-pro 2,097,152
gemini-1.5-flash 1,048,576
bedrock _default 200,000
anthropic.claude-3-5-sonnet-20241022-v2:0 200,000
anthropic.claude-3-5-haiku-20241022-v1:0 200,000
anthropic.claude-3-opus-20240229-v1:0 200,000
anthropic.claude-3-sonnet-20240229-v1:0 200,000
anthropic.claude-3-haiku-20240307-v1:0 200,000
amazon.nova-pro-v1:0 300,000
amazon.nova-lite-v1:0 300,000
azure _default 128,000
gpt-4o 128,000
gpt-4o-mini 128,000
gpt-4-turbo 128,000
gpt-4 8,192
mistral _default 128,000
mistral-large-latest 128,000
mistral-medium-latest 32,000
mistral-small-latest 128,000
codestral-latest 256,000
ollama _default 128,000
litellm _default 128,000
huggingface _default 32,000
sagemaker _default 128,000
"""


def _rows():
    provider = ""
    for line in _MODEL_CONTEXT_WINDOWS.strip().splitlines():
        *names, size = line.split()
        provider = names[0] if len(names) == 2 else provider
        yield provider, names[-1], int(size.replace(",", ""))


NEUROLINK_ROWS = tuple(_rows())
"""NeuroLink's document, "MODEL_CONTEXT_WINDOWS": provider, model and tokens of each printed line."""
NEUROLINK_MODELS = tuple(row for row in NEUROLINK_ROWS if row[1] != "_default")
NEUROLINK_DEFAULTS = tuple(
    (provider, size) for provider, model, size in NEUROLINK_ROWS if model == "_default"
)
