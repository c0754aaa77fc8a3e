"""Errors from a store of artifacts that is used directly, and from the connection to it."""

import re

import httpx

from treadle.errors import ConnectionFailed, ConnectionLost, ProblemError, error_for, problem_named

SETTING = "AWS_ENDPOINT_URL"
"""The server's setting for where a bucket is."""

_SAID = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)")
"""A refusal in XML: its code and a sentence; the rest of it identifies the single request."""

_TOO_SLOW = "RequestTimeout"
"""S3's code, with the status 400, for a connection on which nothing arrived for a while."""


def refusal(answer: httpx.Response, what: str) -> ProblemError | ConnectionFailed:
    """Return the error for a bucket's answer: `Forbidden`, `ArtifactNotFound`, or `ConnectionFailed` if it may pass."""
    where = f"{answer.request.method} {answer.url.netloc.decode()} answers {answer.status_code}"
    found = _SAID.search(answer.text)
    if answer.status_code >= 500 or answer.status_code in {408, 429} or (found and found[1] == _TOO_SLOW):
        return ConnectionFailed(where)
    said = ": ".join(found.groups()) if found else answer.text[:300]
    kind = "artifact-not-found" if found and found[1] == "NoSuchKey" else "forbidden"
    return error_for(problem_named(kind, f"the bucket refuses the {what}: {where}: {said}"))


def broken(what: str, url: httpx.URL, error: httpx.RequestError, setting: str) -> ConnectionLost:
    """Return the error for a broken connection to where the server says that files are stored."""
    said = str(error) or type(error).__name__
    advice = f"; the server says that files are there: check its {setting}"
    is_elsewhere = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    return ConnectionLost(f"{what} {url.scheme}://{url.netloc.decode()} broke ({said}){advice if is_elsewhere else ''}")
