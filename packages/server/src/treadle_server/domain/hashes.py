"""The numbers that stand for words, whenever and wherever they are made: signed, of 64 bits, as both databases keep."""

from hashlib import blake2b


def hashed(*words: object) -> int:
    """Return the number of these words, in their order."""
    text = "\0".join(map(str, words)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)
