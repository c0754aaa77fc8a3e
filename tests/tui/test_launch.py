"""What the command line, the environment and the configuration file say together."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tui.config_file import FILE, WHOLE
from treadle.transport.bearer import Way
from treadle_tui.cli import watch
from treadle_tui.core.setup.config import ConfigError, parse_config
from treadle_tui.launch import LaunchOptions, bearer_for, chosen_server, dashboard


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_config(WHOLE, FILE)
    monkeypatch.delenv("TREADLE_URL", raising=False)

    assert chosen_server(LaunchOptions(), config).name == "prod"
    assert chosen_server(LaunchOptions(context="my lab"), config).name == "my lab"
    assert chosen_server(LaunchOptions(url="http://other:1"), config).urls == ("http://other:1",)
    monkeypatch.setenv("TREADLE_URL", "http://env:1")
    assert chosen_server(LaunchOptions(), config).urls == ("http://env:1",)
    assert chosen_server(LaunchOptions(context="prod"), config).urls == ("https://queue.example",)
    with pytest.raises(ConfigError, match="can't be used together"):
        chosen_server(LaunchOptions(context="prod", url="http://x"), config)


def test_the_local_servers_token_is_not_sent_to_every_server_that_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path))
    (tmp_path / "token").write_text("local-superuser\n")
    (tmp_path / "prod.token").write_text("for-prod\n")
    config = parse_config(
        '[contexts.a]\nurl = "https://192.0.2.1"\n[contexts.b]\nurl = "http://127.0.0.1:1"\n'
        '[contexts.c]\nurl = "https://c"\ntoken_file = "prod.token"\n',
        tmp_path / "tui.toml",
    )

    tokens = {
        name: bearer_for(server, LaunchOptions()).ways_now(server.urls[0])[0]
        for name, server in config.contexts.items()
    }

    assert {name: way.token for name, way in tokens.items()} == {"a": None, "b": "local-superuser", "c": "for-prod"}
    assert "set TREADLE_TOKEN" in (tokens["a"].withheld or "")
    by_hand = bearer_for(config.contexts["c"], LaunchOptions(token="by-hand"))
    assert by_hand.ways_now("https://c") == [Way("https://c", "by-hand")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "prod.token: No such file"),
        ("\n", "prod.token: the file is empty"),
        ("one-secret\nanother-secret\n", "prod.token is not a token: it contains a space, a line break"),
    ],
)
def test_a_token_file_without_a_token_is_an_error_before_the_screen_is_up_and_no_secret_is_told(
    content: str | None, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "tui.toml"
    file.write_text('[contexts.c]\nurl = "http://127.0.0.1:1"\ntoken_file = "prod.token"\n')
    if content is not None:
        (tmp_path / "prod.token").write_text(content)

    result = CliRunner().invoke(watch, ["--config", str(file), "--context", "c", "--json"])

    assert result.exit_code == 2
    assert says in result.output
    assert "secret" not in result.output


def test_contexts_are_listed_with_what_is_to_be_known_of_them(tmp_path: Path) -> None:
    file = tmp_path / "tui.toml"
    file.write_text(WHOLE)

    result = CliRunner().invoke(watch, ["--contexts"], env={"TREADLE_TUI_CONFIG": str(file)})

    assert result.exit_code == 0
    assert "prod             https://queue.example  (production, read_only, default)" in result.output
    assert "my lab           http://127.0.0.1:7420, http://127.0.0.1:7421" in result.output


def test_a_theme_that_there_is_not_is_a_usage_error() -> None:
    result = CliRunner().invoke(watch, ["--theme", "purple"])

    assert result.exit_code == 2
    assert "colourblind" in result.output


def test_keys_are_printed_as_they_are_mapped(tmp_path: Path) -> None:
    file = tmp_path / "tui.toml"
    file.write_text('[keys]\nfilter = "f3"\n')

    result = CliRunner().invoke(watch, ["--config", str(file), "--keys"])

    assert "| `f3` | `:filter [FILTER]` |" in result.output


@pytest.mark.parametrize(
    ("encoding", "locale", "term", "is_ascii"),
    [
        ("utf-8", "C.UTF-8", "xterm", False),
        ("UTF8", "de_DE.UTF-8", "xterm", False),
        ("utf-8", "", "vt220", False),
        ("latin-1", "de_DE", "xterm", True),
        ("ascii", "C", "xterm", True),
        # As Python opens it: in UTF-8, whatever the locale.
        ("utf-8", "C", "xterm", True),
        ("utf-8", "POSIX", "xterm", True),
        ("utf-8", "C.UTF-8", "linux", True),
        (None, "C", "linux", False),
    ],
)
def test_8_a_terminal_that_has_not_every_character_is_drawn_on_in_ascii(
    encoding: str | None, locale: str, term: str, *, is_ascii: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_TOKEN", "a")
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.setenv("TERM", term)
    (config := tmp_path / "tui.toml").touch()
    terminal, other_end = os.openpty()
    # None: a pipe, as that of a browser's dashboard.
    handle = os.open(os.devnull, os.O_WRONLY) if encoding is None else terminal

    with os.fdopen(handle, "w", encoding=encoding or "ascii") as out:
        monkeypatch.setattr("sys.__stdout__", out)
        app = dashboard(LaunchOptions(config=config))
    for left in {terminal, other_end} - {handle}:
        os.close(left)

    assert app._ascii_only is is_ascii
