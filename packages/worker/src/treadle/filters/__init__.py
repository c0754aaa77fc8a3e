"""The filter language: `status:failed,paused job:@global:tasks:bill ended:<1h -tag:kind=test some text`.

The command line, the dashboard and `Client.list` use it; docs/filters.md explains it to users.

A filter is a list of words with spaces between. A word `key:value` narrows one field, and `-key:value` excludes a
value; all other words together are a text to search for in the id, the job's name, the payload and the error. Quotes
keep spaces and colons in a value: `tag:"k=a b"`, `"status:"`; within them a backslash makes the next character literal.
All parts must match.
"""

from treadle.filters.completion import Known, complete
from treadle.filters.keys import GROUPS, KEYS, Key
from treadle.filters.matching import matches
from treadle.filters.reading import is_relative, parse
from treadle.filters.words import FilterError, FilterWord, words
from treadle.filters.writing import ordered, write

__all__ = [
    "GROUPS",
    "KEYS",
    "FilterError",
    "FilterWord",
    "Key",
    "Known",
    "complete",
    "is_relative",
    "matches",
    "ordered",
    "parse",
    "words",
    "write",
]
