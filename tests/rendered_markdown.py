"""Markdown as a code host shows it: which tags it makes, and what it would be linked to."""

import re
from html import unescape

from markdown_it import MarkdownIt

RENDERED = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_REFERENCE = re.compile(r"[@#](?=[\w-])|![0-9]|GH-[0-9]|https?://\w|www\.\w")


def tags(markdown: str) -> list[str]:
    """The tags in order, without what stands in them."""
    return re.findall(r"</?\w+", RENDERED.render(markdown))


def references(markdown: str) -> list[str]:
    """How the mentions, issues and addresses begin that a reader's text would be searched for."""
    return _REFERENCE.findall(unescape(re.sub(r"<[^>]+>", "", RENDERED.render(markdown))))
