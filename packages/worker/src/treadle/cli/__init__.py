"""The `treadle` command; each of its sub-commands is loaded when it is used."""


def main() -> None:
    """Run the command line."""
    from treadle.cli.group import treadle
    from treadle.cli.unforeseen import clean_what_nobody_caught

    clean_what_nobody_caught()
    treadle(prog_name="treadle")
