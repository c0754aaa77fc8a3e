"""The filter language: `status:failed,paused job:@global:tasks:bill ended:<1h -tag:kind=test some text`.

The command line, the dashboard and `Client.list` speak it; docs/filters.md says it to people.

A filter is words with spaces between. A word `key:value` narrows one field, `-key:value` means what is not so; all
other words are searched for as one text, part of the id, the job's name, the payload or the error. Quotes keep spaces
and colons in a value: `tag:"k=a b"`, `"status:"`; inside them a backslash takes the next character as it is. Parts
must all hold.
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
