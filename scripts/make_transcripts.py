"""Writes the example transcripts: one invented session as each known agent would have written it down.

    python scripts/make_transcripts.py          # into examples/transcripts/

Everything in them is made up and the same on every machine: names, times, ids and words.
"""

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "examples" / "transcripts"
CWD = "/srv/tidewatch"
MODEL = "claude-sonnet-4-5"
Json = dict[str, Any]
STEPS = [
    (
        "Which gauges are late? Start with the harbour list.",
        "read_file",
        {"path": "gauges.toml"},
        "[north]\nid = 17\nlate = true\n[south]\nid = 23\nlate = false",
    ),
    ("And the tests?", "run", {"command": "pytest -q"}, "1 failed, 41 passed: test_ebb_is_before_flood"),
    (
        "Mend it, and keep the API as it is.",
        "edit_file",
        {"path": "tides.py", "old": "ebb > flood", "new": "ebb < flood"},
        "1 replacement in tides.py",
    ),
    ("Run them again.", "run", {"command": "pytest -q"}, "42 passed in 0.31 s"),
    (
        "Write the release note, two lines.",
        "write_file",
        {"path": "NEWS.md", "text": "Gauge 17 is on time again."},
        "written: NEWS.md",
    ),
    (
        "What did the harbour master want besides?",
        "search",
        {"query": "harbour master"},
        "notes.md:4: a warning at 3.2 m, not at 3.0 m",
    ),
]
ANSWERS = [
    "Gauge 17 (north) is late; 23 is on time.",
    "One test fails: the ebb must come before the flood.",
    "The comparison was the wrong way round; it is mended.",
    "All 42 pass.",
    "The note is in NEWS.md.",
    "A warning at 3.2 m instead of 3.0 m.",
]
SUMMARY = (
    "Gauge 17 (north) was late. The comparison in tides.py was mended; 42 tests pass. The API stays as it is."
)
FOLD_AT = 4
"""The step before which the agents compacted."""


def stamp(number: int) -> str:
    """The time of a record."""
    return f"2026-03-02T09:{number // 60:02d}:{number % 60:02d}.000Z"


def name(number: int) -> str:
    """A name in the form of a UUID."""
    return f"00000000-0000-4000-8000-{number:012d}"


