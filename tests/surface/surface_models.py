"""A stand-in for a model: answers depend on what the conversation is about, not on how it is asked."""

import re
from typing import Any

from refold import Answer, Ask

_ABOUT = re.compile(r"the [a-z]+ [a-z]+ the [a-z]+ of [a-z]+/[a-z/]+\.[a-z]+", re.IGNORECASE)
_PATH = re.compile(r"\b(?:src/api|src/core|lib|tests|docs)/[a-z]+\.[a-z]+")
HEADS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
    "Files",
)
CHINESE = "用户要求修复订单金额的舍入问题，并且不要修改公共接口。已经读取了账本模块，测试仍然失败，下一步是备份数据库再运行测试。"


class Model:
    """Answers in the language it is told; every few conversations it is one of the bad kinds."""

    def __init__(self, number: int, language: str = "en") -> None:
        self.kind = {
            2: "fails",
            6: "nods",
            13: "cut",
            19: "calls",
            23: "long",
            29: "reports",
            31: "once",
        }.get(number % 32, "good")
        self.language = language
        self.asked: list[Any] = []

    def __call__(self, ask: Ask) -> str | Answer:
        self.asked.append([ask.text, ask.system, ask.max_tokens, ask.purpose])
        text = self._summary(ask.text)
        match self.kind:
            case "fails":
                raise TimeoutError("nobody answers")
            case "once" if len(self.asked) == 1:
                raise ConnectionError("the line broke")
            case "nods":
                return "Understood."
            case "cut":
                return Answer(text=text, finish="length")
            case "calls":
                return Answer(text="", finish="tool_calls", calls=1)
            case "long":
                return text * 40
            case "reports":
                tokens = len(ask) // 4
                return Answer(
                    text=text, model="gpt-4o-mini", input_tokens=tokens, output_tokens=len(text) // 4
                )
        return text

    def _summary(self, asked: str) -> str:
        if self.language == "zh":
            return f"## 目标\n{CHINESE}\n## 文件\n" + "\n".join(
                f"- {path}" for path in _once(_PATH, asked)[:6]
            )
        about = _once(_ABOUT, asked)
        share = about[:: max(1, len(about) // 7)][:7]
        lines = [
            f"## {head}\n- The user wants that {fact}." for head, fact in zip(HEADS, share, strict=False)
        ]
        return "\n".join(lines) or "## Goal\n- The user wants the shop repaired."


def _once(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(found.lower() for found in pattern.findall(text)))
