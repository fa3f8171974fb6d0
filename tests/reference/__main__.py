"""Writes every page: `make reference`."""

from reference.pages import PAGES, folder

for name, make in PAGES.items():
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(make(path.read_text() if path.exists() else ""))