def claude_code() -> list[Json]:
    """A tree of records; calls and texts of one message on lines of their own."""
    lines: list[Json] = [
        {"type": "file-history-snapshot", "messageId": name(900), "snapshot": {}, "isSnapshotUpdate": False}
    ]
    parent: str | None = None

    def add(kind: str, **fields: Any) -> None:
        nonlocal parent
        number = len(lines)
        envelope = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": CWD}
        envelope |= {"sessionId": name(1), "version": "2.1.39", "gitBranch": "main", "type": kind}
        lines.append({**envelope, **fields, "uuid": name(100 + number), "timestamp": stamp(number)})
        parent = name(100 + number)

    for number, (asked, tool, given, got) in enumerate(STEPS):
        if number == FOLD_AT:
            logical, parent = parent, None
            told = {"trigger": "auto", "preTokens": 6_200, "postTokens": 1_400}
            add(
                "system",
                subtype="compact_boundary",
                content="Conversation compacted",
                logicalParentUuid=logical,
                compactMetadata=told,
            )
            add("user", message={"role": "user", "content": SUMMARY}, isCompactSummary=True)
        add("user", message={"role": "user", "content": asked})
        size = 1_000 + 1_300 * (number % FOLD_AT)
        usage = {
            "input_tokens": 4,
            "cache_read_input_tokens": size,
            "cache_creation_input_tokens": 150,
            "output_tokens": 60,
        }
        reply = {
            "id": f"msg_{number}a",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "usage": usage,
        }
        thought = {"type": "thinking", "thinking": "Look first, then answer.", "signature": "c2lnbmVk"}
        add("assistant", message={**reply, "content": [thought]})
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}
        add("assistant", message={**reply, "content": [call]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": got}
        add("user", message={"role": "user", "content": [result]}, toolUseResult={"stdout": got})
        add("progress", data={"type": "hook_progress", "hookEvent": "PostToolUse"})
        last = {**reply, "id": f"msg_{number}b", "content": [{"type": "text", "text": ANSWERS[number]}]}
        add("assistant", message=last)
    lines.append({"type": "custom-title", "customTitle": "Late gauges", "sessionId": name(1)})
    return lines


def codex() -> list[Json]:
    """Envelopes around items of the Responses API, events, and a compaction with its replacement."""
    lines: list[Json] = []

    def add(kind: str, payload: Json) -> None:
        lines.append({"timestamp": stamp(len(lines)), "type": kind, "payload": payload})

    def message(role: str, text: str) -> Json:
        what = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": what, "text": text}]}

    add(
        "session_meta",
        {
            "id": name(2),
            "timestamp": stamp(0),
            "cwd": CWD,
            "originator": "codex_cli_rs",
            "cli_version": "0.98.0",
            "base_instructions": {"text": "You are a careful coding agent."},
        },
    )
    add(
        "response_item", message("user", f"<environment_context>\n  <cwd>{CWD}</cwd>\n</environment_context>")
    )
    for number, (asked, tool, given, got) in enumerate(STEPS):
        if number == FOLD_AT:
            add(
                "compacted",
                {
                    "message": SUMMARY,
                    "replacement_history": [message("user", STEPS[0][0]), message("user", SUMMARY)],
                },
            )
        add("turn_context", {"cwd": CWD, "model": "gpt-5-codex", "approval_policy": "on-request"})
        add("response_item", message("user", asked))
        add("event_msg", {"type": "user_message", "message": asked})
        add(
            "response_item",
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Look first."}],
                "encrypted_content": "ZW5jcnlwdGVk",
            },
        )
        add(
            "response_item",
            {
                "type": "function_call",
                "name": tool,
                "arguments": json.dumps(given),
                "call_id": f"call_{number}",
            },
        )
        add("response_item", {"type": "function_call_output", "call_id": f"call_{number}", "output": got})
        add("response_item", message("assistant", ANSWERS[number]))
        size = 1_200 + 1_250 * (number % FOLD_AT)
        last = {
            "input_tokens": size,
            "cached_input_tokens": size - 200,
            "output_tokens": 80,
            "total_tokens": size + 80,
        }
        add(
            "event_msg",
            {"type": "token_count", "info": {"last_token_usage": last, "model_context_window": 272_000}},
        )
    return lines


def pi() -> list[Json]:
    """Entries with parents; a compaction keeps from an entry on."""
    lines: list[Json] = [{"type": "session", "version": 3, "id": name(3), "timestamp": stamp(0), "cwd": CWD}]
    kept = ""

    def add(kind: str, **fields: Any) -> str:
        number = len(lines)
        parent = lines[-1]["id"] if number > 1 else None
        lines.append(
            {"type": kind, "id": f"{number:08x}", "parentId": parent, "timestamp": stamp(number), **fields}
        )
        return f"{number:08x}"

    add("model_change", provider="anthropic", modelId=MODEL)
    for number, (asked, tool, given, got) in enumerate(STEPS):
        if number == FOLD_AT:
            add("compaction", summary=SUMMARY, firstKeptEntryId=kept, tokensBefore=6_200)
        first = add("message", message={"role": "user", "content": [{"type": "text", "text": asked}]})
        kept = first if number == FOLD_AT - 1 else kept
        size = 1_000 + 1_300 * (number % FOLD_AT)
        usage = {"input": 4, "output": 60, "cacheRead": size, "cacheWrite": 150, "totalTokens": size + 214}
        reply = {
            "role": "assistant",
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": MODEL,
            "usage": usage,
        }
        call = {"type": "toolCall", "id": f"toolu_{number}", "name": tool, "arguments": given}
        blocks = [{"type": "thinking", "thinking": "Look first, then answer."}, call]
        add("message", message={**reply, "content": blocks, "stopReason": "toolUse"})
        add(
            "message",
            message={
                "role": "toolResult",
                "toolCallId": f"toolu_{number}",
                "toolName": tool,
                "content": [{"type": "text", "text": got}],
                "isError": False,
            },
        )
        said = [{"type": "text", "text": ANSWERS[number]}]
        add("message", message={**reply, "content": said, "stopReason": "stop"})
    add("session_info", name="Late gauges")
    return lines


def gemini_cli() -> list[Json]:
    """A log in which answers grow, one step back, and a list that replaces the rest."""
    lines: list[Json] = [
        {
            "sessionId": name(4),
            "projectHash": "7d5c",
            "startTime": stamp(0),
            "lastUpdated": stamp(0),
            "kind": "main",
            "directories": [CWD],
        }
    ]
    for number, (asked, tool, given, got) in enumerate(STEPS):
        if number == FOLD_AT:
            put = {"id": "s0", "timestamp": stamp(90), "type": "user", "content": [{"text": SUMMARY}]}
            lines.append({"$set": {"messages": [put], "lastUpdated": stamp(90)}})
        lines.append(
            {"id": f"u{number}", "timestamp": stamp(len(lines)), "type": "user", "content": [{"text": asked}]}
        )
        call = {"id": f"call-{number}", "name": tool, "args": given, "status": "success"}
        answer = {"functionResponse": {"id": f"call-{number}", "name": tool, "response": {"output": got}}}
        grown = {
            "id": f"g{number}",
            "timestamp": stamp(len(lines)),
            "type": "gemini",
            "content": "",
            "model": "gemini-3-pro",
        }
        lines.append({**grown, "thoughts": [{"subject": "Looking", "description": "Look first."}]})
        size = 1_100 + 1_300 * (number % FOLD_AT)
        tokens = {
            "input": size,
            "output": 70,
            "cached": size - 300,
            "thoughts": 20,
            "tool": 0,
            "total": size + 90,
        }
        lines.append({**grown, "toolCalls": [{**call, "result": [answer]}], "tokens": tokens})
        lines.append(
            {
                "id": f"a{number}",
                "timestamp": stamp(len(lines)),
                "type": "gemini",
                "content": ANSWERS[number],
                "model": "gemini-3-pro",
                "tokens": {**tokens, "input": size + 90},
            }
        )
    lines.append({"id": "u9", "timestamp": stamp(96), "type": "user", "content": [{"text": "No, wait."}]})
    lines.append({"$rewindTo": "u9"})
    return lines


def opencode() -> Json:
    """A session as `opencode export` gives it."""
    session = {
        "id": "ses_0000000000000000000000001",
        "title": "Late gauges",
        "directory": CWD,
        "time": {"created": 1_772_442_000_000},
    }
    messages: list[Json] = []

    def add(parts: list[Json], **info: Any) -> str:
        number = len(messages)
        own = f"msg_{number:026d}"
        numbered = [
            {**part, "id": f"prt_{number:020d}{place:06d}", "messageID": own}
            for place, part in enumerate(parts)
        ]
        about = {
            "id": own,
            "sessionID": session["id"],
            "time": {"created": 1_772_442_000_000 + 1000 * number},
        }
        messages.append({"info": {**about, **info}, "parts": numbered})
        return own

    kept = ""
    for number, (asked, tool, given, got) in enumerate(STEPS):
        if number == FOLD_AT:
            marker = add([{"type": "compaction", "auto": True, "tail_start_id": kept}], role="user")
            add(
                [{"type": "text", "text": SUMMARY}],
                role="assistant",
                summary=True,
                finish="stop",
                parentID=marker,
                modelID=MODEL,
                providerID="anthropic",
            )
        first = add([{"type": "text", "text": asked}], role="user")
        kept = first if number == FOLD_AT - 1 else kept
        size = 1_000 + 1_300 * (number % FOLD_AT)
        tokens = {"input": 4, "output": 60, "reasoning": 0, "cache": {"read": size, "write": 150}}
        state = {
            "status": "completed",
            "input": given,
            "output": got,
            "time": {"start": 1, "end": 2, **({"compacted": 3} if number == 1 else {})},
        }
        parts: list[Json] = [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Look first, then answer."},
            {"type": "tool", "callID": f"toolu_{number}", "tool": tool, "state": state},
            {"type": "step-finish", "tokens": tokens},
            {"type": "step-start"},
            {"type": "text", "text": ANSWERS[number]},
            {"type": "step-finish", "tokens": tokens},
        ]
        add(parts, role="assistant", modelID=MODEL, providerID="anthropic", finish="stop", tokens=tokens)
    return {"info": session, "messages": messages}


def sharegpt() -> Json:
    """A line of a data set."""
    turns = [
        {"from": who, "value": said}
        for (asked, *_), answer in zip(STEPS, ANSWERS, strict=True)
        for who, said in (("human", asked), ("gpt", answer))
    ]
    return {"id": "tidewatch-1", "conversations": turns}


def written() -> dict[str, str]:
    """Every example by the name of its file."""
    lines = {"claude-code": claude_code(), "codex": codex(), "pi": pi(), "gemini-cli": gemini_cli()}
    files = {
        f"{agent}.jsonl": "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in values)
        for agent, values in lines.items()
    }
    whole = {"opencode.json": opencode(), "sharegpt.json": sharegpt()}
    return {**files, **{file: json.dumps(value, indent=1) + "\n" for file, value in whole.items()}}


def main() -> None:
    """Write them; with `--check` say only whether they are as they should be."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in written().items():
        if "--check" not in sys.argv:
            (FOLDER / file).write_text(text, encoding="utf-8")
        elif (FOLDER / file).read_text(encoding="utf-8") != text:
            sys.exit(f"{file} is not what this script writes: run it")


if __name__ == "__main__":
    main()
