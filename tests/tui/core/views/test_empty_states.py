"""What empty panes say to type is what the commands take."""

import shlex

import httpx
import pytest
from click.testing import CliRunner

from treadle.cli.group import treadle
from treadle_server.testing import serve_in_thread
from treadle_tui.core.views.empty_states import HINTS


def test_what_an_empty_pane_says_to_type_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The submits were refused: '{}' is no KEY=VALUE."""
    with serve_in_thread() as served, httpx.Client(base_url=served.url, headers=served.headers) as http:
        for name in ("shoot", "clean"):
            job = {"category": "tasks", "name": name, "schema": {}, "retain": True}
            http.put("/v1/rooms/@global/jobs", json=job).raise_for_status()
        monkeypatch.setenv("TREADLE_URL", served.url)
        monkeypatch.setenv("TREADLE_TOKEN", served.token or "")
        for _, line in HINTS.values():
            done = CliRunner().invoke(treadle, shlex.split(line)[1:])
            assert done.exit_code == 0, (line, done.output)
