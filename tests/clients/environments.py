"""One virtual environment per client, in which torch is not downloaded again.

What this Python has of torch, and of what torch and Holdfast need, is linked into a folder that the
environments look into; nothing else of this Python's is seen there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata as metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "build/clients"
TORCH = "torch==2.13.0"
# The largest client is 200 MB.
INSTALL_TIMEOUT_S = 1200


def needed(name: str, found: dict[str, metadata.Distribution]) -> None:
    """Collect a distribution and all that it needs, as far as they are installed here."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return
    try:
        found[key] = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    for line in found[key].requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needed(requirement.name, found)


def link(distribution: metadata.Distribution, folder: Path) -> None:
    """Link the packages and the metadata of a distribution into a folder."""
    for file in distribution.files or []:
        top = file.parts[0]
        if top not in ("..", "__pycache__") and not (folder / top).is_symlink():
            (folder / top).symlink_to(distribution.locate_file(top))


def borrowed() -> Path | None:
    """Return the folder of what is borrowed from this Python; None where it has no such torch."""
    found: dict[str, metadata.Distribution] = {}
    needed("torch", found)
    if not found or found["torch"].version.split("+")[0] != TORCH.split("==")[1]:
        return None
    needed("holdfast", found)
    # Clients know whether they can run a check by whether they can import it.
    needed("pytest", found)
    folder = CLIENTS / "borrowed"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if not path.exists():  # of a version that is not there any more
            path.unlink()
    for distribution in found.values():
        link(distribution, folder)
    return folder


def wheel() -> Path | None:
    """Return the newest wheel of `make wheel` that fits this Python."""
    tag = f"-cp{sys.version_info.major}{sys.version_info.minor}-"
    fitting = [path for path in (ROOT / "dist").glob("holdfast-*.whl") if tag in path.name]
    return max(fitting, key=lambda path: path.stat().st_mtime, default=None)


def pip(python: Path, *arguments: str) -> None:
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments],
        check=True,
        timeout=INSTALL_TIMEOUT_S,
        stdout=sys.stderr,
    )


def make(name: str, packages: tuple[str, ...], lent: Path | None, holdfast: str) -> Path:
    """Make a client's environment, or bring it up to date.

    Parameters
    ----------
    packages : tuple of str
        The client, with its version.
    lent : Path, optional
        From borrowed().
    holdfast : str
        "wheel": the wheel of dist/ is installed; "here": this Python's Holdfast is used.

    Returns
    -------
    Path
        Its Python.
    """
    folder = CLIENTS / name
    python = folder / "bin/python"
    asked = hashlib.sha256(repr((packages, bool(lent), sys.version)).encode()).hexdigest()
    stamp = folder / ".client"
    if not stamp.exists() or stamp.read_text() != asked:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
        if lent:
            minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
            site = folder / "lib" / minor / "site-packages"
            (site / "borrowed.pth").write_text(f"{lent}\n")
        else:
            pip(python, TORCH)
        pip(python, *packages)
        stamp.write_text(asked)
    if holdfast == "wheel":
        built = wheel()
        if built is None:
            raise SystemExit("there is no wheel in dist/ that fits this Python; type `make wheel`")
        done = folder / ".holdfast"
        this = f"{built.name} {built.stat().st_mtime}"
        if not done.exists() or done.read_text() != this:
            pip(python, "--force-reinstall", "--no-deps", str(built))
            done.write_text(this)
    return python


def version(python: Path, package: str) -> str:
    """Return the version of a package in an environment."""
    told = subprocess.run(
        [str(python), "-c", f"import importlib.metadata as m; print(m.version({package!r}))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return told.stdout.strip() or "not there"
