"""Django: a middleware opens a client in each of the server's processes, and views submit with `submit_sync`.

Run `treadle worker examples.hello` and `python -m examples.with_django runserver`, then
`curl -X POST localhost:8000/hello/Ann`. In your own project, put the client and `connected` into a module of their own,
and name `connected` in `MIDDLEWARE`.
"""

import sys
from collections.abc import Callable
from secrets import token_hex
from uuid import UUID

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from examples.hello import hello

from treadle import SyncClient, current_client
from treadle.errors import TaskNotFound

client = SyncClient()  # does not connect yet: gunicorn may fork after this


def connected(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Django calls this for each handler, and each of its test `Client`s has one, so the client is created above."""

    def middleware(request: HttpRequest) -> HttpResponse:
        client.open()  # does nothing if it is already open
        return get_response(request)

    return middleware


def submit(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse(hello.submit_sync(name).id)


async def submit_async(request: HttpRequest, name: str) -> HttpResponse:
    """Async views find the same client, whichever event loop Django runs them in."""
    return HttpResponse((await hello.submit(name)).id)


async def result(request: HttpRequest, task_id: UUID) -> HttpResponse:
    try:
        return HttpResponse(await current_client().handle(str(task_id)).result(timeout=30))
    except TaskNotFound:
        raise Http404("there is no such task") from None


urlpatterns = [path("hello/<name>", submit), path("async/<name>", submit_async), path("result/<uuid:task_id>", result)]

settings.configure(
    ALLOWED_HOSTS=["*"], MIDDLEWARE=[f"{__name__}.connected"], ROOT_URLCONF=__name__, SECRET_KEY=token_hex()
)
django.setup()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
