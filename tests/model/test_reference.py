"""The page that explains the model says what the table of transitions says."""

from pathlib import Path

from tests.model.diagram import diagram

PAGE = Path(__file__).parents[2] / "docs" / "model.md"


def test_the_diagram_of_the_states_is_the_one_that_the_table_gives() -> None:
    drawn = PAGE.read_text().partition("```mermaid\n")[2].partition("```")[0]

    assert drawn.strip() == diagram()
