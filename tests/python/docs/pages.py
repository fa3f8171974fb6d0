"""Code blocks of Markdown pages, and what the comment directly above a block says of it.

`<!-- not run: REASON -->`: the block is not run, and the reason says why. `<!-- before`, code, and
`-->`, each on a line of its own: the code comes before the block, unseen by readers of the page. It
sets up what a few lines cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

LANGUAGES = {
    **dict.fromkeys(("python", "py"), "python"),
    **dict.fromkeys(("sh", "bash", "shell", "console"), "sh"),
    "c": "c",
}
_COMMENT = re.compile(r"<!--(?:(?!-->).)*-->[ \t]*\Z", re.DOTALL)
_NOT_RUN = re.compile(r"<!--\s*not run\b")


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    line: int
    language: str
    text: str
    not_run: str
    before: str

    def with_before(self) -> Block:
        """The block with what comes before it in its text."""
        return replace(self, text=self.before + self.text, before="")

    def begins(self) -> bool:
        """Whether a program begins here: it imports, or includes, something."""
        start = r"(?m)^#include" if self.language == "c" else r"(?m)^(import|from) \w"
        return re.search(start, self.text) is not None


def blocks_of(text: str) -> Iterator[Block]:
    """All blocks of Python, shell and C, in their order; ValueError for a marker without reason."""
    lines = text.splitlines()
    marked, number = 0, 0
    while number < len(lines):
        fence = re.match(r"(\s*)```(\w*)\s*$", lines[number])
        if fence is None:
            number += 1
            continue
        end = number + 1
        while end < len(lines) and lines[end].strip() != "```":
            end += 1
        indent = len(fence[1])
        code = "\n".join(line[indent:] for line in lines[number + 1 : end]) + "\n"
        comment = _COMMENT.search("\n".join(lines[:number]))
        said = comment.group() if comment else ""
        marked += bool(_NOT_RUN.match(said))
        if fence[2] in LANGUAGES:
            reason = re.fullmatch(r"<!--\s*not run:(.*\w.*)-->", said, re.DOTALL)
            before = re.fullmatch(r"<!--\s*before\n(.*)-->", said, re.DOTALL)
            if _NOT_RUN.match(said) and reason is None:
                raise ValueError(f"line {number}: {said}: without a reason")
            yield Block(
                number + 1,
                LANGUAGES[fence[2]],
                code,
                reason[1].strip() if reason else "",
                before[1] if before else "",
            )
        number = end + 1
    if marked != len(_NOT_RUN.findall(text)):
        raise ValueError("a comment `not run` is not directly above a block")


def commands_of(text: str) -> list[str]:
    """The commands of a shell block: lines that go on are joined, comments left out."""
    whole = re.sub(r"\\\n\s*", "", text)
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in whole.splitlines())
    return [line for line in lines if line]
