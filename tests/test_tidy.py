"""The house rules that no compiler and no linter knows: layers, determinism, sizes, names.

Each rule is a pure function from a file's text to complaints, so that every rule is itself tested
on a line that breaks it. The rules are those of docs/internals/architecture.md and CONTRIBUTING.md.

Why: docs/decisions/0005-house-rules-are-a-test.md
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("bindings/holdfast", "comm", "ft", "compress", "topology")
CPP = (".cpp", ".h", ".cu", ".cuh")
FOLDERS = (
    "native",
    "comm",
    "ft",
    "compress",
    "topology",
    "bindings",
    "tests",
    "examples",
    "cmake",
    ".ci",
    "docs",
)
MAX_FILE_LINES = 400
MAX_TEST_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_COLUMNS = 100

# Which folders of native/ a folder may include, besides itself.
_LOWER = {"topology", "compress", "datatype", "device", "base"}
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "device": {"base"},
    "topology": {"base"},
    "secure": {"base"},
    "erasure": {"base", "device"},
    "compress": {"base", "device"},
    "datatype": {"base", "device"},
    "comm": _LOWER,
    "ft": {"base"},
    "group": _LOWER | {"comm", "ft"},
    "health": {"base", "comm", "compress", "ft", "secure"},
    "device_comm": _LOWER | {"comm", "group"},
    "runtime": _LOWER | {"comm", "ft", "group", "health", "device_comm", "secure"},
    "sim": _LOWER | {"comm", "ft", "group"},
    "include": set(),
}

# Same input, same bits, on every run: these folders see no clock, chance, thread or socket.
DETERMINISTIC = (
    "native/topology/",
    "native/compress/",
    "native/datatype/",
    "native/erasure/",
    "native/comm/schedule/",
    "native/comm/algorithms/",
    "native/comm/engine/",
    "native/ft/",
)
NONDETERMINISTIC = {
    "clock": r"\b(steady_clock|system_clock|high_resolution_clock|MonotonicClock|clock_gettime"
    r"|gettimeofday|__rdtsc|std::time)\b|base/clock\.h",
    "thread": r"<(thread|future|stop_token|semaphore|barrier|latch)>"
    r"|\bstd::(thread|jthread|async)\b|\bpthread_",
    "lock": r"<(mutex|shared_mutex|condition_variable)>"
    r"|\b(mutex|lock_guard|unique_lock|scoped_lock)\b",
    "sleep": r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(",
    "socket": r"<(sys/socket|sys/epoll|netinet/|arpa/|netdb)",
    "random device": r"\brandom_device\b|\bs?rand\s*\(|\bgetrandom\b|<sys/random\.h>",
    "address order": r"\b(map|set)<[^,<>]*\*",
}
SLEEP = r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(|\b(time|asyncio)\.sleep\b"
ENVIRONMENT_CPP = r"\b(secure_)?getenv\b|\benviron\b"
# Rank, size and address of a process come from its launcher, by the environment; and a shared file
# system tells nobody that a file has come.
READS_THE_LAUNCHER = "comm/launch.py"
POLLS_A_FILE_SYSTEM = ("comm/store.py", "bindings/c/store.cpp")
# A copy of the environment for a child process is no option: `dict(os.environ)` passes.
ENVIRONMENT_PY = r"\bos\.getenv\b|\bos\.environ\s*(\[|\.get\b|\.setdefault\b|\.pop\b)"
BANNED_WORDS = {
    *("master", "slave", "manager", "handler", "util", "utils"),
    *("misc", "helper", "helpers"),
}
NOTE_TO_SELF = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")


def tree(*suffixes: str) -> list[Path]:
    """Every source file of the repository with one of these suffixes; all when none is given."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    found += list(ROOT.glob("*"))
    return sorted(
        path
        for path in found
        if path.is_file() and "__pycache__" not in path.parts and "corpus" not in path.parts
        if path.suffix not in (".so", ".png") and (not suffixes or path.suffix in suffixes)
    )


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def strip_cpp(text: str, keep_strings: bool = False) -> str:
    """C++ text with comments, and the contents of strings, blanked; line numbers stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.DOTALL,
    )

    def blank(match: re.Match[str]) -> str:
        token = match.group()
        if token.startswith("/"):
            return " " + "\n" * token.count("\n")
        if keep_strings:
            return token
        return '""' + "\n" * token.count("\n")

    return pattern.sub(blank, text)


def lines_matching(text: str, pattern: str, what: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(pattern, line):
            yield f"{number}: {what}: {line.strip()}"


# ---- the rules: (file name, text) -> complaints ----------------------------------------------


def includes_point_down(file: str, text: str) -> Iterator[str]:
    folder = file.split("/")[1]
    allowed = MAY_INCLUDE.get(folder)
    if allowed is None:
        yield f"1: native/{folder} is no folder of the architecture"
        return
    for number, line in enumerate(strip_cpp(text, keep_strings=True).splitlines(), 1):
        match = re.match(r"\s*#\s*include\s+([\"<])([^\">]+)", line)
        if match is None:
            continue
        quote, target = match.groups()
        top = target.split("/")[0]
        if re.match(r"(torch|c10|ATen|nanobind|Python\.h|pybind11|mpi\.h)", target):
            yield f"{number}: {target} belongs into bindings/"
        elif quote == '"' and "/" not in target:
            yield f'{number}: write "folder/{target}", as seen from native/'
        elif quote == '"' and top in MAY_INCLUDE and top not in allowed | {folder}:
            yield f"{number}: {folder} may not include {target}"


def is_deterministic(file: str, text: str) -> Iterator[str]:
    if not file.startswith(DETERMINISTIC):
        return
    code = strip_cpp(text, keep_strings=True)
    for what, pattern in NONDETERMINISTIC.items():
        yield from lines_matching(code, pattern, what)
    hashed = set(re.findall(r"\bunordered_\w+<[^;]*>\s+(\w+)\s*[;{=(]", code))
    for table in hashed:
        yield from lines_matching(
            code, rf"for\s*\([^;)]*:\s*{table}\s*\)|\b{table}\.(begin|cbegin)\(", "hash order"
        )


def fits_the_page(file: str, text: str) -> Iterator[str]:
    lines = text.splitlines()
    limit = MAX_TEST_FILE_LINES if file.startswith("tests/") else MAX_FILE_LINES
    if len(lines) > limit:
        yield f"1: {len(lines)} lines, the limit is {limit}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield f"{number}: {len(line)} columns, the limit is {MAX_COLUMNS}"


PAPERS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
MADE_FOLDERS = ("docs/evidence/", "docs/reference/")
MADE_BY = re.compile(r"(?i)\b(?:made|generated|written) (?:by|from)\b.*`make |`make \w+` writes")


def pages_wrap(file: str, text: str) -> Iterator[str]:
    """Lines of pages end before the limit, tables, code and headings as well.

    Where links lead to cannot be broken, and does not count. A page that a program makes, and that
    says so at its top, may have tables as wide as they are.
    """
    if not file.startswith("docs/") and file not in PAPERS:
        return
    made = file.startswith(MADE_FOLDERS) and MADE_BY.search(" ".join(text.splitlines()[:12]))
    for number, line in enumerate(text.splitlines(), 1):
        if made and line.startswith("|"):
            continue
        if len(re.sub(r"\]\([^)]*\)", "]", line)) > MAX_COLUMNS:
            yield f"{number}: {len(line)} columns, the limit is {MAX_COLUMNS}"


def is_clean_text(file: str, text: str) -> Iterator[str]:
    if text and not text.endswith("\n"):
        yield "1: no newline at the end"
    for number, line in enumerate(text.splitlines(), 1):
        if line != line.rstrip():
            yield f"{number}: blanks at the end of the line"
        if NOTE_TO_SELF.search(line):
            yield f"{number}: open an issue instead: {line.strip()}"


def functions_are_short_cpp(file: str, text: str) -> Iterator[str]:
    """Counts lines from a function's opening brace to its closing one, by braces alone."""
    code = re.sub(
        r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        lambda m: "\n" * m.group().count("\n"),
        strip_cpp(text),
    )
    stack: list[tuple[bool, int]] = []
    head_start = 0
    for match in re.finditer(r"[{};]", code):
        at, token = match.start(), match.group()
        line = code.count("\n", 0, at) + 1
        if token == "{":
            inside = any(is_function for is_function, _ in stack)
            stack.append((not inside and opens_function(code[head_start:at]), line))
        elif token == "}" and stack:
            is_function, start = stack.pop()
            if is_function and line - start + 1 > MAX_FUNCTION_LINES:
                yield f"{start}: function of {line - start + 1} lines"
        head_start = at + 1


