"""Wire items of every kind for the tests of formats, and strategies that make broken and whole ones."""

import functools
import json
import math
import string

from hypothesis import strategies as st

from refold import Message, Text, ToolCall, ToolResult

NAMES = ("openai", "responses", "anthropic", "gemini", "interactions", "converse")


def encoded(value):
    """Bytes of a value as JSON; what a provider or a file would see."""
    return json.dumps(value).encode("ascii")


@functools.cache
def deep(levels=100_000):
    """A value nested deeper than any recursive reader survives; one value, since nobody changes it."""
    value = []
    for _ in range(levels):
        value = [value]
    return value


CHAT = [
    {"role": "system", "content": "You help."},
    {
        "role": "developer",
        "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    },
    {"content": "hi", "role": "user"},
    {"role": "user", "name": "ada", "content": "named", "x-unknown": {"a": [1, None]}},
    {"role": "user", "content": ""},
    {"role": "user", "content": []},
    {"role": "user"},
    {
        "role": "user",
        "content": [
            {"text": "order of keys", "type": "text"},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
            {"type": "image_url", "image_url": "https://example.org/plain.png"},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
            },
            {"type": "file", "file": {"filename": "b.txt", "file_data": "bare"}},
            {"type": "hologram", "payload": [1, 2, 3]},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}},
            {
                "id": "c2",
                "type": "function",
                "function": {"arguments": "{}", "name": "list", "strict": True},
                "index": 1,
            },
            {"id": "c3", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}},
            {"id": "c4", "type": "telepathy", "telepathy": {}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "text of a.py"},
    {"role": "tool", "tool_call_id": "c2", "name": "list", "content": [{"type": "text", "text": "a.py"}]},
    {"tool_call_id": "c3", "role": "tool", "content": ""},
    {"role": "assistant", "content": "done", "tool_calls": None, "id": "msg-1"},
    {"role": "assistant", "tool_calls": []},
    {"role": "assistant", "content": None, "refusal": "I cannot."},
    {
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}, {"type": "text", "text": "but"}],
    },
    {
        "role": "assistant",
        "content": "thought",
        "reasoning_content": "hm",
        "reasoning_details": [{"type": "x"}],
    },
    {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
    {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": "result of old"},
    {"role": "critic", "content": "an unknown role"},
]

RESPONSES = [
    {"role": "user", "content": "easy message"},
    {"role": "developer", "content": "also easy"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": "data:image/jpeg;base64,/9j/4A==", "detail": "high"},
            {"type": "input_image", "file_id": "file-9"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            {"type": "input_file", "file_id": "file-1"},
            {"type": "input_audio", "input_audio": {"data": "", "format": "mp3"}},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "thinking"}],
        "encrypted_content": "gAAA",
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "read",
        "arguments": '{"path": "a"}',
        "status": "completed",
    },
    {"type": "function_call_output", "call_id": "c1", "output": "text"},
    {"type": "function_call", "call_id": "c2", "name": "see", "arguments": ""},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "u"}],
    },
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c3", "name": "sh", "input": "ls -l"},
    {"type": "custom_tool_call_output", "call_id": "c3", "output": ""},
    {
        "type": "local_shell_call",
        "id": "lsc_1",
        "call_id": "c4",
        "action": {"type": "exec", "command": ["ls"]},
        "status": "completed",
    },
    {"type": "local_shell_call_output", "id": "c4", "output": "a.py"},
    {"type": "shell_call", "call_id": "c5", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "c5",
        "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {
        "type": "apply_patch_call",
        "call_id": "c6",
        "operation": {"type": "delete_file", "path": "a"},
        "status": "completed",
    },
    {"type": "apply_patch_call_output", "call_id": "c6", "status": "completed", "output": "ok"},
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c7",
        "action": {"type": "click", "x": 1, "y": 2},
        "pending_safety_checks": [],
    },
    {
        "type": "computer_call_output",
        "call_id": "c7",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0K"},
    },
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    },
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
    {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": "y"},
    {"type": "image_generation_call", "id": "ig_1", "result": "aGk=", "status": "completed"},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "1",
        "container_id": "c",
        "outputs": None,
        "status": "completed",
    },
    {"type": "item_reference", "id": "msg_9"},
    {"id": "msg_10"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
    {"type": "from_the_future", "payload": {"deep": [1]}},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "no"},
        ],
    },
    {"type": "message", "role": "assistant", "content": None, "phase": "commentary"},
]

