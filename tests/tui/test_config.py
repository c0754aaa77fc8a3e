"""The configuration file: themes, keys and contexts; what is wrong in it is said with its line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.transport.bearer import Way
from treadle_tui.cli import watch
from treadle_tui.core.actions import ACTIONS, BY_NAME
from treadle_tui.core.config import ConfigError, parse_config, read_config
from treadle_tui.core.keymap import KeymapError, read_keymap
from treadle_tui.core.shell import Shell
from treadle_tui.launch import Wishes, bearer_for, chosen_place

from .mock import FrozenClock, MockServer
from .stage import dashboard, settle

FILE = Path("/home/mara/.config/treadle/tui.toml")

WHOLE = """\
theme = "light"
ascii = true
context = "prod"

[keys]
pause = "f5"
resume = ["f6", "R"]
report = "?"
help = "f1"

[contexts.prod]
url = "https://queue.example"
token_file = "prod.token"
room = "lab"
read_only = true
production = true

[contexts."my lab"]
url = "http://127.0.0.1:7420,http://127.0.0.1:7421"
"""


def test_a_whole_file_says_all_of_it() -> None:
    config = parse_config(WHOLE, FILE)

    assert (config.theme, config.ascii_only, config.context) == ("light", True, "prod")
    assert config.keymap.own == {"pause": "f5", "resume": "f6,R", "report": "question_mark", "help": "f1"}
    prod, lab = config.contexts.values()
    assert (prod.urls, prod.room, prod.read_only, prod.production) == (("https://queue.example",), "lab", True, True)
    assert prod.token_file == FILE.parent / "prod.token"
    assert (lab.name, lab.urls) == ("my lab", ("http://127.0.0.1:7420", "http://127.0.0.1:7421"))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('theme = "dark', 1, "at its end: unterminated string"),
        ('\ntheme = "purple"', 2, "write one of dark, light, contrast"),
        ('theme = "dark"\nthema = "x"', 2, 'there is no setting "thema": write one of theme, ascii'),
        ("ascii = 1", 1, "ascii must be true or false"),
        ('[keys]\npause = "f5"\npuase = "f6"', 3, 'there is no action "puase"; do you mean "pause"?'),
        ('[keys]\npause = "r"', 2, 'would both have the key "r" in tasks: give one of them another'),
        ('[keys]\npause = "frob"', 2, 'there is no key "frob"'),
        ("[keys]\npause = 5", 2, 'a key is a text, as pause = "f5"'),
        ("[contexts.prod]\nread_only = true", 1, "the context prod has no url"),
        ('[contexts.prod]\nurl = "ftp://x"', 2, "is no server's address"),
        ('[contexts.prod]\nurl = "http://x"\ncolour = "red"', 3, 'there is no setting "colour"'),
        ('[contexts.prod]\nurl = "http://x"\nproduction = "yes"', 3, "production must be true or false"),
        ('[contexts]\nprod = "http://x"', 2, "write it as a table: [contexts.prod]"),
        ('context = "prod"', 1, 'there is no context "prod": there is no table'),
        ('context = "prod"\n[contexts.lab]\nurl = "http://x"', 1, "it is one of lab"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_what_to_mend(text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, FILE)

    assert str(caught.value).startswith(f"{FILE}")
    assert f"line {line}" in str(caught.value)
    assert says in str(caught.value)


def test_without_a_file_everything_is_as_usual_unless_one_was_named(tmp_path: Path) -> None:
    usual = read_config(tmp_path / "none.toml", must_exist=False)

    assert (usual.theme, usual.contexts, usual.keymap.own) == (None, {}, {})
    with pytest.raises(ConfigError, match="there is no such file"):
        read_config(tmp_path / "none.toml", must_exist=True)


def test_every_key_of_the_registry_can_be_written_in_a_keymap() -> None:
    for action in ACTIONS:
        if action.key:
            assert read_keymap({action.name: action.key.split(",")}).keys(action) == action.key


@pytest.mark.parametrize(
    ("written", "key"),
    [("^k", "ctrl+k"), ("ctrl+]", "ctrl+right_square_bracket"), ("'", "apostrophe"), ("ü", "ü"), ("del", "delete")],
)
def test_keys_are_written_as_people_know_them(written: str, key: str) -> None:
    assert read_keymap({"seek": written}).keys(BY_NAME["seek"]) == key


def test_a_key_that_works_everywhere_clashes_with_one_of_any_pane() -> None:
    with pytest.raises(KeymapError, match='both have the key "space" in tasks'):
        read_keymap({"seek": " "})


def test_two_actions_may_swap_their_keys() -> None:
    keymap = read_keymap({"pause": "r", "resume": "p"})

    assert (keymap.cap("pause"), keymap.cap("resume"), keymap.cap("pause-queue")) == ("r", "p", "p")


async def test_a_keymap_changes_what_keys_do_and_what_is_said_of_them(server: MockServer, clock: FrozenClock) -> None:
    app = dashboard(server, clock, shell=Shell(keymap=read_keymap({"pause": "r", "resume": "p", "help": "f1"})))
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        await pilot.press("2", "r")
        await settle(pilot)
        assert server.asked[-1]["action"] == "pause"

        footer = app.screen._compositor.render_strips()[-1].text
        assert "r pause" in footer
        assert "f1 help" in footer
        await pilot.press("question_mark")
        assert "Help" not in type(app.screen).__name__
        await pilot.press("f1")
        assert type(app.screen).__name__ == "Help"


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_config(WHOLE, FILE)
    monkeypatch.delenv("TREADLE_URL", raising=False)

    assert chosen_place(Wishes(), config).name == "prod"
    assert chosen_place(Wishes(context="my lab"), config).name == "my lab"
    assert chosen_place(Wishes(url="http://other:1"), config).urls == ("http://other:1",)
    monkeypatch.setenv("TREADLE_URL", "http://env:1")
    assert chosen_place(Wishes(), config).urls == ("http://env:1",)
    assert chosen_place(Wishes(context="prod"), config).urls == ("https://queue.example",)
    with pytest.raises(ConfigError, match="give one of them"):
        chosen_place(Wishes(context="prod", url="http://x"), config)


def test_the_local_servers_token_is_not_sent_to_every_server_that_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path))
    (tmp_path / "token").write_text("local superuser\n")
    (tmp_path / "prod.token").write_text("for prod\n")
    config = parse_config(
        '[contexts.a]\nurl = "https://192.0.2.1"\n[contexts.b]\nurl = "http://127.0.0.1:1"\n'
        '[contexts.c]\nurl = "https://c"\ntoken_file = "prod.token"\n',
        tmp_path / "tui.toml",
    )

    tokens = {name: bearer_for(place, Wishes()).ways_now(place.urls[0])[0] for name, place in config.contexts.items()}

    assert {name: way.token for name, way in tokens.items()} == {"a": None, "b": "local superuser", "c": "for prod"}
    assert "set TREADLE_TOKEN" in (tokens["a"].withheld or "")
    by_hand = bearer_for(config.contexts["c"], Wishes(token="by hand"))
    assert by_hand.ways_now("https://c") == [Way("https://c", "by hand")]


def test_a_token_file_that_cannot_be_read_is_an_error_before_the_screen_is_up(tmp_path: Path) -> None:
    file = tmp_path / "tui.toml"
    file.write_text('[contexts.c]\nurl = "https://c"\ntoken_file = "missing"\n')

    result = CliRunner().invoke(watch, ["--config", str(file), "--context", "c", "--json"])

    assert result.exit_code == 2
    assert "missing: No such file" in result.output


def test_contexts_are_listed_with_what_is_to_be_known_of_them(tmp_path: Path) -> None:
    file = tmp_path / "tui.toml"
    file.write_text(WHOLE)

    result = CliRunner().invoke(watch, ["--contexts"], env={"TREADLE_TUI_CONFIG": str(file)})

    assert result.exit_code == 0
    assert "prod             https://queue.example  (production, read_only, the first one)" in result.output
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
