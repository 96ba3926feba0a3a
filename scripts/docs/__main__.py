"""Build the documentation site into .build/docs, and fail on any warning, broken link or request to another host.

The pages of docs/ are copied into .build/docs-source, where the generated reference joins them. The site is moved into
place only if it is sound.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from trainer_node.made import check, emptied, mark, removed

from . import code, commands, contracts, links, python

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
CONFIGURATION = Path(__file__).parent / "zensical.toml"
SOURCE = ROOT / ".build/docs-source"
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


def main() -> int:
    check(SITE, BY)
    emptied(SOURCE, BY)
    shutil.copy(CONFIGURATION, SOURCE)
    write_pages(SOURCE / "pages")
    done = subprocess.run([ZENSICAL, "build", "--strict"], cwd=SOURCE, check=False)
    if done.returncode:
        return done.returncode
    built = SOURCE / "site"
    problems = links.problems(built)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"the site has {len(problems)} problems", file=sys.stderr)
        return 1
    removed(SITE, BY)
    mark(built, BY)
    built.rename(SITE)
    print(f"{len(list(SITE.glob('**/*.html')))} pages in {SITE.relative_to(ROOT)}, no broken link")
    return 0


if __name__ == "__main__":
    sys.exit(main())
