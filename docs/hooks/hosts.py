"""Keeps the site to itself: no page loads anything from another host, and diagrams are drawn by its own Mermaid."""

import logging
import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

MERMAID = "javascripts/mermaid.min.js"
LOADED = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*\bsrc="?((?:https?:)?//[^\s">]+)|<link\b[^>]*\bhref="?(https?:[^\s">]+)'
)

logger = logging.getLogger("mkdocs.hooks.hosts")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add Mermaid, which `nox -s docs` has fetched to where `TREADLE_DOCS_MERMAID` says."""
    if path := os.environ.get("TREADLE_DOCS_MERMAID"):
        files.append(File.generated(config, MERMAID, abs_src_path=str(Path(path).resolve())))
    else:
        logger.warning("without TREADLE_DOCS_MERMAID another host's script would draw the diagrams: take nox -s docs")
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Have pages with a diagram load Mermaid before the theme looks for it; warn of what comes from elsewhere."""
    for match in LOADED.finditer(output):
        logger.warning("%s loads from another host: %s", page.file.src_uri, match[1] or match[2])
    if 'class="mermaid"' not in output:
        return output
    return output.replace("</head>", f'<script src="{get_relative_url(MERMAID, page.url)}"></script></head>', 1)
