"""Follow every link of the built site to its file and its place in it: python docs/check_site.py FOLDER.

Nothing is fetched. A style sheet, script, picture or font from another machine is a broken link too: the site
has to open offline.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

EMBEDDED = {"script", "img", "iframe", "source", "link"}  # what a browser loads by itself


class Page(HTMLParser):
    """The links of a page, as (tag, address), and the names that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.ids = path, [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag points at, and its own name."""
        given = dict(attrs)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        address = given.get("href") or given.get("src")
        if address and given.get("rel") != "canonical":
            self.links.append((tag, address))


def broken(site: Path) -> tuple[list[str], int, int]:
    """What leads nowhere, the number of pages and the number of links."""
    pages = {
        path.resolve(): Page(path) for path in site.rglob("*.html") if "_static" not in path.parts
    }
    wrong, count = [], 0
    for path, page in pages.items():
        for tag, address in page.links:
            url = urlsplit(address)
            count += 1
            if url.scheme in ("http", "https") or url.netloc:
                if tag in EMBEDDED:
                    wrong.append(f"{path.relative_to(site)}: loads {address}")
                continue
            if url.scheme:
                continue  # mailto: and data:
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.exists():
                wrong.append(f"{path.relative_to(site)}: no file for {address}")
            elif (
                url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids
            ):
                wrong.append(f"{path.relative_to(site)}: no place for {address}")
    return wrong, len(pages), count


if __name__ == "__main__":
    found, n_pages, n_links = broken(Path(sys.argv[1]).resolve())
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{n_pages} pages, {n_links} links, {len(found)} broken")
    sys.exit(bool(found))
