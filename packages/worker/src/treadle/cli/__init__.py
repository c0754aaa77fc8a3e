"""The `treadle` command; each of its sub-commands is loaded when it is used."""

INTERRUPTED = 128 + 2
"""The exit code of a command that Ctrl-C has stopped: what the shell gives for SIGINT."""


def main() -> None:
    """Run the command line; raises `SystemExit` with its exit code."""
    try:
        _run()
    except KeyboardInterrupt:
        # What is imported first takes long enough to be interrupted.
        raise SystemExit(INTERRUPTED) from None


def _run() -> None:
    from treadle.standard_files import open_what_is_closed, write_all_of_it

    # Before anything else is opened.
    open_what_is_closed()
    write_all_of_it()

    from treadle.charset import spell_out_what_is_lacking
    from treadle.cli.group import treadle
    from treadle.cli.unforeseen import clean_what_nobody_caught, tell_what_is_waited_for

    spell_out_what_is_lacking()
    clean_what_nobody_caught()
    try:
        treadle(prog_name="treadle")
    finally:
        tell_what_is_waited_for()
