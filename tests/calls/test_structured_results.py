"""What a tool gave as data, documents or a provider's own block is treated as the same words in a string."""

import json

import pytest

import refold
from sample_sizes import sample

LOG = "\n".join(
    "2026-11-15 10:22:01 ERROR no answer from NEEDLE7"
    if number == 1_500
    else f"2026-11-15 10:00:{number % 60:02d} INFO request {number} is done"
    for number in range(3_000)
)
ROWS = [{"id": number, "state": "ok", "place": f"berth {number % 40}"} for number in range(2_500)]
ROWS[1_200]["state"] = "failed at NEEDLE7"


def anthropic(*blocks):
    return [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": list(blocks)}],
        },
    ]


def converse(*blocks):
    return [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": list(blocks)}}]},
    ]


def gemini(response):
    return [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]},
    ]


def interactions(result):
    return [
        {"type": "user_input", "content": [{"type": "text", "text": "Look."}]},
        {"type": "function_call", "id": "c1", "name": "f", "arguments": {}},
        {"type": "function_result", "call_id": "c1", "name": "f", "result": result},
    ]


def responses(item):
    return [{"role": "user", "content": "Look."}, item]


def convert(history, name):
    """The same messages as OpenAI takes them."""
    return refold.formats.get("openai").render(refold.formats.get(name).parse(history))


def search_result(text, number=1):
    content = [{"type": "text", "text": text}]
    return {"type": "search_result", "source": f"s{number}", "title": "t", "content": content}


def content_document(text):
    content = [{"type": "text", "text": text}, {"type": "text", "text": "The end."}]
    return {"type": "document", "title": "d", "source": {"type": "content", "content": content}}


