"""Parts of the page: a section with its heading, and a figure with its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mercer.report.markup import Html, folded, joined, tag

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it. There is always something: a reason where there is no result."""

    id: str
    title: str
    parts: Sequence[Any]

    def html(self) -> Html:
        """As it stands in the page."""
        heading = tag("h2", self.title, id=f"{self.id}-title")
        inside = joined(self.parts)
        return tag("section", heading, inside, id=self.id, aria_labelledby=f"{self.id}-title")


def figure(
    picture: Any, caption: Any, *, id_: str, numbers: Html | None = None, class_: str | None = None
) -> Html:
    """A picture, what it shows in words, and its numbers for who wants them."""
    words = tag("figcaption", caption, id=f"{id_}-words")
    table = None if numbers is None else folded("The numbers of this picture", numbers)
    shown = tag("div", picture, class_="picture")
    return tag("figure", shown, words, table, id=id_, class_=class_)


def described(id_: str) -> str:
    """The id of the words of a figure, for the picture to point at."""
    return f"{id_}-words"


def tiles(facts: Sequence[tuple[str, str, str]]) -> Html:
    """Key figures: the number large, what it is, and a remark."""
    cells = [
        tag(
            "div",
            tag("dt", what),
            tag("dd", tag("b", value), tag("span", remark) if remark else None),
        )
        for what, value, remark in facts
    ]
    return tag("dl", *cells, class_="tiles")
