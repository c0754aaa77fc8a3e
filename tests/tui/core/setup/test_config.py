"""The configuration file: themes, keys and contexts; what is wrong in it is said with its line."""

import pwd
import re
import tomllib
from pathlib import Path

import pytest

from tests.tui.config_file import FILE, WHOLE
from treadle_tui.core.setup.config import _CONTEXT, _ROOT, ConfigError, default_path, parse_config, read_config


def test_a_whole_file_says_all_of_it() -> None:
    config = parse_config(WHOLE, FILE)

    assert (config.theme, config.ascii_only, config.context) == ("light", True, "prod")
    assert config.keymap.own == {"pause": "f5", "resume": "f6,R", "report": "question_mark", "help": "f1"}
    assert config.views == {"mine": "tag:user=ann -status:done", "slow ones": "duration:>1h"}
    assert (config.notify, config.trace_url) == ("osc9", "https://traces.example/trace/{trace_id}")
    prod, lab = config.contexts.values()
    assert (prod.urls, prod.room, prod.read_only, prod.production) == (("https://queue.example",), "lab", True, True)
    assert prod.token_file == FILE.parent / "prod.token"
    assert (lab.name, lab.urls) == ("my lab", ("http://127.0.0.1:7420", "http://127.0.0.1:7421"))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('theme = "dark', 1, "at its end: unterminated string"),
        ('\ntheme = "purple"', 2, "use one of dark, light, contrast"),
        ('theme = "dark"\nthema = "x"', 2, 'unknown setting "thema": use one of theme, ascii'),
        ("ascii = 1", 1, "ascii must be true or false"),
        (
            '[contexts.a]\nurl = "http://h"\ntoken_file = "a\\u0000"',
            3,
            "contains a NUL character, which no file name can",
        ),
        ('[keys]\npause = "f5"\npuase = "f6"', 3, 'unknown action "puase": did you mean "pause"?'),
        ('[keys]\npause = "r"', 2, 'both use the key "r" in tasks: change one of them'),
        ('[keys]\npause = "frob"', 2, 'unknown key "frob"'),
        ("[keys]\npause = 5", 2, 'write a key as a string, such as pause = "f5"'),
        ("[contexts.prod]\nread_only = true", 1, "the context prod has no url"),
        ('[contexts.prod]\nurl = "ftp://x"', 2, "is not a server's address"),
        ('[contexts.prod]\nurl = "http://x"\ncolour = "red"', 3, 'unknown setting "colour"'),
        ('[contexts.prod]\nurl = "http://x"\nproduction = "yes"', 3, "production must be true or false"),
        ('[contexts]\nprod = "http://x"', 2, "write it as a table: [contexts.prod]"),
        ('[views]\nmine = "satus:failed"', 2, 'mine: there is no "satus:"; did you mean status:?'),
        ("[views]\nmine = 5", 2, 'mine must be a string, such as "…"'),
        ('notify = "mail"', 1, 'invalid notify "mail": use one of off, bell, osc9, osc777'),
        ('trace_url = "https://x/trace"', 1, "must be a URL that contains {trace_id}"),
        ('trace_url = "file:///{trace_id}"', 1, "must be a URL that contains {trace_id}"),
        ('context = "prod"', 1, 'unknown context "prod": there is no table'),
        ('ascii = true\n[context.a]\nurl = "http://x"', 2, "unknown table [context.a]: write [contexts.a]"),
        ('[context]\nurl = "http://x"', 1, "unknown table [context.NAME]: write [contexts.NAME]"),
        ('[view]\nmine = "status:failed"', 1, "unknown table [view]: write [views]"),
        ('context = "prod"\n[contexts.lab]\nurl = "http://x"', 1, "use one of lab"),
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
    with pytest.raises(ConfigError, match="no such file"):
        read_config(tmp_path / "none.toml", must_exist=True)


def test_a_byte_order_mark_that_an_editor_puts_first_is_none_of_it(tmp_path: Path) -> None:
    file = tmp_path / "tui.toml"
    file.write_text('theme = "light"', encoding="utf-8-sig")

    assert read_config(file, must_exist=True).theme == "light"


def test_the_page_shows_a_file_with_everything_that_one_can_say_and_it_is_taken() -> None:
    page = (Path(__file__).parents[4] / "docs" / "dashboard.md").read_text()
    [text] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)

    assert parse_config(text, FILE).context == "lab"
    assert set(_ROOT) == set(tomllib.loads(text))
    assert set(_CONTEXT) == {key for one in tomllib.loads(text)["contexts"].values() for key in one}


def test_a_tokens_file_of_a_user_who_is_none_is_a_path_like_any_other() -> None:
    """It ended the dashboard with a traceback."""
    config = parse_config('[contexts.a]\nurl = "http://h"\ntoken_file = "~no-such-user/token"\n', FILE)

    assert config.contexts["a"].token_file == FILE.parent / "~no-such-user/token"


def test_a_user_without_a_home_has_no_file_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the dashboard with a traceback."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)

    assert read_config(default_path(), must_exist=False).contexts == {}
