"""A list with a cursor that follows its row by key, however the order around it changes."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

Row = TypeVar("Row")


class Rows(Generic[Row]):
    """The loaded rows of a longer list, and a cursor, both by key.

    When the highlighted row leaves the list, a tombstone takes its place until the cursor moves, so that the next key
    press can't hit a row that slipped under the cursor.
    """

    def __init__(self) -> None:
        self.keys: Sequence[str] = ()
        self.rows: Mapping[str, Row] = {}
        self.offset = 0
        self.total = 0
        self.cursor: str | None = None
        self.index = 0
        """Where the cursor is, or was when its row was last seen."""
        self.tombstone: Row | None = None
        """The highlighted row as it was when it left the list."""
        self.pinned = False
        """Whether the user has moved the cursor; until then it stays on the first row, whichever that is."""
        self._last: Row | None = None
        self._places: dict[str, int] = {}

    # Updates from the model.

    def reset(self) -> None:
        """Prepare for another list: the cursor goes to its first row."""
        self.keys, self.rows, self._places, self.offset, self.total = (), {}, {}, 0, 0
        self.cursor, self.index, self.tombstone, self._last, self.pinned = None, 0, None, None, False

    def update(
        self, keys: Sequence[str], rows: Mapping[str, Row], *, offset: int = 0, total: int | None = None
    ) -> None:
        """Replace the loaded rows."""
        self.keys, self.rows, self.offset = keys, rows, offset
        self.total = len(keys) if total is None else max(total, offset + len(keys) if keys else 0)
        self._places = {key: offset + place for place, key in enumerate(keys)}
        if not self.pinned:
            self.cursor, self.index, self.tombstone = None, 0, None
        if self.cursor is None:
            self._take_cursor()
        elif self.cursor in self._places:
            self.tombstone = None
            self.index = self._places[self.cursor]
            self._last = rows[self.cursor]
        elif self.tombstone is not None or self._should_be_here():
            self.tombstone = self._last
            self.index = min(self.index, self.total)

    def _should_be_here(self) -> bool:
        at_end = self.offset + len(self.keys) >= self.total
        return self.offset <= self.index and (at_end or self.index < self.offset + len(self.keys))

    # Moves of the user.

    def pin(self) -> None:
        """Keep the cursor on its row from now on, because the user's keys act on it."""
        self.pinned = True

    def unpin(self) -> None:
        """Keep the cursor on the first row from now on, whichever that is."""
        self.pinned = False
        self.cursor, self.index, self.tombstone = None, 0, None
        self._take_cursor()

    def go(self, index: int) -> None:
        """Move the cursor to the row nearest to `index`; rows after a tombstone come one line later."""
        self.pinned = True
        if self.tombstone is not None and index != self.index:
            index -= index > self.index
            self.tombstone = None
        elif self.tombstone is not None:
            return
        self.index = max(0, min(index, self.total - 1))
        self.cursor = None
        self._take_cursor()

    def remember(self, row: Row) -> None:
        """Update the tombstone to what is now known of its row."""
        if self.tombstone is not None:
            self.tombstone = row

    def find(self, key: str) -> bool:
        """Move the cursor to a row by its key; return whether it is loaded."""
        if key not in self._places:
            return False
        self.go(self._places[key])
        return True

    # What is drawn and acted on.

    @property
    def count(self) -> int:
        """The number of lines, including a tombstone."""
        return self.total + (self.tombstone is not None)

    def key_at(self, index: int) -> str | None:
        """Return the key in a line; None if it is not loaded, or is the tombstone."""
        if self.tombstone is not None:
            if index == self.index:
                return None
            index -= index > self.index
        place = index - self.offset
        return self.keys[place] if 0 <= place < len(self.keys) else None

    def row_at(self, index: int) -> Row | None:
        """Return the row in a line, which for the tombstone is as last seen; None if it is not loaded."""
        if self.tombstone is not None and index == self.index:
            return self.tombstone
        key = self.key_at(index)
        return None if key is None else self.rows[key]

    def is_cursor(self, index: int) -> bool:
        """Return whether the cursor is in a line, never in one that holds a different row."""
        if self.count == 0 or index != self.index:
            return False
        return self.tombstone is not None or self.cursor is None or self.key_at(index) in {None, self.cursor}

    @property
    def highlighted(self) -> Row | None:
        """The row that keys act on; None if there is none, or only its tombstone."""
        return None if self.tombstone is not None or self.cursor is None else self._last

    def _take_cursor(self) -> None:
        key = self.key_at(self.index)
        if key is not None:
            self.cursor, self._last = key, self.rows[key]
        elif self.keys and self.index >= self.total:
            self.go(self.total - 1)
