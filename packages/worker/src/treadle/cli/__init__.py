"""The `treadle` command; each of its sub-commands is imported when it is used."""

INTERRUPTED = 128 + 2
"""The exit code of a command that Ctrl-C has stopped, as a shell gives for SIGINT."""


def main() -> None:
    """Run the command line; raises `SystemExit` with its exit code."""
    try:
        _run()
    except KeyboardInterrupt:
        # The first imports take long enough to be interrupted.
        raise SystemExit(INTERRUPTED) from None


def _run() -> None:
    from treadle.standard_files import open_closed_streams, write_in_full

    # Before anything else is opened.
    open_closed_streams()
    write_in_full()

    from treadle.charset import escape_unencodable_output
    from treadle.cli.group import treadle
    from treadle.cli.unforeseen import clean_uncaught_output, report_remaining_threads

    escape_unencodable_output()
    clean_uncaught_output()
    try:
        treadle(prog_name="treadle")
    finally:
        report_remaining_threads()
