"""What a refusal for size looks like in words: every pattern beside a real message and who says it.

Knows texts only; `overflow` knows where they hide. Texts arrive in lower case, blanks collapsed, cut to a
bounded length, and every gap in a pattern is bounded: the work is linear in the text.

Two kinds of words. A *sure* pattern is said about the context's size and nothing else, so only a rate limit
or bytes in the same sentence can contradict it. A *loose* pattern ("too many tokens", "request too large") is
also said of rate limits, bytes and parameters, so one word about those anywhere in the message contradicts
it. The error to avoid is the false alarm: it folds for nothing, while a refusal missed is shown to the user.

Long because it is a table: one row a way of refusing.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sign:
    """One way of refusing: who speaks so, how to recognise it in lower case, and a real message."""

    provider: str | None
    pattern: str
    example: str


SURE: Final = (
    Sign("azure", r"content_length_exceeded", "content_length_exceeded"),
    Sign(
        "openai",
        r"context_length_exceeded",
        "Error code: 400 - {'error': {'code': 'context_length_exceeded'}}",
    ),
    Sign("github-copilot", r"max_prompt_tokens", '{"error":{"code":"model_max_prompt_tokens_exceeded"}}'),
    Sign(
        "llamacpp", r"exceed_context_size_error", '{"error":{"code":400,"type":"exceed_context_size_error"}}'
    ),
    Sign("watsonx", r"token_quantity_exceeded", '{"code":"token_quantity_exceeded"}'),
    Sign(None, r"model_context_window_exceeded", "Provider finish_reason: model_context_window_exceeded"),
    Sign(None, r"prompt_tokens_exceeded", "prompt_tokens_exceeded"),
    Sign(
        "openrouter",
        r"this endpoint's maximum context length",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 212745"
        " tokens (122163 of text input, 58582 of tool input, 32000 in the output).",
    ),
    Sign(
        "openai",
        r"this model's maximum context length",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000"
        " tokens. Please reduce the length of the messages.",
    ),
    Sign(
        "openai",
        r"tokens\. however, (?:your messages|you requested)",
        "The limit is 4097 tokens. However, you requested 5000 tokens.",
    ),
    Sign(
        "openai",
        r"input exceeds the context window",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    Sign(
        "openai",
        r"input tokens exceed the configured limit",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 301204 tokens.",
    ),
    Sign(
        "openai",
        r"ran out of room in the model's context",
        "Codex ran out of room in the model's context window.",
    ),
    Sign(
        "fireworks",
        r"model maximum context length: ",
        "The prompt is too long: 140012, model maximum context length: 131071",
    ),
    Sign("anthropic", r"prompt is too long", "prompt is too long: 213462 tokens > 200000 maximum"),
    Sign(
        "anthropic",
        r"input length and `?max_tokens`? exceed context limit",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input"
        " length or `max_tokens` and try again",
    ),
    Sign(
        "bedrock",
        r"input is too long for (?:the )?requested model",
        "An error occurred (ValidationException) when calling the Converse operation: Input is too long"
        " for requested model.",
    ),
    Sign(
        "bedrock",
        r"too many input tokens",
        "Too many input tokens. Max input tokens: 128000, request input token count: 140000",
    ),
    Sign(
        "bedrock",
        r"number of input tokens exceeds maximum length",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input"
        " to try again.",
    ),
    Sign(
        "bedrock",
        r"tokens in request more than max tokens allowed",
        "Number of tokens in request more than max tokens allowed: 9000 > 8192",
    ),
    Sign(
        "google",
        r"input token count[^.]{0,40}exceeds",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    ),
    Sign(
        "google",
        r"exceeds the maximum number of tokens",
        "The request exceeds the maximum number of tokens allowed.",
    ),
    Sign(
        "google",
        r"input token count is [^.]{0,80}only supports up to",
        "Unable to submit request because the input token count is 1200000 but model only supports up to"
        " 1048576. Reduce the input token count and try again.",
    ),
    Sign(
        "google",
        r"input context is too long",
        "An internal error has occurred. Your input context is too long.",
    ),
    Sign(
        "xai",
        r"maximum prompt length is",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ),
    Sign(
        "mistral",
        r"too large for model with",
        "Prompt contains 159115 tokens and 0 draft tokens, too large for model with 131072 maximum"
        " context length",
    ),
    Sign("mistral", r"context length exceeded", "context length exceeded"),
    Sign(
        "llamacpp",
        r"exceeds? the available context size",
        "request (6030 tokens) exceeds the available context size (4096 tokens), try increasing it",
    ),
    Sign(
        "llamacpp",
        r"requested tokens ?\([^)]{1,20}\) exceed context window",
        "Requested tokens (6030) exceed context window of 4096",
    ),
    Sign(
        "lmstudio",
        r"greater than the context length",
        "The number of tokens to keep from the initial prompt is greater than the context length"
        " (n_keep: 5012>= n_ctx: 4096).",
    ),
    Sign("lmstudio", r"context size has been exceeded", "Context size has been exceeded."),
    Sign("minimax", r"context window exceeds limit", "invalid params, context window exceeds limit (2013)"),
    Sign(
        "moonshot",
        r"exceeded model token limit",
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 138011)",
    ),
    Sign(
        "ollama",
        r"exceeded (?:max )?context length",
        "prompt too long; exceeded max context length by 1234 tokens",
    ),
    Sign(
        "ollama",
        r"input length exceeds (?:the |maximum |max )*context length",
        "the input length exceeds the context length",
    ),
    Sign(
        "alibaba",
        r"range of input length should be",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    ),
    Sign(
        "zai",
        r"prompt exceeds max length|prompt 超长|prompt too long",
        '{"error":{"code":"1261","message":"Prompt 超长"}}',
    ),
    Sign(
        "vllm",
        r"longer than the maximum model length",
        "The decoder prompt (length 40012) is longer than the maximum model length of 32768. Make sure"
        " that `max_model_len` is no smaller than the number of text tokens.",
    ),
    Sign(
        "together",
        r"longer than the model'?s context length",
        "The input (210000 tokens) is longer than the model's context length (200000 tokens).",
    ),
    Sign(
        "huggingface",
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be <=",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4500"
        " `inputs` tokens and 512 `max_new_tokens`",
    ),
    Sign(
        "huggingface",
        r"`?inputs`? must have less than [0-9,_]{1,15} tokens",
        "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
    ),
    Sign(
        "cohere",
        r"too many tokens: (?:total number of tokens|size limit exceeded)",
        "too many tokens: size limit exceeded by 1234 tokens. Try using shorter or fewer inputs. The"
        " limit for this model is 128000 tokens.",
    ),
    Sign(
        "cloudflare",
        r"exceeded this model context window limit",
        "AiError: The estimated number of input and maximum output tokens (155740) exceeded this model"
        " context window limit (128000).",
    ),
    Sign(
        "github-copilot",
        r"prompt token count of [0-9,_]{1,15} exceeds the limit",
        "prompt token count of 51808 exceeds the limit of 12288",
    ),
    Sign(
        "github-models",
        r"tokens_limit_reached|max size: [0-9,_]{1,15} tokens",
        '{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max'
        ' size: 8000 tokens."}}',
    ),
    Sign(
        "watsonx",
        r"cannot exceed the total tokens limit",
        "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
    ),
    Sign(
        "deepinfra",
        r"requested input length [0-9,_]{1,15} exceeds",
        "Requested input length 150000 exceeds maximum input length 131072",
    ),
    Sign("snowflake", r"max tokens of [0-9,_]{1,15} exceeded", "max tokens of 200000 exceeded"),
    Sign(
        "cerebras",
        r"current length is [0-9,_]{1,15} while limit is",
        "Please reduce the length of the messages or completion. Current length is 9012 while limit is 8192",
    ),
    Sign(
        None, r"maximum (?:context|model|input) length (?:is|of|for)", "Maximum context length is 8192 tokens"
    ),
    Sign(
        None,
        r"exceed(?:s|ed)? (?:the |this |its )?(?:model'?s )?(?:max(?:imum)? )?(?:allowed )?"
        r"(?:context|input) (?:window|length|limit|size)",
        "Input length 262144 exceeds the maximum allowed input length of 131072 tokens.",
    ),
    Sign(
        None,
        r"configured context size is",
        "Prompt has 32769 tokens, but the configured context size is 32768 tokens",
    ),
    Sign(None, r"context length is only", "The model's context length is only 8192 tokens"),
    Sign(
        None,
        r"context[ _-]?(?:window|length|limit|size)?[ _-]?(?:exceeded|overflow)|maximum context limit",
        "litellm.ContextWindowExceededError: Error code: 400",
    ),
    Sign(None, r"输入长度超过|超出上下文|上下文长度超", "输入长度超过限制"),
)
"""Said about the context's size and nothing else; where several fit, the first names who speaks so."""