ANTHROPIC = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "text", "text": "ok", "citations": None}]},
    {
        "role": "user",
        "content": [
            {"text": "cached", "type": "text", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {
                "type": "document",
                "title": "A",
                "context": "c",
                "source": {"type": "text", "media_type": "text/plain", "data": "words"},
            },
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            },
            {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
            {"type": "document", "source": {"type": "file", "file_id": "file_2"}},
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "in"}]}},
            {
                "type": "search_result",
                "source": "s",
                "title": "t",
                "content": [{"type": "text", "text": "x"}],
            },
            {"type": "container_upload", "file_id": "file_3"},
        ],
    },
    {
        "role": "assistant",
        "id": "msg_1",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "text", "text": "reading"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [{"type": "web_search_result", "url": "u"}],
            },
            {"type": "compaction", "content": "what was said"},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.py"}},
            {"type": "tool_use", "id": "t2", "name": "list", "input": {}, "cache_control": None},
            {"type": "tool_use", "id": "t3", "name": "bare"},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "text"},
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image", "source": {"type": "url", "url": "u"}},
                    {"type": "tool_reference", "tool_name": "z"},
                ],
                "cache_control": {"type": "ephemeral"},
            },
            {"type": "tool_result", "tool_use_id": "t3"},
            {"type": "text", "text": "go on"},
        ],
    },
    {"role": "assistant", "content": ""},
    {"role": "user", "content": []},
    {"role": "user"},
    {"role": "system", "content": "misplaced"},
    {"role": "oracle", "content": [{"type": "text", "text": "unknown role"}]},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "as answered"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3},
    },
]

GEMINI = [
    {"role": "user", "parts": [{"text": "hi"}]},
    {"parts": [{"text": "no role"}]},
    {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "ok", "thoughtSignature": "x"},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}},
            {"inline_data": {"mime_type": "audio/wav", "data": "UklGRg=="}, "video_metadata": {"fps": 1}},
            {"fileData": {"fileUri": "gs://b/a.pdf", "mimeType": "application/pdf"}},
            {"file_data": {"file_uri": "gs://b/a.mp4", "mime_type": "video/mp4"}},
            {"somethingNew": {"a": 1}},
            {},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "y"},
            {"functionCall": {"name": "read", "args": {"path": "b"}}},
            {"functionCall": {"id": "f9", "name": "list"}},
            {"function_call": {"name": "old_spelling", "args": {}, "will_continue": False}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "read", "response": {"output": "text a"}}},
            {
                "functionResponse": {
                    "name": "read",
                    "response": {"content": "text b", "lines": 3, "more": {"x": []}},
                }
            },
            {
                "functionResponse": {
                    "id": "f9",
                    "name": "list",
                    "response": {"error": "none"},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "aQ=="}}, {"odd": 1}],
                }
            },
            {"function_response": {"name": "old_spelling", "response": {}}},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        ],
    },
    {"role": "model"},
    {"role": "model", "parts": None},
    {"role": "user", "parts": []},
    {"role": "user", "parts": [{"text": ""}]},
    {
        "role": "user",
        "parts": [
            {"text": None, "function_call": None, "inline_data": {"data": "aQ==", "mime_type": "text/plain"}}
        ],
    },
    {"role": "function", "parts": [{"functionResponse": {"name": "lost", "response": None}}]},
    {"role": "system", "parts": [{"text": "misplaced"}]},
    {"role": "spirit", "parts": [{"text": "unknown role"}]},
]

