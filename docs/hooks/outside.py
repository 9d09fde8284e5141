"""Files outside docs/ that pages link to (results, examples, the change log) become part of the site.

Pages keep the links that work on a code host, ``../results/table1.json``; here they are changed to where the
file stands in the site, which holds a copy.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ALWAYS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # in the navigation
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)#\s:]+)(?P<after>[)#])")


def in_checkout(site_path: str, root: Path) -> str:
    """Where a file of the site is in the checkout: the site's root is docs/, then the checkout itself."""
    return f"docs/{site_path}" if (root / "docs" / site_path).exists() else site_path


def targets(text: str, page: str, root: Path) -> dict[str, str]:
    """Links of a page to files of the checkout, and what they are called in the site."""
    names = {}
    folder = posixpath.dirname(in_checkout(page, root))
    for match in LINK.finditer(text):
        path = posixpath.normpath(posixpath.join(folder, match["target"]))
        if (root / path).is_file():
            names[match["target"]] = path.removeprefix("docs/")
    return names


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    waiting = [*ALWAYS, *(file.src_uri for file in files.documentation_pages())]
    seen = set()
    while waiting:  # pages outside docs/ link to files outside docs/, too
        uri = waiting.pop()
        path = root / in_checkout(uri, root)
        if uri in seen or not path.exists():  # pages of the gallery are made by another hook
            continue
        seen.add(uri)
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
        if uri.endswith(".md"):
            waiting += targets(path.read_text(encoding="utf-8"), uri, root).values()
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    root = Path(config.config_file_path).parent
    known = targets(markdown, page.file.src_uri, root)
    here = posixpath.dirname(page.file.src_uri)

    def site_link(match: re.Match[str]) -> str:
        target = match["target"]
        if target in known:
            target = posixpath.relpath(known[target], here or ".")
        return match["before"] + target + match["after"]

    return LINK.sub(site_link, markdown)