LOOSE: Final = (
    Sign(
        "bedrock",
        r"validationexception.{0,300}(?:tokens?.{0,60}(?:exceed|too (?:many|long)|more than)|(?:exceed"
        r"|too (?:many|long)|more than).{0,60}token)",
        "ValidationException: the request has more tokens than the model's limit, 9000 exceed 8192",
    ),
    Sign("bedrock", r"exceeds the model's maximum", "The request exceeds the model's maximum"),
    Sign("google", r"content is too long", "content is too long"),
    Sign(
        "google",
        r"input token limit.{0,40}(?:exceed|reached)|exceed.{0,40}input token limit",
        "Exceeded input token limit",
    ),
    Sign(
        "openai",
        r"(?:reduce|shorten|decrease|trim) (?:the |your )?(?:length|size|number of tokens|prompt|input"
        r"|messages|conversation|context)",
        "Please reduce the length of the messages or completion.",
    ),
    Sign(
        "openai",
        r"string_above_max_length|expected a string with maximum length",
        "Invalid 'input': string too long. Expected a string with maximum length 10485760, but got a"
        " string with length 11059200 instead.",
    ),
    Sign("anthropic", r"input is too long", "input is too long"),
    Sign("anthropic", r"too many (?:total |prompt )?tokens(?! processed)", "too many tokens"),
    Sign(
        None,
        r"(?:prompt|input|context|request|messages|content|conversation|history|payload|request body"
        r"|request entity)[ _-](?:is |are |was |length |size |token length )?too[ _-](?:long|large|big)",
        '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
    ),
    Sign(
        None,
        r"(?:exceed(?:s|ed|ing)?|over|beyond|surpass(?:es|ed)?|reached|hit|fit (?:in|into|within))"
        r" .{0,40}(?:context (?:window|length|size|limit)|token limit)",
        "The conversation does not fit in the context window",
    ),
    Sign(
        None,
        r"(?:context (?:window|length|size|limit)|token limit|(?:input|prompt|conversation) (?:tokens?"
        r"|length)) (?:(?:is|was|has been|have been|limit) )?(?:exceed(?:s|ed)?|full|overflow(?:s|ed)?"
        r"|reached)",
        "token limit exceeded",
    ),
    Sign(
        None,
        r"(?:tokens?|prompt|input|context|conversation|messages)\b[^.]{0,60}exceeds? (?:the |its |this"
        r" )?(?:[a-z]{1,12} )?limit",
        "Request contains 35000 tokens, which exceeds the limit of 32768",
    ),
    Sign(
        None,
        r"exceeds? the (?:[a-z]{1,12} )?limit of (?:[0-9]{1,3}(?:[,_][0-9]{3}){1,4}|[0-9]{4,12}"
        r"|[0-9]{1,4}k)\b",
        "The request exceeds the limit of 128000",
    ),
    Sign(
        None,
        r"exceed(?:s|ed)? .{0,30}(?:maximum|max) (?:number of )?tokens",
        "Request exceeded the max number of tokens",
    ),
)
"""Said about the context's size among other things."""