INTERACTIONS = [
    {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
    {"type": "user_input"},
    {
        "type": "user_input",
        "content": [
            {"text": "order of keys", "type": "text", "annotations": []},
            {"type": "image", "data": "iVBORw0K", "mime_type": "image/png"},
            {"type": "image", "uri": "https://example.org/a.png", "resolution": "low"},
            {"type": "document", "data": "JVBERi0=", "mime_type": "application/pdf"},
            {"type": "audio", "data": "UklGRg==", "mime_type": "audio/wav"},
            {"type": "video", "uri": "gs://b/a.mp4"},
            {"type": "hologram", "payload": [1]},
        ],
    },
    {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "hm"}]},
    {"type": "thought"},
    {"type": "function_call", "id": "f1", "name": "read", "arguments": {"path": "a"}},
    {"type": "function_result", "call_id": "f1", "name": "read", "result": "text of a"},
    {"arguments": {}, "id": "f2", "name": "list", "type": "function_call", "x-unknown": 1},
    {
        "type": "function_result",
        "call_id": "f2",
        "is_error": True,
        "result": [
            {"type": "text", "text": "x"},
            {"type": "image", "data": "aQ==", "mime_type": "image/png"},
        ],
    },
    {"type": "function_call", "id": "f3", "name": "table", "arguments": {}},
    {"type": "function_result", "call_id": "f3", "result": {"rows": [1, 2]}},
    {"type": "google_search_call", "id": "g1", "arguments": {"queries": ["x"]}, "signature": "s"},
    {"type": "google_search_result", "call_id": "g1", "result": [{"search_suggestions": "y"}]},
    {"type": "mcp_server_tool_call", "id": "m1", "name": "n", "server_name": "s", "arguments": {}},
    {"type": "mcp_server_tool_result", "call_id": "m1", "result": {}},
    {"type": "file_search_call", "id": "s1"},
    {"type": "file_search_result", "call_id": "s1"},
    {"type": "from_the_future", "payload": {"deep": [1]}},
    {"type": "model_output", "content": [{"type": "text", "text": "done"}]},
    {"type": "model_output", "error": {"code": 3, "message": "no"}},
]

CONVERSE = [
    {"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
            {"reasoningContent": {"redactedContent": "b3BhcXVl"}},
            {"reasoningContent": {}},
            {"text": "reading"},
            {"citationsContent": {"content": [{"text": "x"}], "citations": []}},
            {"toolUse": {"toolUseId": "s1", "name": "web", "input": {}, "type": "server_tool_use"}},
            {"toolResult": {"toolUseId": "s1", "content": [{"text": "y"}], "type": "web_result"}},
            {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "a"}}},
            {"toolUse": {"toolUseId": "t2", "name": "list", "input": {}}},
            {"toolUse": {"toolUseId": "t3", "name": "bare"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "t1", "content": [{"text": "text"}], "status": "success"}},
            {
                "toolResult": {
                    "status": "error",
                    "toolUseId": "t2",
                    "content": [
                        {"json": {"rows": [1]}},
                        {"image": {"format": "png", "source": {"bytes": "iVBORw0K"}}},
                        {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
                    ],
                }
            },
            {"toolResult": {"toolUseId": "t3", "content": []}},
        ],
    },
    {"role": "assistant", "content": [{"text": "done"}]},
    {
        "role": "user",
        "content": [
            {"image": {"format": "jpeg", "source": {"s3Location": {"uri": "s3://b/a.jpg"}}}},
            {"document": {"format": "pdf", "name": "A", "source": {"bytes": "JVBERi0="}}},
            {"document": {"format": "md", "name": "B", "source": {"text": "words"}, "context": "c"}},
            {"document": {"name": "C", "source": {"content": [{"text": "in"}]}}},
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/a.mp4"}}}},
            {"audio": {"format": "wav", "source": {"bytes": "UklGRg=="}}},
            {"guardContent": {"text": {"text": "x"}}},
            {"somethingNew": {"a": 1}},
        ],
    },
    {"role": "system", "content": [{"toolAddition": {"tool": {"name": "z"}}}, {"text": "Be brief."}]},
    {"role": "assistant", "content": []},
    {"role": "user"},
    {"role": "oracle", "content": [{"text": "unknown role"}]},
]

EXAMPLES = {
    "openai": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "interactions": INTERACTIONS,
    "converse": CONVERSE,
}

TEXT = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "\x00",
            "\ud800",
            "\udfff\ud800",
            "[Conversation summary",
            "<refold-summary ",
            "é",
            "中文",
            "🙂",
        ]
    ),
    st.text(st.characters(exclude_categories=()), max_size=8),
)
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(math.nan), st.just(math.inf), st.floats(), TEXT
)
JSON = st.recursive(
    LEAF,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)