TEXT_DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": LOG}}
FILES = [{"file_id": f"f{at}", "filename": f"{at}.log", "score": 1, "text": LOG[at:]} for at in range(3)]
SHAPES = {
    "gemini object": ("gemini", gemini({"result": {"rows": ROWS, "code": 0}})),
    "gemini list and fields": ("gemini", gemini({"status": "ok", "rows": ROWS, "count": 2_500})),
    "converse json": ("converse", converse({"json": {"rows": ROWS}})),
    "converse document": (
        "converse",
        converse({"document": {"format": "txt", "name": "a", "source": {"text": LOG}}}),
    ),
    "converse document in pieces": (
        "converse",
        converse({"document": {"format": "txt", "name": "a", "source": {"content": [{"text": LOG}]}}}),
    ),
    "converse search": (
        "converse",
        converse({"text": "Found:"}, {"searchResult": {"source": "s", "content": [{"text": LOG}]}}),
    ),
    "interactions object": ("interactions", interactions({"rows": ROWS})),
    "anthropic search": ("anthropic", anthropic(search_result(LOG))),
    "anthropic searches": ("anthropic", anthropic(*(search_result(LOG, at) for at in range(3)))),
    "anthropic document": ("anthropic", anthropic(TEXT_DOCUMENT, {"type": "text", "text": "Read."})),
    "anthropic document in pieces": ("anthropic", anthropic(content_document(LOG))),
    "responses mcp": (
        "responses",
        responses({"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "output": LOG}),
    ),
    "responses files": (
        "responses",
        responses({"type": "file_search_call", "id": "f", "queries": ["x"], "results": FILES}),
    ),
    "responses code": (
        "responses",
        responses(
            {
                "type": "code_interpreter_call",
                "id": "i",
                "code": "x",
                "outputs": [{"type": "logs", "logs": LOG}],
            }
        ),
    ),
}
EVERY = pytest.mark.parametrize(("name", "history"), SHAPES.values(), ids=SHAPES)
SOME = pytest.mark.parametrize(("name", "history"), sample(SHAPES.values(), 7), ids=sample(SHAPES, 7))


def close(name, repeats=1):
    """An answer and a new question, as each format has them."""
    answer, question = "I have seen it. " * repeats, "Go on."
    if name == "gemini":
        return [
            {"role": "model", "parts": [{"text": answer}]},
            {"role": "user", "parts": [{"text": question}]},
        ]
    if name == "interactions":
        return [
            {"type": "model_output", "content": [{"type": "text", "text": answer}]},
            {"type": "user_input", "content": [{"type": "text", "text": question}]},
        ]
    said = [{"text": answer}], [{"text": question}]
    first, second = said if name == "converse" else (answer, question)
    return [{"role": "assistant", "content": first}, {"role": "user", "content": second}]


def find_needle(messages):
    return "NEEDLE7" in json.dumps(messages)


@pytest.mark.few_values(1)
@SOME
def test_the_newest_result_is_shortened_to_the_window(name, history):
    before = json.dumps(history)
    with refold.open("talk", store="memory:", window=16_000, format=name) as session:
        ready = session.prepare(history)
        assert ready.budget.used <= ready.budget.room
        assert refold.validate(ready.messages, name) == []
        assert find_needle(ready.messages)
        assert session.recall("NEEDLE7")
        for fold in session.folds():
            session.unfold(fold.name)
        assert json.dumps(session.view()) == before
    assert json.dumps(history) == before


@pytest.mark.few_values(1)
@SOME
def test_a_refused_prompt_is_sent_again_smaller(name, history):
    with refold.open("talk", store="memory:", window=200_000, format=name) as session:
        used = session.prepare(history).budget.used
        observed = session.observe(RuntimeError("prompt is too long"))
        assert observed.send_again
        assert refold.measure(observed.messages, window=200_000, format=name).used < used


@pytest.mark.few_values(1)
@SOME
@pytest.mark.parametrize("target", [2_000, 8_000])
def test_an_older_result_fills_the_target(name, history, target):
    outcome = refold.compact([*history, *close(name)], window=400_000, target=target, format=name)
    assert target * 0.85 <= outcome.used_after <= target
    assert refold.validate(outcome.messages, name) == []
    assert find_needle(outcome.messages)


@pytest.mark.few_values(3)
@EVERY
def test_the_summariser_reads_the_words(name, history):
    small = json.loads(json.dumps(history).replace(json.dumps(LOG)[1:-1], "the pilot says NEEDLE7"))
    talk = [message for _ in range(12) for message in close(name, 100)]
    asked = []

    def ask(prompt):
        asked.append(str(prompt))
        return "Goal: look. Done: NEEDLE7 was seen and noted. Next: go on."

    if small != history:
        refold.compact([*small, *talk], window=4_000, force=True, target=600, format=name, ask=ask)
        assert any("the pilot says NEEDLE7" in prompt for prompt in asked)


class TestDocumentsInPieces:
    """Documents whose source is a list of blocks, so that answers can cite them."""

    @pytest.mark.parametrize("repeats", [1, 100, 2_000])
    def test_they_count_by_their_words(self, repeats):
        text = "The crane limiter was set to forty tons. " * repeats
        message = {"role": "user", "content": [content_document(text)]}
        used = refold.measure([message], window=1_000_000, format="anthropic").used
        assert refold.count(text) < used < refold.count(text) + 60
        block = {"document": {"format": "txt", "name": "a", "source": {"content": [{"text": text}]}}}
        used = refold.measure([{"role": "user", "content": [block]}], window=1_000_000).used
        assert refold.count(text) < used < refold.count(text) + 60

    def test_their_source_may_be_one_text(self):
        block = {"type": "document", "source": {"type": "content", "content": LOG}}
        message = {"role": "user", "content": [block]}
        with refold.open("talk", store="memory:", window=16_000, format="anthropic") as session:
            ready = session.prepare([message])
        assert ready.budget.used <= ready.budget.room
        assert 0 < len(ready.messages[0]["content"][0]["source"]["content"]) < len(LOG)

    def test_pictures_in_them_are_no_text(self):
        source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 10_000}
        document = content_document("Words.")
        document["source"]["content"].append({"type": "image", "source": source})
        message = {"role": "user", "content": [document]}
        assert refold.measure([message], window=1_000_000, format="anthropic").used < 5_000


class TestLongLists:
    def test_a_message_of_many_short_texts_is_cut_as_one(self):
        parts = [{"type": "text", "text": f"part {number} of it is here"} for number in range(6_000)]
        with refold.open("talk", store="memory:", window=32_000, format="openai") as session:
            ready = session.prepare([{"role": "user", "content": parts}])
        assert ready.budget.used <= ready.budget.room
        said = ready.messages[0]["content"]
        assert said.startswith("part 0 of it is here\npart 1 of it")
        assert said.endswith("part 5999 of it is here")

    def test_a_list_of_tools_keeps_every_tool(self):
        tools = [
            {"name": f"t{at}", "input_schema": {"type": "object"}, "description": "It does things. " * 90}
            for at in range(200)
        ]
        item = {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": tools}
        with refold.open("talk", store="memory:", window=32_000, format="responses") as session:
            ready = session.prepare(responses(item))
        assert ready.budget.used <= ready.budget.room
        listed = ready.messages[-1]["tools"]
        assert [tool["name"] for tool in listed] == [tool["name"] for tool in tools]
        assert all(tool["input_schema"] == {"type": "object"} for tool in listed)


def test_a_file_that_a_tool_fetched_is_not_cut():
    """Where another result has words, it has bytes: they stay whole, or leave with it."""
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x" * 9_000}
    fetched = {"type": "web_fetch_result", "content": {"type": "document", "source": source}}
    block = {"type": "web_fetch_tool_result", "tool_use_id": "s1", "content": fetched}
    call = {"type": "server_tool_use", "id": "s1", "name": "web_fetch", "input": {"url": "https://x.org"}}
    answer = {"role": "assistant", "content": [call, block, {"type": "text", "text": "Read it."}]}
    history = [{"role": "user", "content": "Look."}, answer, {"role": "user", "content": "And now?"}]
    for target in (20_000, 8_000, 2_000):
        view = json.dumps(refold.compact(history, target=target, format="anthropic").messages)
        assert source["data"] in view or "JVBERi0x" not in view
    assert "JVBERi0x" not in json.dumps(convert(history, "anthropic"))


def test_blocks_of_an_mcp_server_stay_blocks():
    picture = {"type": "image", "data": "iVBORw0K" * 4_000, "mime_type": "image/png"}
    blocks = [{"type": "text", "text": LOG}, picture]
    history = interactions("")
    history[2] = {"type": "mcp_server_tool_result", "call_id": "c1", "name": "f", "result": blocks}
    history[1]["type"] = "mcp_server_tool_call"
    ready = refold.compact([*history, *interactions("")[:1]], target=30_000, format="interactions")
    results = [step["result"] for step in ready.messages if step["type"] == "mcp_server_tool_result"]
    for block in (block for result in results for block in result):
        assert block == picture or (block["type"] == "text" and "NEEDLE7" in block["text"])


def test_fields_of_a_result_keep_their_names_in_another_format():
    response = {"status": "ok", "errors": ["disk full"], "warnings": ["late"], "n": 3}
    (*_, result) = convert(gemini(response), "gemini")
    assert result["content"].split("\n")[1:] == ['errors: ["disk full"]', 'warnings: ["late"]', "n: 3"]
