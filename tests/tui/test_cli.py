"""`treadle watch`: headless it prints lines of JSON, and imports no Textual."""

import subprocess
import sys

from click.testing import CliRunner

from treadle_tui.cli import watch
from treadle_tui.launch import server_name_of


def test_headless_never_imports_textual() -> None:
    code = (
        "import sys, treadle_tui.cli, treadle_tui.core.live.ndjson, treadle_tui.core.live.link;"
        "import treadle_tui.core.verbs.executor;"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'textual']"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_itself_imports_nothing_heavy() -> None:
    code = "import sys, treadle_tui.cli; assert not {'pydantic', 'rich', 'textual', 'websockets'} & set(sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_filter_that_cannot_be_read_is_a_usage_error() -> None:
    result = CliRunner().invoke(watch, ["status:flying", "--json"])

    assert result.exit_code == 2
    assert 'there is no status "flying"' in result.output


def test_a_filter_may_be_several_words_as_of_treadle_tasks() -> None:
    result = CliRunner().invoke(watch, ["status:running", "status:flying", "--json"])

    assert result.exit_code == 2
    assert "unexpected" not in result.output
    assert "status" in result.output


def test_an_address_that_is_none_is_a_usage_error() -> None:
    result = CliRunner().invoke(watch, ["--url", "ftp://x", "--json"])

    assert result.exit_code == 2
    assert "is not a server's address" in result.output


def test_a_server_on_this_machine_is_called_local() -> None:
    assert server_name_of("http://127.0.0.1:7420") == server_name_of("http://localhost:7420") == "local"
    assert server_name_of("https://queue.example:8443") == "queue.example:8443"
