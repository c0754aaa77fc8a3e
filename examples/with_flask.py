"""Flask: each of the server's processes opens its own client at its first request.

Run `treadle worker examples.hello` and `flask --app examples.with_flask run`, then
`curl -X POST localhost:5000/hello/Ann`.
"""

from uuid import UUID

from examples.hello import hello
from flask import Flask, abort

from treadle import SyncClient
from treadle.errors import TaskNotFound

app = Flask(__name__)
client = SyncClient()  # does not connect yet: gunicorn may fork after this


@app.before_request
def connect() -> None:
    client.open()  # does nothing if it is already open


@app.post("/hello/<name>")
def submit(name: str) -> str:
    return hello.submit_sync(name).id


@app.get("/result/<uuid:task_id>")
def result(task_id: UUID) -> str:
    try:
        return str(client.handle(str(task_id)).result(timeout=30))
    except TaskNotFound:
        abort(404)
