"""What a type checker knows of the SDK; pyright looks at the same file in `nox -s lint`."""

from pathlib import Path

from mypy import api


def test_a_type_checker_sees_the_parameters_and_results_of_tasks() -> None:
    """T5."""
    settings = Path(__file__).parents[2] / "pyproject.toml"

    output, errors, code = api.run(
        ["--strict", "--warn-unused-ignores", "--config-file", str(settings), str(Path(__file__).with_name("typed.py"))]
    )

    assert (code, errors) == (0, ""), output
