"""What is said of a store of artifacts that is asked in the server's place, and of the way there."""

import re

import httpx

from treadle.errors import ConnectionFailed, ConnectionLost, ProblemError, error_for, problem_named

SETTING = "AWS_ENDPOINT_URL"
"""What says where a bucket is, of the server's."""

_SAID = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)")
"""A refusal in XML: its code, and a sentence. What comes after that names the one request."""

_TOO_SLOW = "RequestTimeout"
"""S3's word for a connection on which nothing came for a while, with the status 400."""


def refusal(answer: httpx.Response, what: str) -> ProblemError | ConnectionFailed:
    """Return what to raise for a bucket's answer: `Forbidden`, `ArtifactNotFound`, or that it can't now."""
    where = f"{answer.request.method} {answer.url.netloc.decode()} answers {answer.status_code}"
    found = _SAID.search(answer.text)
    if answer.status_code >= 500 or answer.status_code in {408, 429} or (found and found[1] == _TOO_SLOW):
        return ConnectionFailed(where)
    said = ": ".join(found.groups()) if found else answer.text[:300]
    kind = "artifact-not-found" if found and found[1] == "NoSuchKey" else "forbidden"
    return error_for(problem_named(kind, f"the bucket refuses the {what}: {where}: {said}"))


def broken(what: str, url: httpx.URL, error: httpx.RequestError, setting: str) -> ConnectionLost:
    """Return what to raise for a connection to where the server says that files are."""
    said = str(error) or type(error).__name__
    advice = f"; the server says that files are there: its {setting} is what says otherwise"
    is_elsewhere = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    return ConnectionLost(f"{what} {url.netloc.decode()} broke ({said}){advice if is_elsewhere else ''}")