def maybe(*right):
    """A right value most of the time, any value now and then."""
    return st.one_of(*right, *right, *right, JSON)


def objects(fields):
    """Objects with some of these fields, and sometimes one that nobody knows."""
    return st.builds(
        lambda known, unknown, last: {**unknown, **known} if last else {**known, **unknown},
        st.fixed_dictionaries({}, optional=fields),
        st.dictionaries(st.sampled_from(["x", "cache_control", "index", "id", "name"]), JSON, max_size=1),
        st.booleans(),
    )


NAME = st.sampled_from(["read", "list", "a"])
IDS = st.one_of(st.sampled_from(["c1", "c2", "c3", "read#0"]), TEXT)
ARGUMENTS = st.one_of(
    st.sampled_from(["{}", "", "{broken", '{"path": "a"}']), st.dictionaries(TEXT, JSON, max_size=2)
)


def _types(*names):
    return maybe(st.sampled_from(names))


MEDIA = maybe(
    objects({"url": maybe(TEXT), "detail": maybe(TEXT), "data": maybe(TEXT), "format": maybe(TEXT)})
)
CHAT_BLOCK = maybe(
    objects(
        {
            "type": _types("text", "image_url", "input_audio", "file", "refusal", "new"),
            "text": maybe(TEXT),
            "refusal": maybe(TEXT),
            "image_url": st.one_of(MEDIA, st.just({"url": "data:image/png;base64,aQ=="})),
            "input_audio": MEDIA,
            "file": maybe(
                objects({"file_id": maybe(TEXT), "filename": maybe(TEXT), "file_data": maybe(TEXT)})
            ),
        }
    ),
    st.just({"type": "text", "text": "plain"}),
)
FUNCTION = maybe(
    objects({"name": maybe(NAME), "arguments": maybe(ARGUMENTS)}), st.just({"name": "a", "arguments": "{}"})
)
CHAT_CALL = maybe(
    objects(
        {
            "id": maybe(IDS),
            "type": _types("function", "custom", "new"),
            "function": FUNCTION,
            "custom": maybe(objects({"name": maybe(NAME), "input": maybe(TEXT)})),
        }
    ),
    st.builds(lambda i: {"id": i, "type": "function", "function": {"name": "a", "arguments": "{}"}}, IDS),
)
CHAT_ITEM = objects(
    {
        "role": _types("system", "user", "assistant", "tool", "function", "developer", "critic"),
        "content": maybe(TEXT, st.none(), st.lists(CHAT_BLOCK, max_size=3)),
        "tool_calls": maybe(st.none(), st.lists(CHAT_CALL, max_size=3)),
        "tool_call_id": maybe(IDS),
        "function_call": maybe(st.none(), FUNCTION),
        "refusal": maybe(st.none(), TEXT),
        "reasoning_content": maybe(TEXT),
        "reasoning": maybe(TEXT),
        "reasoning_details": maybe(st.lists(JSON, max_size=2)),
    }
)

RESPONSES_BLOCK = maybe(
    objects(
        {
            "type": _types("input_text", "output_text", "refusal", "input_image", "input_file", "new"),
            "text": maybe(TEXT),
            "refusal": maybe(TEXT),
            "stdout": maybe(TEXT),
            "image_url": maybe(TEXT, st.just("data:image/png;base64,aQ==")),
            "file_id": maybe(TEXT),
            "file_data": maybe(TEXT),
            "filename": maybe(TEXT),
        }
    ),
    st.just({"type": "input_text", "text": "plain"}),
)
RESPONSES_ITEM = objects(
    {
        "type": _types(
            *("message", "function_call", "function_call_output", "reasoning", "custom_tool_call"),
            *("custom_tool_call_output", "local_shell_call", "local_shell_call_output", "shell_call"),
            *(
                "shell_call_output",
                "computer_call",
                "computer_call_output",
                "item_reference",
                "new_call",
                "new",
            ),
        ),
        "role": _types("user", "assistant", "system", "developer", "critic"),
        "content": maybe(TEXT, st.none(), st.lists(RESPONSES_BLOCK, max_size=3)),
        "call_id": maybe(IDS),
        "name": maybe(NAME),
        "arguments": maybe(ARGUMENTS),
        "input": maybe(TEXT),
        "action": maybe(ARGUMENTS),
        "output": maybe(TEXT, st.lists(RESPONSES_BLOCK, max_size=3), RESPONSES_BLOCK),
        "summary": maybe(st.lists(RESPONSES_BLOCK, max_size=2)),
        "encrypted_content": maybe(TEXT),
    }
)

