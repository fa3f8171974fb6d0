"""The pages hold together: no link leads nowhere, and every page is in its folder's index."""

from __future__ import annotations

import re

from page_links import ROOT, anchors, links, pages, prose

# A list that both code hosts and the site show begins after an empty line.
LIST_AFTER_PROSE = re.compile(r"(?m)^(?![-*|#>\s]|\d+\.).+\n(?=- )")


def test_every_link_leads_to_a_file() -> None:
    dead = [
        f"{page}: {goal}"
        for page in pages()
        for goal, _ in links(page)
        if not (ROOT / goal).exists()
    ]
    assert not dead, "\n".join(dead)


def test_every_anchor_is_a_heading() -> None:
    dead = [
        f"{page}: {goal}#{anchor}"
        for page in pages()
        for goal, anchor in links(page)
        if anchor and goal.endswith(".md") and anchor not in anchors(goal)
    ]
    assert not dead, "\n".join(dead)


def index_of(page: str) -> str:
    """Return the index of a page's folder, or of the nearest one above that has an index."""
    folder = (ROOT / page).parent
    while not (folder / "README.md").exists():
        folder = folder.parent
    return (folder / "README.md").relative_to(ROOT).as_posix()


def test_every_page_is_in_the_index_of_its_folder() -> None:
    missing = [
        page
        for page in pages()
        if page.startswith("docs/") and not page.endswith("/README.md")
        if page not in {goal for goal, _ in links(index_of(page))}
    ]
    assert not missing, "\n".join(missing)


def test_the_start_page_leads_to_every_folder() -> None:
    folders = {index_of(page) for page in pages() if page.startswith("docs/")}
    folders.discard("docs/README.md")
    assert folders <= {goal for goal, _ in links("docs/README.md")}


def test_figures_say_when_they_were_made() -> None:
    odd = [
        page
        for page in pages()
        if page.startswith("docs/evidence/") and not page.endswith("/README.md")
        if not re.search(r"\b20\d\d-\d\d-\d\d\b|Nobody has run", prose(page))
    ]
    assert not odd, odd


def test_lists_begin_after_an_empty_line() -> None:
    odd = [
        f"{page}: {match.group().strip()}"
        for page in pages()
        for match in LIST_AFTER_PROSE.finditer(prose(page))
    ]
    assert not odd, "\n".join(odd)


def test_names_in_the_lives_of_op_and_loss_are_in_the_code() -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("native", "bindings")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".cpp", ".h")
    )
    named = {
        name
        for page in ("op", "loss")
        for name in re.findall(r"`(\w+::\w+|[a-z]\w*_\w+)`", prose(f"docs/internals/{page}.md"))
    }
    assert len(named) > 20
    missing = [name for name in named if f"{name}(" not in code]
    assert not missing, missing
