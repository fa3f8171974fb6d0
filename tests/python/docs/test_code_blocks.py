"""Every code block of README, the first steps and the guides runs; commands elsewhere are parsed.

The blocks of a page run in their order, in one folder.

- *Python*: by two ranks, as `holdfast run -n 2` starts them. A block that imports nothing is joined
  to the blocks before it on the page, back to one that does.
- *Shell*: by bash, which ends at the first error. `holdfast run PROGRAM.py` starts forks
  (`programs.py`); its arguments go through the real parser. A `holdfast coordinator` runs from
  there to the end of the page, on a free port, which stands for 29400 in all of its blocks. A file
  that a command names and the page has not made is the page's block that begins with its name in a
  comment, else, of a Python program, the last block before, else an example of that name.
- *C*: compiled without warnings, and run by two ranks, over the emulated device. A block that
  includes nothing is joined as in Python; one without a `main` becomes the body of one.

What comments above blocks can say: `pages.py`. A rank may end itself by SIGKILL if its program has
that word: the others must end well.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import Block, blocks_of, commands_of
from ports import held_port
from programs import run_program

from holdfast import cli

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
RUN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("start.md"))]
RUN += sorted((ROOT / "docs/guide").glob("*.md"))
# Of these, commands of Holdfast that are quick and need no job are run, all others are parsed.
PARSED = sorted((ROOT / "docs/operate").glob("*.md"))
QUICK = re.compile(r"holdfast (?:info|health|plan (?!.*--measure))[^|&;<>]*")
BIN = Path(sys.executable).parent
LIMIT_S = 120
HOSTS = re.compile(r"holdfast://[\w.]+:")


def has_blocks(page: Path) -> bool:
    return any(True for _ in blocks_of(page.read_text(encoding="utf-8")))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def flags() -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert cli.main(["info", "--cflags", "--libs"]) == 0
    return said.getvalue().split()


class Wrong(Exception):
    """What is wrong with a block."""


def parsed(command: str) -> argparse.Namespace:
    """The arguments of a command of Holdfast, by its own parser, up to where the shell goes on."""
    words = shlex.split(re.split(r"\s[|&;<>]", command)[0])
    while "=" in words[0]:
        words.pop(0)
    with contextlib.redirect_stderr(io.StringIO()) as complaint:
        try:
            return cli._parser().parse_args(words[1:])
        except SystemExit:
            raise Wrong(f"{command}: {complaint.getvalue()}") from None


def is_of_holdfast(command: str) -> bool:
    return re.match(r"(\w+=\S+ )*holdfast \w", command) is not None


def is_started_here(command: str) -> bool:
    """Whether it is not left to bash: a coordinator, or ranks of a Python program."""
    return re.search(r"\bholdfast (coordinator|run .*\.py)\b", command) is not None


class Page:
    """A page whose blocks are run in a folder of its own."""

    def __init__(self, path: Path, here: Path) -> None:
        self.path, self.here = path, here
        self.blocks = list(blocks_of(path.read_text(encoding="utf-8")))
        self.port = held_port()
        self.coordinator: subprocess.Popen[str] | None = None
        # By language, what a block that imports nothing goes on from.
        self.before = {"python": "", "c": ""}
        # Files that blocks give a name.
        self.named: set[str] = set()

    def run(self) -> Iterator[str]:
        """Run all blocks; what went wrong."""
        try:
            for block in self.blocks:
                try:
                    self._run(block)
                except (Wrong, AssertionError, subprocess.SubprocessError) as error:
                    yield f"{name(self.path)}:{block.line}: {error}"
        finally:
            if self.coordinator is not None:
                self.coordinator.kill()
                self.coordinator.communicate()

    def _run(self, block: Block) -> None:
        if block.not_run:
            for command in commands_of(block.text) if block.language == "sh" else []:
                if is_of_holdfast(command) and "..." not in command:
                    parsed(command)
            return
        if block.language == "sh":
            self._shell(self._here(block.text))
            return
        whole = block.with_before()
        text = self._here(whole.text)
        if not whole.begins():
            text = self.before[block.language] + text
        self.before[block.language] = text
        file = self.here / f"block-{block.line}.{'py' if block.language == 'python' else 'c'}"
        file.write_text(text if block.language == "python" or "int main(" in text else body(text))
        title = re.match(r"(?:#|/\*) ([\w.]+)(?: \*/)?\n", block.text)
        if title:
            self.named.add(title[1])
            shutil.copy(file, self.here / title[1])
        if block.language == "python":
            self._python(file, 2)
        else:
            self._c(file)

    def _here(self, text: str) -> str:
        """The text with this host and a free port."""
        return HOSTS.sub("holdfast://127.0.0.1:", text).replace("29400", str(self.port))

    def _python(self, file: Path, ranks: int, *arguments: str, **more: object) -> None:
        text = file.read_text()
        if "holdfast://" in text:
            self._coordinate(f"holdfast coordinator --address 127.0.0.1 --port {self.port}")
        # KILL=2 before a program that has such a word: that rank is meant to die.
        dies = "SIGKILL" in text and any(map(str.isdigit, more.get("env", {}).values()))
        run_program(file, ranks, self.here, *arguments, killed=int(dies), **more)

    def _coordinate(self, command: str) -> None:
        if self.coordinator is not None:
            return
        # Its time of grace is ten heartbeats.
        self.coordinator = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *shlex.split(command)[1:]],
            env={**os.environ, "HOLDFAST_HEARTBEAT": "0.1"},
            cwd=self.here,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.coordinator.stdout is not None
        if "listens" not in self.coordinator.stdout.readline():
            raise Wrong(f"{command}: it does not listen")

    def _c(self, file: Path) -> None:
        program = self.here / file.stem
        strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
        self._bash(shlex.join(["cc", *strict, str(file), *flags(), "-o", str(program)]))
        self._bash(f"HOLDFAST_CUDA_DRIVER=emulated holdfast run -n 2 {program}")

    def _shell(self, text: str) -> None:
        commands = commands_of(text)
        for file in re.findall(r"(?<![\w./-])\w+\.(?:py|c)\b", "\n".join(commands)):
            self._provide(file)
        for command in filter(is_of_holdfast, commands):
            parsed(command)
        if not any(map(is_started_here, commands)):
            self._bash(text)
            return
        for command in commands:
            if not is_started_here(command):
                self._bash(command)
            elif "holdfast coordinator" in command:
                self._coordinate(command)
            else:
                arguments, words = parsed(command), shlex.split(command)
                env = dict(w.split("=", 1) for w in words[: words.index("holdfast")])
                more = {"env": env, "respawn": arguments.respawn}
                file = self.here / arguments.script
                self._python(file, arguments.ranks, *arguments.arguments, **more)

    def _provide(self, file: str) -> None:
        """Make a file that a command names."""
        if file in self.named:
            return
        if file.endswith(".py") and self.before["python"]:
            (self.here / file).write_text(self.before["python"])
            return
        found = sorted(EXAMPLES.rglob("all_reduce.c" if file == "program.c" else file))
        if not found:
            raise Wrong(f"{file}: neither the page nor examples/ has it")
        shutil.copy(found[0], self.here / file)

    def _bash(self, command: str) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
            cwd=self.here,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise Wrong(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")


def body(text: str) -> str:
    """Statements of C as a program."""
    includes = re.findall(r"(?m)^#include.*\n", text)
    statements = re.sub(r"(?m)^#include.*\n", "", text)
    header = "#include <holdfast/holdfast_device.h>\n"
    return f"{header}{''.join(includes)}int main(void) {{\n{statements}return 0;\n}}\n"


@pytest.mark.parametrize("path", [p for p in RUN if has_blocks(p)], ids=name)
def test_every_block_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="waits for torch: most blocks use it")
    page = Page(path, tmp_path)
    if shutil.which("cc") is None and any(block.language == "c" for block in page.blocks):
        pytest.skip("waits for a C compiler")
    wrong = list(page.run())
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", PARSED, ids=name)
def test_every_command_is_one_that_there_is(path: Path, tmp_path: Path) -> None:
    page = Page(path, tmp_path)
    wrong = []
    for block in page.blocks:
        for command in commands_of(block.text) if block.language == "sh" else []:
            if not is_of_holdfast(command) or "..." in command:
                continue
            try:
                parsed(command)
                if quick := QUICK.match(command):
                    page._bash(quick[0])
            except Wrong as error:
                wrong.append(f"{name(path)}:{block.line}: {error}")
    assert not wrong, "\n" + "\n".join(wrong)


WRONG = """
```python
import numpy as np
x = np.ones(2)
```
```python
assert x.sum() == 3, "as the rank says"
```
```sh
ls no-such-file
```
```sh
holdfast run -n 2 --respwan program.py
```
```c
int missing = hf_abi_version()
```
<!-- not run: there is no such machine -->
```sh
ssh NODE0 && holdfast run -n 2 train.py
```
<!-- not run: nor this one -->
```sh
holdfast flies
```
"""


def test_what_is_wrong_is_told_by_line(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="waits for torch: ranks are forked from where it is")
    page = tmp_path / "page.md"
    page.write_text(WRONG)
    complaints = [
        ("page.md:6:", "as the rank says"),
        ("page.md:9:", "no-such-file"),
        ("page.md:12:", "--respwan"),
        ("page.md:15:", "error:"),
        ("page.md:23:", "flies"),
    ]
    told = list(Page(page, tmp_path).run())
    assert [line.split(" ")[0] for line in told] == [line for line, _ in complaints], told
    for line, (_, word) in zip(told, complaints, strict=True):
        assert word in line


def test_a_marker_has_a_reason_and_a_block() -> None:
    block = "```sh\nls\n```\n"
    (found,) = blocks_of(f"<!-- not run: needs two hosts -->\n{block}")
    assert found.not_run == "needs two hosts"
    (found,) = blocks_of("<!-- before\nx = 1\n-->\n```python\nprint(x)\n```\n")
    assert found.with_before().text == "x = 1\nprint(x)\n"
    assert not found.begins()
    for bad in ("<!-- not run -->\n", "<!-- not run: -->\n", "<!-- not run: why -->\n\n"):
        with pytest.raises(ValueError, match=r"reason|directly above"):
            list(blocks_of(f"{bad}{block}"))