SOURCE = maybe(
    objects(
        {
            "type": _types("base64", "url", "file", "text"),
            "media_type": maybe(TEXT),
            "data": maybe(TEXT),
            "url": maybe(TEXT),
            "file_id": maybe(TEXT),
        }
    )
)
ANTHROPIC_INNER = {
    "type": _types(
        "text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "new"
    ),
    "text": maybe(TEXT),
    "source": SOURCE,
    "title": maybe(TEXT),
    "id": maybe(IDS),
    "tool_use_id": maybe(IDS),
    "name": maybe(NAME),
    "input": maybe(ARGUMENTS),
    "thinking": maybe(TEXT),
    "signature": maybe(TEXT),
    "data": maybe(TEXT),
    "is_error": maybe(st.booleans()),
}
ANTHROPIC_BLOCK = maybe(
    objects(
        {
            **ANTHROPIC_INNER,
            "content": maybe(TEXT, st.none(), st.lists(maybe(objects(ANTHROPIC_INNER)), max_size=2)),
        }
    ),
    st.builds(lambda i: {"type": "tool_use", "id": i, "name": "a", "input": {}}, IDS),
    st.builds(
        lambda i, t: {"type": "tool_result", "tool_use_id": i, "content": [{"type": "text", "text": t}]},
        IDS,
        TEXT,
    ),
)
ANTHROPIC_ITEM = objects(
    {
        "role": _types("user", "assistant", "system", "critic"),
        "content": maybe(TEXT, st.none(), st.lists(ANTHROPIC_BLOCK, max_size=3)),
    }
)

BLOB = maybe(
    objects(
        {
            "mimeType": maybe(TEXT, st.just("image/png")),
            "mime_type": maybe(TEXT),
            "data": maybe(TEXT),
            "fileUri": maybe(TEXT),
        }
    )
)
CALL = maybe(
    objects(
        {
            "name": maybe(NAME),
            "args": maybe(st.none(), st.dictionaries(TEXT, JSON, max_size=2)),
            "id": maybe(IDS),
        }
    )
)
GEMINI_RESPONSE = maybe(
    objects(
        {
            "name": maybe(NAME),
            "response": maybe(st.none(), st.dictionaries(TEXT, JSON, max_size=2)),
            "parts": maybe(st.lists(maybe(objects({"inlineData": BLOB})), max_size=2)),
            "id": maybe(IDS),
        }
    ),
    st.just({"name": "a", "response": {"output": "x"}}),
)
GEMINI_PART = maybe(
    objects(
        {
            "text": maybe(TEXT),
            "thought": maybe(st.booleans()),
            "thoughtSignature": maybe(TEXT),
            "functionCall": CALL,
            "function_response": GEMINI_RESPONSE,
            "functionResponse": GEMINI_RESPONSE,
            "inlineData": BLOB,
            "file_data": BLOB,
        }
    ),
    st.just({"functionCall": {"name": "a", "args": {}}}),
    st.just({"functionResponse": {"name": "a", "response": {"output": "x"}}}),
    st.builds(lambda text: {"text": text}, TEXT),
)
GEMINI_ITEM = objects(
    {
        "role": maybe(st.none(), st.sampled_from(["user", "model", "function", "system", "critic"])),
        "parts": maybe(st.none(), st.lists(GEMINI_PART, max_size=3)),
    }
)