def opens_function(head: str) -> bool:
    head = head.strip()
    if re.search(r"\b(namespace|struct|class|union|enum|extern)\b[^()]*$", head):
        return False
    # An empty head follows a brace-initialised member in a constructor's list.
    return head == "" or ("(" in head and re.search(r"=\s*$", head) is None)


def functions_are_short_py(file: str, text: str) -> Iterator[str]:
    """Counts a function's lines without its docstring: documentation is not what makes it long."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        first = node.body[0]
        if ast.get_docstring(node) is not None:
            lines -= (first.end_lineno or first.lineno) - first.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield f"{node.lineno}: {node.name} has {lines} lines"


def words(identifier: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", identifier)]


def names_say_what(file: str, text: str) -> Iterator[str]:
    for word in words(file.rsplit("/", 1)[-1]):
        if word in BANNED_WORDS:
            yield f"1: '{word}' in a file name says nothing"
    code = strip_cpp(text) if file.endswith(CPP) else text
    types = (
        r"(?m)^\s*(?:template\s*<.*>\s*)?(?:class|struct|enum(?: class)?)\s+"
        r"(?:\[\[\w+\]\]\s*)?(\w+)"
    )
    for match in re.finditer(types, code):
        for word in words(match.group(1)):
            if word in BANNED_WORDS:
                line = code.count("\n", 0, match.start(1)) + 1
                yield f"{line}: '{word}' in the type name {match.group(1)} says nothing"


def reads_no_environment(file: str, text: str) -> Iterator[str]:
    if file.startswith(("bindings/", "tests/", "examples/")) or file == READS_THE_LAUNCHER:
        return
    if file.endswith(CPP):
        yield from lines_matching(strip_cpp(text), ENVIRONMENT_CPP, "read it in bindings/")
    elif file.startswith(PACKAGES):
        yield from lines_matching(text, ENVIRONMENT_PY, "read it in bindings/")


def never_sleeps(file: str, text: str) -> Iterator[str]:
    if file.startswith(("tests/", "examples/")) or file in POLLS_A_FILE_SYSTEM:
        return
    code = strip_cpp(text) if file.endswith(CPP) else text
    yield from lines_matching(code, SLEEP, "wait for the event, with a timeout")


def skips_say_why(file: str, text: str) -> Iterator[str]:
    if not file.startswith("tests/"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.skip":
            yield from _bare_mark(node, text)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        reason = any(keyword.arg == "reason" for keyword in node.keywords)
        if called in ("pytest.skip", "pytest.mark.skip") and not (reason or node.args):
            yield f"{node.lineno}: {called} without a reason"
        if called in ("pytest.mark.skipif", "pytest.mark.xfail") and not reason:
            yield f"{node.lineno}: {called} without a reason"


def _bare_mark(node: ast.Attribute, text: str) -> Iterator[str]:
    if not text.splitlines()[node.lineno - 1][node.end_col_offset or 0 :].startswith("("):
        yield f"{node.lineno}: pytest.mark.skip without a reason"


# ---- the tree obeys them -------------------------------------------------------------------------

Rule = Callable[[str, str], Iterator[str]]
RULES: list[tuple[Rule, tuple[str, ...], str]] = [
    (includes_point_down, CPP, "native/"),
    (is_deterministic, CPP, "native/"),
    (fits_the_page, (*CPP, ".py", ".pyi", ".cmake", ".txt", ".sh", ".toml"), ""),
    (pages_wrap, (".md",), ""),
    (is_clean_text, (), ""),
    (functions_are_short_cpp, CPP, ""),
    (functions_are_short_py, (".py",), ""),
    (names_say_what, (*CPP, ".py", ".pyi"), ""),
    (reads_no_environment, (*CPP, ".py"), ""),
    (never_sleeps, (*CPP, ".py"), ""),
    (skips_say_why, (".py",), ""),
]


@pytest.mark.parametrize(
    ("rule", "suffixes", "under"), RULES, ids=[rule.__name__ for rule, _, _ in RULES]
)
def test_the_tree_obeys(rule: Rule, suffixes: tuple[str, ...], under: str) -> None:
    complaints = [
        f"{name(path)}:{complaint}"
        for path in tree(*suffixes)
        if name(path).startswith(under) and path != Path(__file__).resolve()
        for complaint in rule(name(path), path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n" + "\n".join(complaints)


# A text that breaks each rule, and one beside it that does not.
LONG_BODY = "  x();\n" * MAX_FUNCTION_LINES
SPECIMENS: list[tuple[Rule, str, str, str]] = [
    (includes_point_down, "native/base/a.h", '#include "comm/work.h"\n', '#include "base/b.h"\n'),
    (includes_point_down, "native/runtime/a.h", '#include "sim/w.h"\n', '#include "ft/w.h"\n'),
    (includes_point_down, "native/sim/a.h", '#include "runtime/n.h"\n', '#include "comm/w.h"\n'),
    (includes_point_down, "native/ft/a.h", '#include "comm/work.h"\n', '#include "base/b.h"\n'),
    (includes_point_down, "native/comm/a.h", "#include <torch/all.h>\n", "#include <span>\n"),
    (is_deterministic, "native/comm/engine/a.cpp", "std::mutex m;\n", "// no mutex\n"),
    (is_deterministic, "native/topology/a.cpp", "std::map<Node*, int> m;\n", "map<int, int> m;\n"),
    (
        is_deterministic,
        "native/ft/a.cpp",
        "std::unordered_map<int, int> t;\nfor (auto& e : t) f(e);\n",
        "std::unordered_map<int, int> t;\nt.find(1);\n",
    ),
    (fits_the_page, "native/a.cpp", "x" * 101 + "\n", "x" * 100 + "\n"),
    (fits_the_page, "native/a.cpp", "\n" * 401, "\n" * 400),
    (pages_wrap, "docs/a.md", "x " * 51 + "\n", "x " * 50 + "\n"),
    (pages_wrap, "docs/a.md", "| " + "x " * 51 + "|\n", "| " + "x " * 48 + "|\n"),
    (
        pages_wrap,
        "docs/evidence/a.md",
        "Written by hand.\n\n| " + "x " * 51 + "|\n",
        "Made by `make x`.\n\n| " + "x " * 51 + "|\n",
    ),
    (pages_wrap, "README.md", "- " + "x " * 51 + "\n", "[x](" + "x" * 101 + ")\n"),
    (pages_wrap, "docs/a/b.md", "```\n" + "x " * 51 + "\n```\n", "```\n" + "x " * 50 + "\n```\n"),
    (is_clean_text, "docs/a.md", "end", "end\n"),
    (is_clean_text, "docs/a.md", "// TO" + "DO later\n", "// done\n"),
    (
        functions_are_short_cpp,
        "native/a.cpp",
        "int f(int a) {\n" + LONG_BODY + "}\n",
        "namespace a {\n" + LONG_BODY + "}\n",
    ),
    (
        functions_are_short_py,
        "comm/a.py",
        "def f():\n" + "    x()\n" * MAX_FUNCTION_LINES,
        'def f():\n    """' + "\n" * MAX_FUNCTION_LINES + '"""\n    x()\n',
    ),
    (names_say_what, "native/link_manager.h", "\n", "\n"),
    (names_say_what, "native/a.h", "class EventHandler {};\n", "class Event {};\n"),
    (reads_no_environment, "native/a.cpp", 'std::getenv("A");\n', "// getenv\n"),
    (reads_no_environment, "comm/a.py", "os.environ['A']\n", "dict(os.environ)\n"),
    (never_sleeps, "comm/a.py", "time.sleep(1)\n", "event.wait(1)\n"),
    (skips_say_why, "tests/a.py", "pytest.skip()\n", "pytest.skip('no GPU')\n"),
    (skips_say_why, "tests/a.py", "@pytest.mark.skip\ndef f(): pass\n", "f = 1\n"),
]


@pytest.mark.parametrize(("rule", "file", "bad", "good"), SPECIMENS)
def test_each_rule_finds_its_specimen(rule: Rule, file: str, bad: str, good: str) -> None:
    assert list(rule(file, bad))
    if bad != good:
        assert not list(rule(file, good))


def test_every_included_header_exists() -> None:
    missing = [
        f"{name(path)}: {target}"
        for path in tree(*CPP)
        if name(path).startswith("native/")
        for target in re.findall(r'(?m)^\s*#\s*include\s+"([^"]+)"', path.read_text())
        if not (ROOT / "native" / target).exists()
    ]
    assert not missing, "\n".join(missing)


# What is met in two files of native/ must be told apart by name. The lanes of an instruction level
# are one interface, compiled once a level (compress/loops, comm/reduce).
TYPE = re.compile(
    r"(?m)^\s*(?:template\s*<.*>\s*)?(?:class|struct|enum(?: class)?)\s+(\w+)\s*"
    r"(?=:(?!:)|\{|final\b)"
)


def test_no_two_types_of_native_share_a_name() -> None:
    files: dict[str, list[str]] = {}
    for path in tree(*CPP):
        if not name(path).startswith("native/") or path.name.startswith("lanes"):
            continue
        for found in sorted(set(TYPE.findall(strip_cpp(path.read_text(encoding="utf-8"))))):
            files.setdefault(found, []).append(name(path))
    shared = {found: where for found, where in files.items() if len(where) > 1}
    assert not shared, "\n".join(f"{found}: {', '.join(where)}" for found, where in shared.items())


# A folder beyond this holds two trades.
MAX_FOLDER_FILES = 40


def test_no_folder_of_native_is_crowded() -> None:
    count = Counter(path.parent for path in (ROOT / "native").rglob("*") if path.is_file())
    crowded = [f"{name(folder)}: {n}" for folder, n in count.items() if n > MAX_FOLDER_FILES]
    assert not crowded, "\n".join(crowded)


def test_no_header_of_native_includes_itself_by_way_of_others() -> None:
    includes = {
        name(path).removeprefix("native/"): re.findall(
            r'(?m)^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8")
        )
        for path in tree(".h")
        if name(path).startswith("native/")
    }
    graphlib.TopologicalSorter(includes).prepare()


def test_every_algorithm_is_in_the_catalogue() -> None:
    folder = ROOT / "native/comm/algorithms"
    rows = (folder / "algorithms.h").read_text() if folder.exists() else ""
    missing = [
        path.name
        for path in sorted(folder.glob("*.cpp"))
        if path.stem != "catalogue" and f'"{path.stem}"' not in rows
    ]
    assert not missing, f"no row in algorithms.h: {missing}"


def test_every_package_folder_has_an_init_file() -> None:
    missing = {
        name(path.parent)
        for path in tree(".py", ".pyi")
        if name(path).startswith(PACKAGES) and not (path.parent / "__init__.py").exists()
    }
    assert not missing


def test_python_folders_hold_no_cpp() -> None:
    compiled_by_users = "comm/bench/mpi/"  # the C program of `holdfast bench --api mpi`
    strays = [name(p) for p in tree(*CPP) if name(p).startswith(PACKAGES)]
    strays = [stray for stray in strays if not stray.startswith(compiled_by_users)]
    assert not strays


@pytest.mark.parametrize(
    "file",
    [
        "README.md",
        "LICENSE",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/internals/architecture.md",
        "docs/internals/glossary.md",
        "docs/decisions/README.md",
    ],
)
def test_the_papers_are_there(file: str) -> None:
    assert (ROOT / file).stat().st_size > 0


DECISIONS = ROOT / "docs/decisions"


def decisions() -> list[Path]:
    return sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")


def test_a_decision_has_a_number_a_context_and_a_choice() -> None:
    sections = r"# .+\n\n\d{4}-\d\d-\d\d\n\n## Context\n\n[^#]+## Choice\n\n"
    odd = [name(p) for p in decisions() if not re.match(sections, p.read_text(encoding="utf-8"))]
    numbers = [path.name[:5] for path in decisions()]
    assert not odd
    assert numbers == [f"{n:04d}-" for n in range(1, len(numbers) + 1)]


def test_the_index_has_every_decision_once() -> None:
    listed = re.findall(r"\]\((\d{4}-[^)]+)\)", (DECISIONS / "README.md").read_text())
    assert sorted(listed) == [path.name for path in decisions()]


def test_decisions_that_are_linked_exist() -> None:
    link = re.compile(r"docs/decisions/(\d{4}-[\w-]+\.md)")
    missing = [
        f"{name(path)}: {target}"
        for path in tree(*CPP, ".py", ".sh", ".md")
        for target in link.findall(path.read_text(encoding="utf-8"))
        if not (DECISIONS / target).exists()
    ]
    assert not missing, "\n".join(missing)


PYTHON_TESTS = ROOT / "tests/python"


def test_the_map_of_the_python_tests_has_every_folder() -> None:
    listed = re.findall(r"(?m)^\| `(\w+)` \|", (PYTHON_TESTS / "README.md").read_text())
    folders = {path.parent.name for path in PYTHON_TESTS.glob("*/*.py")}
    assert sorted(listed) == sorted(folders)
    assert [path.name for path in PYTHON_TESTS.glob("*.py")] == ["conftest.py"]


def test_python_tests_import_what_is_beside_them_or_in_support() -> None:
    modules = sorted(PYTHON_TESTS.glob("*/*.py"))
    folder_of = {path.stem: path.parent.name for path in modules}
    assert len(folder_of) == len(modules), "two modules have one name"
    strays = [
        f"{name(path)}: {module}"
        for path in modules
        for module in re.findall(r"(?m)^\s*(?:from|import) (\w+)", path.read_text())
        if folder_of.get(module, "support") not in ("support", path.parent.name)
    ]
    assert not strays, "\n".join(strays)


def test_test_files_that_are_named_exist() -> None:
    named = re.compile(r"\btests/((?:\w+/)+[a-z]\w*\.(?:py|cpp|c|h|txt))\b")
    in_table = re.compile(r"`((?:python|native|bench)/[\w/]+\.(?:py|cpp|c|txt))\b")
    table = ROOT / "docs/reference/failure-cases.md"
    missing = [
        f"{name(path)}: {target}"
        for path in tree(*CPP, ".c", ".py", ".sh", ".toml", ".md")
        for target in (in_table if path == table else named).findall(path.read_text())
        if not (ROOT / "tests" / target).exists()
    ]
    assert not missing, "\n".join(missing)


def test_the_changelog_knows_the_version() -> None:
    version = re.search(r'(?m)^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert version is not None
    assert f"## [{version.group(1)}]" in (ROOT / "CHANGELOG.md").read_text()
