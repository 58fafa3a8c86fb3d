"""Refusals for size: recognised wherever they hide, never mistaken for anything else, read in linear time."""

import enum
import json
import re
import subprocess
import sys
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from growth import count_calls, stop_hang
from refold import OverflowInfo, overflow
from refold.errors import AnswerFailed, Overflow
from refold.testing import user

PATTERNS = tomllib.loads(files("refold.core.overflow").joinpath("data/patterns.toml").read_text("utf-8"))

OPAL = (
    "context_length_exceeded",
    "maximum context length",
    "max_tokens",
    "max_prompt_tokens",
    "too many tokens",
    "prompt is too long",
    "prompt_tokens_exceeded",
    "request too large",
    "context window",
    "token limit",
    "exceeds the limit",
    "input too long",
    "exceeds the model's maximum",
    "reduce the length",
    "maximum number of tokens",
    "content_too_large",
    "string_above_max_length",
)

NEUROLINK = {
    "This model's maximum context length is": "openai",
    "tokens. However, your messages": "openai",
    "tokens. However, you requested": "openai",
    "reduce the length of the messages": "openai",
    "Please reduce the length": "openai",
    "content_length_exceeded": "azure",
    "exceeds the maximum number of tokens": "google",
    "content is too long": "google",
    "input token limit": "google",
    "ValidationException: too many tokens": "bedrock",
    "Input is too long": "bedrock",
    "exceeds the model's maximum": "bedrock",
    "context length exceeded": "mistral",
    "maximum number of tokens": "mistral",
    "context_length_exceeded": "openai",
    "prompt is too long": "anthropic",
    "input is too long": "anthropic",
    "too many tokens": "anthropic",
    "maximum context length": None,
}