BARE: Final = frozenset(
    {
        "content_too_large",
        "context window",
        "exceeds the limit",
        "input token limit",
        "input too long",
        "max_tokens",
        "maximum context length",
        "maximum number of tokens",
        "please reduce the length",
        "reduce the length",
        "request too large",
        "token limit",
    }
)
"""What two documents list as a mere word: alone it means size, in a sentence the sentence decides."""

RATE: Final = (
    r"rate[ _-]?limit|per[ _-](?:min|day|hour|second|month|week)|/ ?min\b|\b(?:tpm|tpd|rpm|rpd|itpm|otpm)\b"
    r"|quota|throttl|too[ _]many[ _]requests|please wait|\b(?:try|retry) (?:again )?(?:in|later|after)\b"
    r"|retry[-_]after|\b(?:daily|monthly|weekly|hourly)\b|usage limit"
)
"""Words about how often and how much in a time: the request itself may be of any size."""

WEIGHT: Final = r"\bbytes?\b|[0-9] ?(?:kb|mb|gb|kib|mib)\b|megabyte"
"""Words about bytes."""

BYTES: Final = (
    rf"{WEIGHT}|payload size|file size|\bcharacters?\b|\bimages?\b|\bpixels?\b|attachment|\baudio\b|\bvideo\b"
    r"|\bpdf\b|upload|\bpages?\b"
)
"""Words about how much has to be carried: bytes and media."""

ELSE: Final = "|".join(
    (
        RATE,
        BYTES,
        r"resource[_ ]exhausted|\b429\b|overloaded",
        # money
        r"\bcredits?\b|billing|insufficient|balance|payment|\bafford\b|subscription",
        # parameters, above all the one that asks for output
        r"max_?(?:completion_|output_|new_)?tokens[`'\"]{0,2}:? (?:must|should|is |cannot|may not|value)",
        r"max_?(?:completion_|output_|new_)?tokens[`'\"]{0,2}:? (?:of )?(?:[0-9]|exceeds?)",
        r"max tokens must|maximum tokens (?:you requested|value)|max_?output_?tokens|range of max_tokens",
        r"(?:completion|output|generated|response|reasoning) tokens?\b|maximum output|budget_tokens",
        r"invalid value|unsupported (?:parameter|value)|unknown parameter|array too long|array_above_max",
        r"\btools?\b|function name|stop sequences?|header (?:fields )?too|ur[il] too|file ?name",
        # who may ask
        r"unauthorized|authenticat|api[ _]key|permission|forbidden|\bcsrf\b|\bjwt\b|\boauth",
        r"(?:security|invalid|access|session|refresh|auth|next)[ _]token",
    )
)
"""Words about something else that can be too large, too many or not allowed."""

TOO_LARGE: Final = (
    r"(?:http|status|code|error|failed with)[ :=]{1,3}413\b|^413\b"
    r"|\b413 (?:payload|request|content|status code|client error|\(no body\))"
)
"""HTTP 413, as it stands in a text."""

NO_BODY: Final = r"\b4(?:00|13)(?: status code)? \(no body\)"
"""How JavaScript clients write an answer without a body; Cerebras refuses so."""
