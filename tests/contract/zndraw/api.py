"""What zndraw-joblib asks its user for: the connection (its `ApiManager`) and extensions; run in its environment."""

from typing import Any, ClassVar

import httpx
from zndraw_joblib import Category, Extension


def rebase(request: httpx.Request) -> None:
    """Rewrite the base path, the one thing in which the routes differ: `/v1/joblib/…` is `/v1/…` here."""
    path = request.url.raw_path
    assert path.startswith(b"/v1/joblib/"), path
    request.url = request.url.copy_with(raw_path=path.replace(b"/v1/joblib/", b"/v1/", 1))


class Api:
    """The `ApiManager` of a user: maps statuses to exceptions as its protocol demands."""

    def __init__(self, base_url: str, token: str) -> None:
        self.http = httpx.Client(timeout=30, event_hooks={"request": [rebase]})
        self.base_url = base_url
        self._token = token

    def get_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def raise_for_status(self, response: httpx.Response) -> None:
        match response.status_code:
            case 404:
                raise KeyError(response.text)
            case 401 | 403:
                raise PermissionError(response.text)
            case 409 | 422:
                raise ValueError(response.text)
        response.raise_for_status()


class Rotate(Extension):
    category: ClassVar[Category] = Category.MODIFIER
    angle: float = 0.0
    axis: str = "z"

    def run(self, vis: Any, **kwargs: Any) -> str:
        return f"{self.angle:g} about {self.axis}"


class Measure(Extension):
    category: ClassVar[Category] = Category.ANALYSIS
    atoms: list[int]

    def run(self, vis: Any, **kwargs: Any) -> str:
        if not self.atoms:
            raise ValueError("no atoms to measure")
        return str(sum(self.atoms))


EXTENSIONS: dict[str, type[Extension]] = {"Rotate": Rotate, "Measure": Measure}


def rotate_anew() -> type[Extension]:
    """Return a `Rotate` with another schema, as a newer version of the program would have."""

    class Rotate(Extension):
        category: ClassVar[Category] = Category.MODIFIER
        degrees: int

        def run(self, vis: Any, **kwargs: Any) -> None: ...

    return Rotate