# who, limit, requested, message: as seen in public issue threads, client libraries and documentation
POSITIVE = [
    ("openai", 128000, 150000, "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens."),
    ("openai", 8192, 9224, "This model's maximum context length is 8192 tokens. However, you requested 9224 tokens (1224 in the messages, 8000 in the completion). Please reduce the length of the messages or completion."),
    ("openai", 8191, 10346, "This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10346 in your prompt; 5 for the completion). Please reduce your prompt; or completion length."),
    ("openai", 4097, None, "This model's maximum context length is 4097 tokens."),
    ("openai", None, None, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    ("openai", 272000, 301204, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 301204 tokens. Please reduce the length of the messages."),
    ("openai", None, None, "Error code: 400 - {'error': {'message': 'Please reduce the length of the messages.', 'type': 'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}"),
    ("openai", 16385, 20113, "Error code: 400 - {'error': {'message': \"This model's maximum context length is 16385 tokens. However, your messages resulted in 20113 tokens (19900 in the messages, 213 in the functions). Please reduce the length of the messages or functions.\", 'code': 'context_length_exceeded'}}"),
    ("openai", None, None, "Invalid 'input': string too long. Expected a string with maximum length 10485760, but got a string with length 11059200 instead."),
    ("openai", None, None, "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1540820 instead."),
    ("openai", 4096, 6050, '{"error":{"message":"This model\'s maximum context length is 4096 tokens. However, you requested 6050 tokens (6030 in the messages, 20 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}'),
    ("openai", 4096, 4104, "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104)."),
    ("openai", 32768, 32769, "This model's maximum context length is 32768 tokens. However, you requested 32000 output tokens and your prompt contains at least 769 input tokens, for a total of at least 32769 tokens. Please reduce the length of the input prompt or the number of requested output tokens."),
    ("openai", 131072, 134142, "This model's maximum context length is 131072 tokens. However, you requested 134142 tokens (126142 in the messages, 8000 in the completion)."),
    ("openai", None, None, "Codex ran out of room in the model's context window. Start a new conversation or clear earlier history before retrying."),
    ("openai", 1048576, 1048626, "This model\u2019s maximum context length is 1,048,576 tokens. However, you requested 1,048,626 tokens."),
    ("anthropic", 200000, 213462, "prompt is too long: 213462 tokens > 200000 maximum"),
    ("anthropic", 200000, 205148, '400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205148 tokens \\u003e 200000 maximum"}}'),
    ("anthropic", 200000, 209573, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"),
    ("anthropic", 1000000, 1040211, "API Error: 400 prompt is too long: 1,040,211 tokens > 1,000,000 maximum"),
    (None, None, None, '413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}'),
    ("bedrock", None, None, "An error occurred (ValidationException) when calling the Converse operation: Input is too long for requested model."),
    ("bedrock", None, None, "ValidationException: Input is too long for requested model."),
    ("bedrock", 128000, 140000, "Too many input tokens. Max input tokens: 128000, request input token count: 140000"),
    ("bedrock", None, None, "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again. (ValidationException)"),
    ("bedrock", 200000, 209573, "botocore: ValidationException: The model returned the following errors: input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
    ("google", 1048575, 1196265, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
    ("google", 1048576, None, "400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'The input token count exceeds the maximum number of tokens allowed 1048576.', 'status': 'INVALID_ARGUMENT'}}"),
    ("google", 1048576, 1200000, "Unable to submit request because the input token count is 1200000 but model only supports up to 1048576. Reduce the input token count and try again."),
    ("google", 32768, 35868, "429 RESOURCE_EXHAUSTED: The input token count (35868) exceeds the maximum number of tokens allowed (32768)."),
    ("google", None, None, "500 INTERNAL. An internal error has occurred. Your input context is too long. Please reduce your input context."),
    ("xai", 131072, 537812, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    ("groq", None, None, "groqexception - Please reduce the length of the messages or completion."),
    ("openrouter", 131072, 212745, "This endpoint's maximum context length is 131072 tokens. However, you requested about 212745 tokens (122163 of text input, 58582 of tool input, 32000 in the output). Please reduce the length of either one, or use the context-compression plugin."),
    ("openrouter", 65536, 72000, "OpenRouter: context_length_exceeded, maximum context length is 65536 tokens, you requested 72000 tokens"),
    ("mistral", 131072, 159115, "Prompt contains 159115 tokens and 0 draft tokens, too large for model with 131072 maximum context length"),
    ("mistral", 32768, 65673, '{"object":"error","message":"Prompt contains 65673 tokens, too large for model with 32768 maximum context length","type":"invalid_request_message_order","code":3051}'),
    ("llamacpp", 4096, 6030, "request (6030 tokens) exceeds the available context size (4096 tokens), try increasing it"),
    ("llamacpp", 4096, 6030, '{"error":{"code":400,"message":"request (6030 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":6030,"n_ctx":4096}}'),
    ("llamacpp", None, None, "HTTP 400: the request exceeds the available context size, try increasing it"),
    ("llamacpp", 4096, 6030, "Requested tokens (6030) exceed context window of 4096"),
    ("lmstudio", 4096, 5012, "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5012>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."),
    ("lmstudio", 4096, 15857, "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input."),
    ("lmstudio", 4096, 6547, "Trying to keep the first 6547 tokens when context overflows. However, the model is loaded with a context length of only 4096 tokens, which is not enough."),
    ("lmstudio", None, None, "Context size has been exceeded."),
    ("minimax", None, None, "invalid params, context window exceeds limit (2013)"),
    ("moonshot", 131072, 138011, "Invalid request: Your request exceeded model token limit: 131072 (requested: 138011)"),
    ("ollama", None, None, "prompt too long; exceeded max context length by 1234 tokens"),
    ("ollama", None, None, "the input length exceeds the context length"),
    ("alibaba", 129024, None, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"),
    ("zai", None, None, '{"error":{"code":"1261","message":"Prompt exceeds max length"}}'),
    ("zai", None, None, "Prompt \u8d85\u957f"),
    ("vllm", 32768, 40012, "The decoder prompt (length 40012) is longer than the maximum model length of 32768. Make sure that `max_model_len` is no smaller than the number of text tokens."),
    ("together", 200000, 210000, "The input (210000 tokens) is longer than the model's context length (200000 tokens)."),
    (None, 131072, 140000, "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140000 tokens: 130000 tokens from the input messages and 10000 tokens for the completion."),
    ("huggingface", 4096, 5012, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4500 `inputs` tokens and 512 `max_new_tokens`"),
    ("huggingface", 4096, 5000, "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
    ("cohere", 4081, 5012, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5012. Try using a shorter prompt, a smaller max_tokens value, or enabling prompt truncating."),
    ("cohere", 128000, 129234, "too many tokens: size limit exceeded by 1234 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens."),
    ("cloudflare", 128000, 155740, "5021: The estimated number of input and maximum output tokens (155740) exceeded this model context window limit (128000)."),
    ("github-copilot", 12288, 51808, '{"error":{"message":"prompt token count of 51808 exceeds the limit of 12288","code":"model_max_prompt_tokens_exceeded","param":"","type":""}}'),
    ("github-models", 8000, None, '{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens.","details":"Request body too large for gpt-4o model. Max size: 8000 tokens."}}'),
    ("watsonx", 8192, 9000, "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model"),
    ("fireworks", 131071, 140012, "The prompt is too long: 140012, model maximum context length: 131071"),
    ("cerebras", 8192, 9012, '{"message":"Please reduce the length of the messages or completion. Current length is 9012 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}'),
    ("cerebras", None, None, "400 status code (no body)"),
    ("cerebras", None, None, "413 status code (no body)"),
    (None, 131072, 262144, "Input length 262144 exceeds the maximum allowed input length of 131072 tokens."),
    (None, 32768, 32769, "Prompt has 32769 tokens, but the configured context size is 32768 tokens"),
    (None, 32768, 35000, "Request contains 35000 tokens, which exceeds the limit of 32768"),
    (None, 200000, None, "The conversation exceeds the limit of 200,000 tokens"),
    (None, None, None, "litellm.ContextWindowExceededError: litellm.BadRequestError"),
    ("openai", 128000, 150000, "litellm.BadRequestError: OpenAIException - This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens."),
    ("anthropic", 200000, 201000, 'litellm.BadRequestError: AnthropicException - b\'{"type":"error","error":{"message":"prompt is too long: 201000 tokens > 200000 maximum"}}\''),
    ("vertex", 200000, 201000, "VertexAIException BadRequestError - prompt is too long: 201000 tokens > 200000 maximum"),
    (None, None, None, "token limit exceeded"),
    (None, None, None, "context window full"),
    (None, None, None, "context window exceeded"),
    (None, None, None, "CONTEXT_WINDOW_EXCEEDED"),
    (None, None, None, "The conversation does not fit in the context window"),
    (None, None, None, "model_context_window_exceeded"),
    (None, None, None, "HTTP 413"),
    (None, None, None, "413 Payload Too Large"),
    (None, None, None, "Request failed with status code 413"),
    (None, None, None, "Client error '413 Request Entity Too Large' for url 'https://example.test/v1/chat/completions'"),
    (None, None, None, "\u8f93\u5165\u957f\u5ea6\u8d85\u8fc7\u9650\u5236"),
    ("openai", None, None, "500: context_length_exceeded"),
    (None, None, None, "Your input exceeds this model's context window"),
    (None, None, None, "Your input exceeds the model's context window"),
    (None, 32768, 40000, '{"error":{"message":"Prompt tokens (40000) exceeds context size (32768)","type":"context_exceeded","n_prompt_tokens":40000,"n_ctx":32768}}'),
    ("snowflake", 200000, None, "max tokens of 200000 exceeded"),
    ("llamacpp", 512, 1762, "ValueError('Requested tokens(1762) exceed context window of 512')"),
    (None, 8192, None, "The maximum input length is 8192 tokens."),
    (None, 32768, None, "The number of tokens in the prompt exceeds the model's maximum context length of 32768"),
]  # fmt: skip

NEGATIVE = [
    # rates and quotas
    "Rate limit reached for gpt-4o in organization org-abc on tokens per min (TPM): Limit 30000, Used 29500, Requested 1200. Please try again in 1.4s.",
    "Request too large for gpt-4o in organization org-abc on tokens per min (TPM): Limit 30000, Requested 40123. The input or output tokens must be reduced in order to run successfully.",
    "413 Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 15012, please reduce your message size and try again.",
    "Rate limit reached for model `llama-3.1-8b` on tokens per day (TPD): Limit 500000, Used 499000, Requested 3000. Please try again in 5m.",
    "This request would exceed your organization's rate limit of 30,000 input tokens per minute.",
    "Number of request tokens has exceeded your per-minute rate limit. Please reduce the prompt length or the maximum tokens requested, or try again later.",
    "Number of request tokens has exceeded your daily rate limit",
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "An error occurred (ThrottlingException) when calling the Converse operation (reached max retries: 4): Too many tokens, please wait before trying again.",
    "Too many tokens per day, please wait before trying again.",
    "429 Too many tokens, please wait before trying again.",
    '{"message":"Too many tokens, please wait before trying again."}',
    "RESOURCE_EXHAUSTED",
    "429 RESOURCE_EXHAUSTED. Resource has been exhausted (e.g. check quota).",
    "429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_input_token_count, limit: 250000', 'status': 'RESOURCE_EXHAUSTED'}}",
    "429 Too Many Requests",
    "429",
    "HTTP 429",
    "rate_limit_exceeded",
    "rate_limit_exceeded: too many tokens",
    '{"type":"error","error":{"type":"rate_limit_error","message":"too many tokens"}}',
    '{"error":{"code":"rate_limit_exceeded","message":"Request too large"}}',
    "Rate limit exceeded: maximum number of tokens per minute is 90000",
    "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 6 seconds.",
    "You exceeded your current quota, please check your plan and billing details.",
    "insufficient_quota",
    "Monthly token limit reached",
    "Daily token limit exceeded for your plan",
    "You have hit your usage limit. Token limit exceeded, resets at 9pm",
    "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 17000.",
    "Prompt tokens limit exceeded: 25000 > 4000. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account",
    "Your credit balance is too low to access the Anthropic API.",
    "token_rate_limit_exceeded",
    "Tokens per minute limit exceeded - too many tokens processed.",
    "too many tokens processed",
    "Current token count exceeds your organization quota",
    "This request exceeds the limit of 30000 tokens per minute",
    "Service tier capacity exceeded for this model.",
    "overloaded_error: Overloaded",
    "503 Service Unavailable",
    # bytes and media
    "Request payload size exceeds the limit: 20971520 bytes.",
    "request payload size exceeds",
    '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum allowed number of bytes. The maximum request size is 32 MB."}}',
    "413 Request body too large: the limit is 10 MB",
    "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5512345 bytes > 5242880 bytes",
    "Image too large: at most 8000 pixels per side",
    "Invalid image: the image is too large",
    "The uploaded attachment is too large",
    "A maximum of 100 PDF pages may be provided",
    "File size exceeds the limit of 512 MB",
    "too many images: 101 > 100",
    "grpc: received message larger than max (5000000 vs. 4194304 bytes)",
    # parameters
    "max_tokens must be at least 1",
    "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000.",
    "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
    "`max_tokens` must be greater than `thinking.budget_tokens`.",
    "Invalid value for 'max_tokens': -5",
    "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
    "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
    "An error occurred (ValidationException) when calling the InvokeModel operation: The maximum tokens you requested exceeds the model limit of 4096.",
    "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 8192.",
    "Range of max_tokens should be [1, 8192]",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.",
    "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 70 instead.",
    "Invalid 'metadata.key': string too long. Expected a string with maximum length 512, but got a string with length 600 instead.",
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150 instead.",
    "The number of tools exceeds the limit of 128",
    "Invalid 'stop': at most 4 stop sequences",
    "Requested max_tokens exceeds the model output limit",
    "temperature exceeds maximum allowed value",
    "schema is too long",
    "input exceeds maximum file size",
    "The prompt exceeds the maximum input size of 5 MB",
    # everything else
    "500 Internal Server Error",
    "Internal server error",
    "502 Bad Gateway",
    "unauthorized",
    "401 Unauthorized: invalid api key",
    "invalid_api_key",
    "Incorrect API key provided",
    "The security token included in the request is invalid. (ValidationException)",
    "ValidationException: Invalid next token",
    "permission denied: token limit for this project is managed by an administrator",
    "model not found",
    "The model `gpt-9` does not exist or you do not have access to it.",
    "connection refused",
    "econnreset",
    "network timeout",
    "Request timed out.",
    "[Errno 90] Message too long",
    "[Errno 36] File name too long",
    "414 Request-URI Too Long",
    "431 Request Header Fields Too Large",
    "Bad Request: message is too long",
    'messages: roles must alternate between "user" and "assistant"',
    "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    "Invalid JSON in tool arguments: Unexpected token '}' at position 4096",
    "SyntaxError: Unexpected token < in JSON at position 0",
    "content_filter: The response was filtered",
    "context canceled",
    "context deadline exceeded",
    "Failed to load model: context window must be at least 2048",
    "end_turn",
    "stop",
    "length",
    "",
    " ",
]  # fmt: skip


# --- words


@pytest.mark.parametrize(("provider", "limit", "requested", "message"), POSITIVE)
def test_a_refusal_for_size_is_recognised_with_its_numbers_and_who_refused(
    provider, limit, requested, message
):
    assert overflow(message) == OverflowInfo(provider, limit, requested)


@pytest.mark.parametrize("message", NEGATIVE)
def test_what_is_not_about_the_size_of_the_context_is_no_overflow(message):
    assert overflow(message) is None
    assert overflow(RuntimeError(message)) is None
    assert overflow({"error": {"message": message}}) is None


def test_there_are_at_least_sixty_of_each():
    assert len(POSITIVE) >= 60
    assert len(NEGATIVE) >= 60


@pytest.mark.parametrize("word", OPAL)
def test_each_of_opals_strings_is_recognised(word):
    """Opal, overflow (17 known error strings) and case 20: each of them, in any case, alone and as an error."""
    assert overflow(word)
    assert overflow(word.upper())
    assert overflow(f"Error: {word}")
    assert overflow({"error": {"message": word}})
    assert overflow(RuntimeError(word))


@pytest.mark.parametrize(
    "word",
    [
        "rate_limit_exceeded",
        "500 Internal Server Error",
        "unauthorized",
        "connection refused",
        "429 Too Many Requests",
        "503",
        "",
        "econnreset",
    ],
)
def test_opals_negatives_are_none(word):
    """Opal case 20, negatives."""
    assert overflow(word) is None


def test_opals_code_in_a_map_is_recognised():
    """Opal case 20: a map with the code model_max_prompt_tokens_exceeded."""
    assert overflow({"code": "model_max_prompt_tokens_exceeded"}) == OverflowInfo(
        "github-copilot", None, None
    )


def test_opals_words_in_rate_limits_and_parameter_errors_are_none():
    """Opal, decisions and known faults: `max_tokens`, `token limit`, `request too large`, `exceeds the limit`."""
    assert overflow("max_tokens must be positive") is None
    assert overflow("token limit per minute reached") is None
    assert overflow("request too large: 21 MB") is None
    assert overflow("image exceeds the limit") is None
    assert overflow("image exceeds the limit of 5 MB") is None
    assert overflow("Rate limit reached: token limit of 30000 tokens per minute") is None


@pytest.mark.parametrize(("words", "provider"), NEUROLINK.items())
def test_neurolinks_patterns_are_recognised_and_attributed(words, provider):
    """NeuroLink, Supported Provider Patterns; two of them are said about bytes and rates and are left out here."""
    found = overflow(words)
    assert found
    assert found.provider == provider


@pytest.mark.parametrize(
    ("error", "provider"),
    [
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.",
            "openai",
        ),
        ("Please reduce the length of the messages.", "openai"),
        ("content_length_exceeded", "azure"),
        ("exceeds the maximum number of tokens", "google"),
        ("content is too long", "google"),
        ("ValidationException: Too many input tokens", "bedrock"),
        ("Input is too long", "bedrock"),
        ("exceeds the model's maximum", "bedrock"),
        ("context length exceeded", "mistral"),
        ("prompt is too long", "anthropic"),
        ({"message": "too many tokens"}, "anthropic"),
        ({"error": {"message": "prompt is too long"}}, "anthropic"),
        ({"error": "prompt is too long"}, "anthropic"),
        (ValueError("prompt is too long"), "anthropic"),
        ("RESOURCE_EXHAUSTED: input token count exceeds the maximum number of tokens allowed", "google"),
    ],
)
def test_neurolinks_true_cases(error, provider):
    """NeuroLink, "Supported Provider Patterns", and case 22, true."""
    assert overflow(error).provider == provider


@pytest.mark.parametrize(
    "error",
    [
        "rate limit exceeded",
        "invalid API key",
        "model not found",
        "server error",
        "network timeout",
        None,
        "Rate limit: too many tokens per minute",
    ],
)
def test_neurolinks_false_cases(error):
    """NeuroLink case 22, false; null and undefined are None here."""
    assert overflow(error) is None


def test_neurolinks_resource_exhausted_is_a_rate_limit_unless_it_speaks_of_the_request():
    """NeuroLink case 23 and its known faults: RESOURCE_EXHAUSTED is also Google's rate limit."""
    assert overflow("RESOURCE_EXHAUSTED") is None
    found = overflow("RESOURCE_EXHAUSTED: request exceeds the maximum number of tokens")
    assert found == OverflowInfo("google", None, None)


def test_openais_code_is_openais_unless_a_router_is_named():
    """NeuroLink, known faults: context_length_exceeded was attributed to OpenRouter."""
    assert overflow("context_length_exceeded").provider == "openai"
    assert overflow("openrouter: context_length_exceeded").provider == "openrouter"


def test_a_rate_limit_in_the_same_sentence_contradicts_even_sure_words():
    assert overflow("prompt is too long for your rate limit of 10000 TPM") is None
    assert (
        overflow("Hit the rate limit before. Now: prompt is too long: 9000 tokens > 8192 maximum").limit
        == 8192
    )


def test_nothing_is_searched_where_nothing_speaks_of_a_refusal():
    """No pattern finds anything in no words, so that an answer without any is not searched 75 times."""
    assert not any(re.search(row["pattern"], "") for kind in ("sure", "loose") for row in PATTERNS[kind])
    report = {"usage": {"prompt_tokens": 9}, "choices": [], "model": "m"}
    assert overflow(report) is None
    assert count_calls(lambda: overflow(report)) < 150  # 70; with the searches 190


@pytest.mark.parametrize("row", [*PATTERNS["sure"], *PATTERNS["loose"]], ids=lambda row: row["example"][:40])
def test_every_pattern_stands_beside_a_real_message_that_it_recognises(row):
    assert re.search(row["pattern"], row["example"].lower())
    assert row["source"]
    found = overflow(row["example"])
    assert found
    assert found.provider == row.get("provider")


@pytest.mark.parametrize(
    ("kind", "row"),
    [(kind, row) for kind, rows in PATTERNS["sizes"].items() for row in rows],
    ids=lambda value: value if isinstance(value, str) else value["pattern"][:40],
)
def test_every_pattern_of_sizes_stands_beside_a_message_whose_numbers_are_read(kind, row):
    found = overflow(row["example"])
    assert found
    assert kind == "requested" or found.limit
    assert kind == "limit" or found.requested or found.limit


def test_a_mere_word_means_size_only_where_it_stands_alone():
    for word, provider in PATTERNS["bare"].items():
        assert overflow(word).provider == (provider or None)
    assert overflow("maximum number of tokens") == OverflowInfo("mistral", None, None)
    for word in ("context window", "max_tokens", "maximum number of tokens", "token limit"):
        assert overflow(f"the {word} of this model is described in the manual") is None


# --- numbers


def test_separators_of_thousands_are_read():
    assert overflow("prompt is too long: 213,462 tokens > 200_000 maximum") == OverflowInfo(
        "anthropic", 200_000, 213_462
    )
    assert overflow("maximum context length is 128k tokens").limit == 128_000


def test_two_numbers_in_brackets_are_the_request_and_the_limit():
    """NeuroLink reads `X > Y` and `X exceeds Y`; a sum of three numbers is read elsewhere."""
    assert overflow("prompt is too long (180000 > 100000)") == OverflowInfo("anthropic", 100_000, 180_000)
    assert overflow("prompt is too long: 180,000 exceeds 100,000").requested == 180_000


def test_what_was_refused_is_the_input_with_the_output_that_was_asked_for():
    assert (
        overflow("input length and max_tokens exceed context limit: 150000 + 64000 > 200000").requested
        == 214_000
    )


def test_absurd_numbers_are_dropped():
    assert overflow("prompt is too long: 99999999999999 tokens > 0 maximum") == OverflowInfo(
        "anthropic", None, None
    )
    assert overflow("maximum context length is 8192 tokens, you requested 12 tokens") == OverflowInfo(
        None, 8192, None
    )


def test_only_a_believable_limit_is_learnable():
    """A forged text can say anything: what is learned lies between 4,096 and ten million."""
    assert overflow("maximum context length is 1 tokens").limit == 1
    assert overflow("maximum context length is 1 tokens").learnable is None
    assert overflow("maximum context length is 1024 tokens").learnable == 1_024
    assert overflow("maximum context length is 10000000 tokens").learnable == 10_000_000
    assert overflow("maximum context length is 10000001 tokens").learnable is None
    assert overflow("prompt is too long").learnable is None
    assert OverflowInfo(None, None, None).learnable is None
    assert OverflowInfo(None, 1_023, None).learnable is None


def test_fields_of_the_llama_server_are_read_where_the_text_tells_nothing():
    error = {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 6_030, "n_ctx": 4_096}}
    assert overflow(error) == OverflowInfo("llamacpp", 4_096, 6_030)
    assert overflow({"error": {"type": "exceed_context_size_error", "n_ctx": 4_096}}).requested is None


def test_the_cause_may_know_the_numbers_that_the_outer_error_lost():
    outer = RuntimeError("context_length_exceeded")
    outer.__cause__ = ValueError("prompt is too long: 213462 tokens > 200000 maximum")
    found = overflow(outer)
    assert (found.limit, found.requested) == (200_000, 213_462)


# --- where errors hide

TOO_LONG = "prompt is too long: 213462 tokens > 200000 maximum"
FOUND = OverflowInfo("anthropic", 200_000, 213_462)


class ApiError(Exception):
    def __init__(self, text="", **fields):
        super().__init__(text)
        for name, value in fields.items():
            setattr(self, name, value)


class Response:
    def __init__(self, **fields):
        self.__dict__.update(fields)


BODY = {"type": "error", "error": {"type": "invalid_request_error", "message": TOO_LONG}}


@pytest.mark.parametrize(
    "error",
    [
        TOO_LONG,
        TOO_LONG.encode(),
        bytearray(TOO_LONG.encode()),
        json.dumps(BODY),
        json.dumps(BODY).encode(),
        "  " + json.dumps(BODY),
        BODY,
        [BODY],
        (BODY,),
        {"errors": [BODY["error"]]},
        {"detail": [{"msg": TOO_LONG}]},
        {"detail": TOO_LONG},
        {"Error": {"Code": "Bad", "Message": TOO_LONG}},
        {"response": {"data": BODY}},
        {"status": 400, "body": json.dumps(BODY)},
        {"status_code": 400, "content": json.dumps(BODY).encode()},
        {"statusCode": "400", "text": TOO_LONG},
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps(BODY)}}},
        {"choices": [{"error": {"code": 400, "message": TOO_LONG}}]},
        f"event: error\ndata: {json.dumps(BODY)}\n\n",
        f'data: {{"choices":[{{"delta":{{"content":"hi"}}}}]}}\n\ndata: {json.dumps(BODY)}\n\ndata: [DONE]\n\n',
        f"event: message_start\ndata: {{}}\n\nevent: error\ndata: {TOO_LONG}\n\n",
        {"type": "response.failed", "response": {"error": {"message": TOO_LONG}, "output": []}},
        RuntimeError(TOO_LONG),
        RuntimeError(BODY),
        RuntimeError("failed", BODY),
        ApiError("failed", body=BODY),
        ApiError("failed", body=json.dumps(BODY)),
        ApiError("failed", message=TOO_LONG),
        ApiError("failed", error=BODY["error"]),
        ApiError("failed", response=Response(status_code=400, text=json.dumps(BODY))),
        ApiError("failed", response=Response(status_code=400, content=json.dumps(BODY).encode())),
        ApiError("failed", response=Response(status_code=400, json=lambda: BODY)),
        ApiError("failed", response={"Error": {"Message": TOO_LONG}}),
        ApiError("failed", details=[BODY]),
        Response(status_code=400, text=json.dumps(BODY)),
        Response(error=Response(message=TOO_LONG)),
        ExceptionGroup("several", [ValueError("other"), ExceptionGroup("inner", [RuntimeError(TOO_LONG)])]),
    ],
)
def test_a_refusal_is_found_wherever_it_hides(error):
    assert overflow(error) == FOUND


def test_causes_and_contexts_are_looked_through():
    for link in ("__cause__", "__context__"):
        outer = RuntimeError("the agent stopped")
        setattr(outer, link, RuntimeError("the step failed"))
        setattr(getattr(outer, link), link, ValueError(TOO_LONG))
        assert overflow(outer) == FOUND


def test_a_rate_limit_around_a_refusal_does_not_hide_it_and_one_beside_it_does_not_cause_it():
    outer = RuntimeError("rate limit handler gave up")
    outer.__cause__ = ValueError("too many tokens")
    assert overflow(outer)
    assert overflow({"error": {"type": "rate_limit_error", "message": "too many tokens"}}) is None


def test_our_own_error_and_our_own_answer_are_taken_as_they_are():
    assert overflow(Overflow("openai", 5, 6)) == OverflowInfo("openai", 5, 6)
    assert overflow(AnswerFailed("x", cause=Overflow("openai", 5, 6))) == OverflowInfo("openai", 5, 6)
    assert overflow(AnswerFailed("x", cause=ValueError("prompt is too long"))) is None
    assert overflow(FOUND) is FOUND


def test_a_class_that_is_named_for_it_is_enough():
    class ContextWindowExceededError(Exception):
        pass

    assert overflow(ContextWindowExceededError("400")) == OverflowInfo(None, None, None)


def test_names_of_constants_are_read():
    """Opal case 20: an atom."""

    class Reason(enum.Enum):
        CONTEXT_LENGTH_EXCEEDED = 1

    assert overflow(Reason.CONTEXT_LENGTH_EXCEEDED)


def test_a_finish_reason_can_say_it():
    reason = "model_context_window_exceeded"
    for answer in (
        {"stop_reason": reason, "content": [{"type": "text", "text": "hi"}]},
        {"choices": [{"finish_reason": reason, "message": {"content": "hi"}}]},
        {"candidates": [{"finishReason": reason}]},
        Response(stop_reason=reason),
        Response(choices=[Response(finish_reason=reason)]),
        {"type": "message_delta", "delta": {}, "stop_reason": reason},
    ):
        assert overflow(answer)


@pytest.mark.parametrize(
    "answer",
    [
        {"stop_reason": "max_tokens"},
        {"choices": [{"finish_reason": "length", "message": {"role": "assistant", "content": TOO_LONG}}]},
        {"candidates": [{"finishReason": "MAX_TOKENS", "content": {"parts": [{"text": TOO_LONG}]}}]},
        {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [{"content": [{"text": TOO_LONG}]}],
        },
        {"content": [{"type": "text", "text": TOO_LONG}], "stop_reason": "end_turn"},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": TOO_LONG}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": TOO_LONG}},
        {"type": "response.output_text.done", "text": TOO_LONG},
        {"model": "m", "response": TOO_LONG, "done": True},
        {"role": "user", "content": TOO_LONG},
        f'data: {{"choices":[{{"delta":{{"content":"{TOO_LONG}"}}}}]}}\n\ndata: [DONE]\n\n',
        json.dumps({"choices": [{"message": {"content": TOO_LONG}}]}),
        Response(choices=[Response(finish_reason="stop", text=TOO_LONG)], text=TOO_LONG),
        {"choices": "nonsense", "output": 5},
    ],
)
def test_what_a_model_said_about_overflows_is_no_overflow(answer):
    assert overflow(answer) is None


# --- statuses


def test_413_is_a_refusal_for_size_unless_it_speaks_of_bytes_or_rates():
    assert overflow({"status": 413})
    assert overflow(ApiError("Request Entity Too Large", status_code=413))
    assert overflow(
        Response(status_code=413, text="<html><title>413 Request Entity Too Large</title></html>")
    )
    assert overflow(ApiError("too big: 40 MB", status_code=413)) is None
    assert overflow(ApiError("slow down: tokens per minute", status_code=413)) is None


def test_a_status_that_means_something_else_contradicts_loose_words_only():
    for status in (401, 402, 403, 429):
        assert overflow(ApiError("too many tokens", status_code=status)) is None
        assert overflow(ApiError(TOO_LONG, status_code=status)) == FOUND
    assert overflow(ApiError("too many tokens", status_code=400))


@pytest.mark.parametrize(
    "error",
    [
        {"status": 400, "body": ""},
        {"status": 400, "body": None},
        ApiError("", status_code=400),
        ApiError("Error code: 400", status_code=400, body=""),
        ApiError(
            "Error code: 400", response=Response(status_code=400, text="", url="https://api.cerebras.ai/v1")
        ),
        ApiError(
            "Client error '400 Bad Request' for url 'https://api.cerebras.ai/v1/chat/completions'\nFor more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/400",
            response=Response(status_code=400, text=""),
        ),
        "400 status code (no body)",
    ],
)
def test_400_without_a_body_is_how_cerebras_refuses(error):
    assert overflow(error) == OverflowInfo("cerebras", None, None)


@pytest.mark.parametrize(
    "error",
    [
        {"status": 400},
        {"status": 400, "body": "invalid role"},
        {"status": 500, "body": ""},
        {"status": 429, "body": ""},
        ApiError("invalid role", status_code=400, body=""),
        ApiError(
            "Error code: 400",
            status_code=400,
            body="",
            response=Response(status_code=400, text="", url="https://api.openai.com/v1"),
        ),
        ApiError(
            "Error code: 400", status_code=400, body="", request=Response(url="https://gateway.test/v1")
        ),
        ApiError("Client error '400 Bad Request' for url 'https://gateway.test'", status_code=400, body=""),
        "429 status code (no body)",
        400,
        413,
    ],
)
def test_other_answers_without_a_body_are_not(error):
    assert overflow(error) is None


def test_the_caller_may_say_who_was_asked():
    assert overflow(TOO_LONG, provider="Amazon Bedrock").provider == "bedrock"
    assert overflow({"status": 400, "body": ""}, provider="openai") is None
    assert overflow({"status": 400, "body": ""}, provider="cerebras")


# --- who refused


def module_error(module, message, **fields):
    kind = type("BadRequestError", (ApiError,), {"__module__": module})
    return kind(message, **fields)


@pytest.mark.parametrize(
    ("module", "message", "provider"),
    [
        ("openai", "This model's maximum context length is 8192 tokens.", "openai"),
        ("groq", "This model's maximum context length is 8192 tokens.", "groq"),
        (
            "openai",
            "This model's maximum prompt length is 131072 but the request contains 137812 tokens.",
            "xai",
        ),
        ("anthropic._exceptions", "Input is too long", "bedrock"),
        ("anthropic._exceptions", "input is too long", "anthropic"),
        ("botocore.errorfactory", "prompt is too long: 5000 tokens > 4096 maximum", "bedrock"),
        ("botocore.errorfactory", "input is too long", "bedrock"),
        ("google.genai.errors", "content is too long", "google"),
        ("mistralai.models", "too many tokens", "mistral"),
        ("anthropic", "invalid params, context window exceeds limit (2013)", "minimax"),
        ("mylib", "request too large", None),
    ],
)
def test_the_library_tells_who_refused_where_the_words_are_everybodys(module, message, provider):
    assert overflow(module_error(module, message)).provider == provider


def test_the_address_tells_who_refused():
    words = "This model's maximum context length is 8192 tokens."
    for url, provider in (
        ("https://openrouter.ai/api/v1/chat/completions", "openrouter"),
        ("https://my.openai.azure.com/openai/deployments/x", "azure"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "bedrock"),
        ("https://api.deepseek.com/v1", "deepseek"),
        ("http://localhost:11434/v1", "ollama"),
        ("https://unknown.test/v1", "openai"),
    ):
        assert overflow(ApiError(words, response=Response(status_code=400, url=url))).provider == provider
        assert overflow(ApiError(words, request=Response(url=url))).provider == provider
        assert overflow({"error": {"message": words}, "url": url}).provider == provider
    assert overflow(ApiError(words, llm_provider="together_ai")).provider == "together"


# --- hostile


@pytest.mark.few_values(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a" * 10_000_000,
        " " * 10_000_000,
        "\n" * 10_000_000,
        "1" * 10_000_000,
        "1," * 5_000_000,
        "token " * 1_600_000,
        "maximum context length is " * 400_000,
        "exceeds the limit of " * 500_000,
        "validationexception token " * 400_000,
        "input token count " * 550_000,
        "data: {" * 1_400_000,
        "data: x\n" * 1_200_000,
        "[" * 10_000_000,
        '{"error":' * 1_100_000,
        '{"a":"' + "x" * 10_000_000 + '"}',
        "requested 1,1,1,1 " * 500_000,
        "(1 tokens) exceeds " * 500_000,
        "rate limit prompt is too long " * 300_000,
        "\u4e0a\u4e0b\u6587" * 3_000_000,
    ],
    ids=lambda text: text[:20].strip()[:12],
)
def test_ten_million_characters_of_hostile_text_do_not_hang(text):
    with stop_hang():
        overflow(text)
        overflow(text.encode())


def test_a_refusal_at_the_beginning_or_the_end_of_a_huge_text_is_found():
    assert overflow(TOO_LONG + ". " + "x" * 10_000_000).limit == 200_000
    assert overflow("x" * 10_000_000 + " " + TOO_LONG).limit == 200_000


def test_circles_end():
    knot = {"error": {}}
    knot["error"]["error"] = knot
    ring = []
    ring.append(ring)
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    own = ApiError("x")
    own.response = own
    for error in (knot, ring, first, own):
        assert overflow(error) is None
    knot["message"] = TOO_LONG
    assert overflow(knot) == FOUND


@pytest.mark.slow
def test_a_hundred_thousand_levels_do_not_crash():
    deep_dict, deep_list = {"message": "x"}, ["x"]
    for _ in range(100_000):
        deep_dict, deep_list = {"error": deep_dict}, [deep_list]
    assert overflow(deep_dict) is None
    assert overflow(deep_list) is None
    error = RuntimeError("bottom")
    for _ in range(100_000):
        above = RuntimeError("level")
        above.__cause__ = error
        error = above
    assert overflow(error) is None
    while deep_dict.get("error"):  # taken apart from above: freeing it at once would need a deep stack
        deep_dict = deep_dict["error"]
    while error.__cause__:
        error = error.__cause__


@pytest.mark.slow
def test_a_million_entries_are_not_all_read():
    many = [
        [{"message": "x"}] * 1_000_000,
        {str(number): "x" * 1_000 for number in range(100_000)},
        ["y" * 20_000 + str(number) for number in range(2_000)],
    ]
    overflow("x")  # the patterns are loaded once
    assert all(count_calls(lambda value=value: overflow(value)) < 20_000 for value in many)


class Hostile:
    def __getattribute__(self, name):
        raise RuntimeError("do not touch")


class HostileError(Exception):
    def __str__(self):
        raise RuntimeError("do not print")

    def __getattr__(self, name):
        raise RuntimeError("do not touch")


class HostileDict(dict):
    def items(self):
        raise RuntimeError("do not read")


class Endless:
    def __getattr__(self, name):
        return Endless()


async def later():
    return BODY


def promised():
    return later()


def hostile_errors():
    yield Hostile()
    yield HostileError()
    yield HostileDict(message=TOO_LONG)
    yield Endless()
    yield ApiError("x", response=Hostile())
    yield ApiError("x", body=HostileDict())
    yield Response(status_code=400, json=lambda: 1 / 0)
    yield Response(status_code=400, json=later)
    yield Response(status_code=400, json=promised)
    yield Response(status_code=400, json=5)
    yield {1: TOO_LONG, None: TOO_LONG}
    yield {"error": object()}
    yield {"choices": [Hostile()]}
    yield from (object(), 5, 5.5, True, False, int, b"\xff\xfe\x00", "\ud800 lone surrogate", 10**5_000)
    yield {"code": 10**5_000}
    yield {"code": "9" * 10_000}


def test_nothing_that_is_handed_over_makes_it_raise():
    for error in hostile_errors():
        assert overflow(error) is None


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.sampled_from(OPAL)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["error", "message", "code", "status", "body", "content", "choices", "x"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_judged_without_raising_and_alike_as_text(value):
    found = overflow(value)
    assert found is None or isinstance(found, OverflowInfo)
    if isinstance(value, dict | list):
        assert overflow(json.dumps(value)) == found


@given(st.text())
def test_any_text_is_judged_without_raising(text):
    assert overflow(text) is None or isinstance(overflow(text), OverflowInfo)


@given(
    st.sampled_from([row["example"] for row in PATTERNS["sure"] if row["example"][0] != "{"]),
    st.text("abcdef \n", max_size=40),
)
def test_words_around_sure_words_do_not_hide_them(message, words):
    assert overflow(f"{words}\n{message}")
    assert overflow(f"{message}\n{words}")


def test_a_gateway_that_only_repeats_numbers_of_a_refusal_is_read_once():
    assert overflow(RuntimeError(TOO_LONG, TOO_LONG)) == FOUND


def test_reported_input_above_the_window_is_an_overflow_without_an_error():
    """Opal case 21: 128,000 of 128,000 is none, 128,001 is one; it counts against the next request."""
    full, over = (refold.measure([user("hi")], window=128_000, usage=tokens) for tokens in (128_000, 128_001))
    assert (full.used > full.window, over.used > over.window) == (False, True)
    assert over.should_compact


@pytest.mark.slow
def test_an_error_that_is_no_refusal_compiles_few_patterns():
    """A program waits for the first answer; the numbers of a refusal are looked for in refusals alone."""
    program = """
import re, refold
refold.overflow
compile_pattern, seen = re.compile, []
re.compile = lambda *given, **more: seen.append(given) or compile_pattern(*given, **more)
refold.overflow("connection reset by peer")
before = len(seen)
print(before, refold.overflow("prompt is too long: 213000 tokens > 200000 maximum").limit, len(seen) - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, limit, later = map(int, done.stdout.split())
    assert limit == 200_000
    assert 0 < first < 100
    assert later > 20
