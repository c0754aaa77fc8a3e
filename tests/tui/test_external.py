"""Programs in this terminal, and its clipboard."""

from base64 import b64decode

import pytest

from treadle_tui import external


def test_the_environment_says_which_program_and_a_bad_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert external.program(external.EDITORS, {"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert external.program(external.EDITORS, {"EDITOR": "vi"}) == ["vi"]
    with pytest.raises(external.ExternalError, match="EDITOR can't be read as a command"):
        external.program(external.EDITORS, {"EDITOR": "vi '"})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(external.ExternalError, match="set VISUAL to a program"):
        external.program(external.EDITORS, {})


def test_the_clipboard_is_reached_through_tmux_too() -> None:
    plain, wrapped = external.clipboard_sequences("ö" * 3, {"TMUX": "/tmp/tmux,1,0", "TERM": "tmux-256color"})

    assert b64decode(plain.removeprefix("\x1b]52;c;").removesuffix("\a")).decode() == "ööö"
    assert wrapped == "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    assert external.clipboard_sequences("x", {"TERM": "xterm-256color"}) == ["\x1b]52;c;eA==\a"]
    assert external.clipboard_sequences("x", {"TERM": "screen"}) == ["\x1bP\x1b]52;c;eA==\a\x1b\\"]
