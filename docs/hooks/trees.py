"""Keeps trees that docstrings draw as they are drawn: in a page's paragraphs their lines would run together."""

from typing import Any

import griffe


class Trees(griffe.Extension):
    """Puts each paragraph with a tree into a fence."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Look at an object's docstring."""
        if obj.docstring is not None and "──" in obj.docstring.value:
            obj.docstring.value = "\n\n".join(map(fenced, obj.docstring.value.split("\n\n")))


def fenced(paragraph: str) -> str:
    """Return a paragraph, in a fence when it is a tree."""
    return f"```text\n{paragraph}\n```" if "──" in paragraph else paragraph
