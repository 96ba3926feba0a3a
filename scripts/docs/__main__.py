"""Build the documentation site into .build/docs, and fail on any warning, broken link or request to another host.

The pages of docs/ are copied into a temporary folder, where the generated reference joins them. The site gets its place
only if it is sound; a folder that has this place and was not made here is moved aside.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from trainer_node.storage.made_folders import closed, emptied, made, set_aside

from . import code, commands, contracts, links, messages, python

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
CONFIGURATION = Path(__file__).parent / "zensical.toml"
SITE = ROOT / ".build/docs"
BY = "make docs"
ZENSICAL = Path(sys.executable).parent / "zensical"


def reference() -> dict[str, str]:
    """Return the generated pages: the text of each by its file name."""
    guide = (DOCS / "operating.md").read_text()
    return {
        "commands.md": commands.page(),
        "settings.md": code.settings(guide),
        "metrics.md": code.metrics(guide),
        "events.md": code.events(ROOT, guide),
        "errors.md": code.errors(),
        "messages.md": messages.page(ROOT),
        "contracts.md": contracts.page(ROOT),
        **python.pages(),
    }


def write_pages(folder: Path) -> None:
    """Write every page of the site into an empty folder. Raises ValueError for a link to a file that does not exist."""
    shutil.copytree(DOCS, folder)
    for path in folder.glob("**/*.md"):
        below = path.relative_to(folder)
        path.write_text(links.within(path.read_text(), DOCS / below, ROOT))
    (folder / "reference").mkdir()
    for name, text in reference().items():
        (folder / "reference" / name).write_text(text)


def put(built: Path, site: Path) -> None:
    """Put a built site in its place, where an earlier one may be."""
    if site.is_symlink() or (site.exists() and any(site.iterdir()) and not made(site, BY)):
        set_aside(site)
    emptied(site, BY, [path.name for path in built.iterdir()])
    shutil.copytree(built, site, dirs_exist_ok=True)
    closed(site, BY)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="assay-docs-") as name:
        return build(Path(name))


def build(source: Path) -> int:
    """Build the site in an empty folder, and put it in its place. Return the exit status."""
    shutil.copy(CONFIGURATION, source)
    write_pages(source / "pages")
    done = subprocess.run([ZENSICAL, "build", "--strict"], cwd=source, check=False)
    if done.returncode:
        return done.returncode
    built = source / "site"
    problems = links.problems(built)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"the site has {len(problems)} problems", file=sys.stderr)
        return 1
    put(built, SITE)
    print(f"{len(list(SITE.glob('**/*.html')))} pages in {SITE.relative_to(ROOT)}, no broken link")
    return 0


if __name__ == "__main__":
    sys.exit(main())
