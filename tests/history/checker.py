"""Holds a history against what Treadle promises: each rule is a function that yields what breaks it."""

from collections.abc import Callable, Iterator

from tests.history import rules_of_code, rules_of_flows, rules_of_limits, rules_of_steps, rules_of_tables
from tests.history.known import Known
from tests.history.records import History, Violation

Rule = Callable[[Known], Iterator[Violation]]

RULES: tuple[Rule, ...] = (
    *rules_of_tables.RULES,
    *rules_of_code.RULES,
    *rules_of_limits.RULES,
    *rules_of_flows.RULES,
    *rules_of_steps.RULES,
)


def check(history: History) -> list[Violation]:
    """Return everything in which the history is not as it must be."""
    known = Known(history)
    return [violation for rule in RULES for violation in rule(known)]
