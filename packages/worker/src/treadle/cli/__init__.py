"""The `treadle` command; each of its sub-commands is loaded when it is used."""


def main() -> None:
    """Run the command line."""
    from treadle.cli.group import treadle

    treadle(prog_name="treadle")