STEP_BLOCK = maybe(
    objects(
        {
            "type": _types("text", "image", "document", "audio", "video", "new"),
            "text": maybe(TEXT),
            "data": maybe(TEXT),
            "uri": maybe(TEXT),
            "mime_type": maybe(TEXT),
        }
    ),
    st.builds(lambda text: {"type": "text", "text": text}, TEXT),
)
INTERACTIONS_ITEM = objects(
    {
        "type": _types(
            *("user_input", "model_output", "thought", "function_call", "function_result", "new"),
            *("google_search_call", "google_search_result", "new_call", "new_result"),
        ),
        "content": maybe(st.none(), st.lists(STEP_BLOCK, max_size=3)),
        "id": maybe(IDS),
        "call_id": maybe(IDS),
        "name": maybe(NAME),
        "arguments": maybe(ARGUMENTS),
        "result": maybe(TEXT, st.lists(STEP_BLOCK, max_size=2), st.dictionaries(TEXT, JSON, max_size=2)),
        "signature": maybe(TEXT),
        "summary": maybe(st.lists(STEP_BLOCK, max_size=2)),
        "is_error": maybe(st.booleans()),
    }
)

CONVERSE_SOURCE = maybe(
    objects({"bytes": maybe(TEXT), "text": maybe(TEXT), "s3Location": maybe(objects({"uri": maybe(TEXT)}))})
)
CONVERSE_MEDIA = maybe(objects({"format": maybe(TEXT), "source": CONVERSE_SOURCE}))
CONVERSE_INNER = st.one_of(
    st.builds(lambda text: {"text": text}, maybe(TEXT)),
    st.builds(lambda value: {"json": value}, JSON),
    st.builds(
        lambda key, value: {key: value},
        st.sampled_from(["image", "document", "video", "audio", "new"]),
        CONVERSE_MEDIA,
    ),
    JSON,
)
CONVERSE_BLOCK = st.one_of(
    CONVERSE_INNER,
    st.builds(
        lambda value: {"toolUse": value},
        maybe(
            objects({"toolUseId": maybe(IDS), "name": maybe(NAME), "input": maybe(ARGUMENTS)}),
            st.builds(lambda i: {"toolUseId": i, "name": "a", "input": {}}, IDS),
        ),
    ),
    st.builds(
        lambda value: {"toolResult": value},
        maybe(
            objects(
                {
                    "toolUseId": maybe(IDS),
                    "content": maybe(st.lists(CONVERSE_INNER, max_size=2)),
                    "status": _types("success", "error"),
                }
            ),
            st.builds(lambda i, t: {"toolUseId": i, "content": [{"text": t}]}, IDS, TEXT),
        ),
    ),
    st.builds(
        lambda value: {"reasoningContent": value},
        maybe(
            objects(
                {
                    "reasoningText": maybe(objects({"text": maybe(TEXT), "signature": maybe(TEXT)})),
                    "redactedContent": maybe(TEXT),
                }
            )
        ),
    ),
)
CONVERSE_ITEM = objects(
    {
        "role": _types("user", "assistant", "system", "critic"),
        "content": maybe(st.none(), st.lists(CONVERSE_BLOCK, max_size=3)),
    }
)

ITEMS = {
    "openai": CHAT_ITEM,
    "responses": RESPONSES_ITEM,
    "anthropic": ANTHROPIC_ITEM,
    "gemini": GEMINI_ITEM,
    "interactions": INTERACTIONS_ITEM,
    "converse": CONVERSE_ITEM,
}
HISTORIES = {name: maybe(st.lists(maybe(item), max_size=4)) for name, item in ITEMS.items()}

WORD = st.text(string.ascii_letters, min_size=1, max_size=6)


@st.composite
def valid_histories(draw):
    """Conversations any provider takes: user turns, parallel calls all answered, an answer."""
    messages = []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        messages.append(Message("user", draw(WORD)))
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                given = draw(st.sampled_from(['{"a": 1}', "{}", ""])) if draw(st.booleans()) else {"a": 1}
                calls.append(ToolCall(f"c{number}", draw(NAME), given))
                number += 1
            said = (Text(draw(WORD)),) if draw(st.booleans()) else ()
            messages.append(Message("assistant", (*said, *calls)))
            results = [ToolResult(call.id, (Text(draw(WORD)),), name=call.name) for call in calls]
            messages += [Message("tool", (result,)) for result in draw(st.permutations(results))]
        messages.append(Message("assistant", draw(WORD)))
    return messages
