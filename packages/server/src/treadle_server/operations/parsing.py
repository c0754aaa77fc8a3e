"""Parses strict JSON; values that can't be read become `Unread`.

So a request with a number of 5,000 digits, half a surrogate pair or a thousand levels can still be divided into its
items, and only the item in question is refused. Ordinary text is read by pydantic's parser alone.
"""

import asyncio
import gc
import json
import re
from typing import Any

import pydantic_core

from treadle.wire.values import (
    MOST_DIGITS,
    MOST_VALUES,
    NOT_FINITE,
    REQUEST_LEVELS,
    TOO_LONG,
    Unread,
    has_too_many,
)
from treadle_server.errors import PayloadTooLarge

LARGE = 1024 * 1024
"""Above this many characters values are counted, and text for the slow parser is read in a thread."""

TOO_MANY = f"more than {MOST_VALUES:,} values and names in one request; split it, or send them as a text or an artifact"
"""The error for a request with too many values."""

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]+|[\]}]+', re.DOTALL)


class NotJson(ValueError):
    """The text is not JSON."""


async def parse(raw: bytes | str) -> Any:
    """Return the JSON value, unchecked, with `Unread` for the parts that can't be read.

    Raises `NotJson` or `PayloadTooLarge`.
    """
    if len(raw) > LARGE:
        if has_too_many(raw if isinstance(raw, bytes) else raw.encode()):
            raise PayloadTooLarge(TOO_MANY)
        await asyncio.sleep(0)
    try:
        value = _read_strictly(raw) if len(raw) <= LARGE else _read_large(raw)
    except ValueError as error:
        why = str(error)[:300]
    else:
        if len(raw) > LARGE:
            # Let other requests have a turn: a million values take a tenth of a second, and as long again to check.
            await asyncio.sleep(0)
        return value
    return await asyncio.to_thread(_read, raw, why) if len(raw) > LARGE else _read(raw, why)


def _read_strictly(raw: bytes | str) -> Any:
    # With the cache of strings, a million different names take twice as long.
    return pydantic_core.from_json(raw, allow_inf_nan=False, cache_strings="none" if len(raw) > LARGE else "keys")


def _read_large(raw: bytes | str) -> Any:
    """Read without the garbage collector, as JSON has no cycles: with it, 15 MB of objects took three times as long."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        return _read_strictly(raw)
    finally:
        if is_on:
            gc.enable()


def _read(raw: bytes | str, why: str) -> Any:
    """Read a text that pydantic's parser refused with `why`."""
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        try:
            return _DECODER.decode(text)
        except RecursionError:
            return _DECODER.decode(_cut(text))
    except ValueError:
        raise NotJson(_written_otherwise(raw) or why) from None


def _written_otherwise(raw: bytes | str) -> str | None:
    """Return what is wrong with the encoding of a text that is not JSON; None if that is not why."""
    if isinstance(raw, str):
        raw = raw[:1].encode(errors="replace")
    found = json.detect_encoding(raw)
    if found == "utf-8-sig":
        return "it begins with a byte order mark; send UTF-8 without one"
    if found != "utf-8":
        return f"it looks like {found[:6].upper()}; send UTF-8"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"it is not valid UTF-8 from byte {error.start} on; send UTF-8"
    return None


def _integer(digits: str) -> int | Unread:
    return int(digits) if len(digits) - digits.startswith("-") <= MOST_DIGITS else Unread(TOO_LONG)


_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=lambda _: Unread(NOT_FINITE))


def _cut(text: str) -> str:
    """Return the text with a 0 in place of every array or object deeper than `REQUEST_LEVELS`.

    That leaves more levels than any value may have, so that the value is refused as too deep.
    """
    parts: list[str] = []
    depth = kept_from = 0
    is_cut = False
    for token in _TOKEN.finditer(text):
        first, length = text[token.start()], token.end() - token.start()
        if first in "[{":
            if not is_cut and depth + length > REQUEST_LEVELS:
                parts += text[kept_from : token.start() + REQUEST_LEVELS - depth], "0"
                is_cut = True
            depth += length
        elif first != '"':
            if is_cut and depth - length <= REQUEST_LEVELS:
                kept_from = token.start() + depth - REQUEST_LEVELS
                is_cut = False
            depth -= length
    # An unclosed array or object is not JSON, and fails because its end is missing.
    return "".join(parts) if is_cut else "".join([*parts, text[kept_from:]])
