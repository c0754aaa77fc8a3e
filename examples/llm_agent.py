"""An agent with a language model: it has a budget, and pauses before it does something that can't be undone.

Run `treadle worker examples.llm_agent`, then `treadle submit @global:tasks:agent goal='invite everybody' --budget 0.5`.
When it has paused, `treadle task ID` shows why. `treadle resume ID` lets it continue, `treadle cancel ID` ends it.
"""

import asyncio
from typing import NamedTuple

from treadle import Context, Pause, task

SCRIPT = ("read the calendar", "write a draft", "send the invitation", None)


class Answer(NamedTuple):
    """The next action that a model wants, None when the goal is reached; and what the answer cost."""

    action: str | None
    dollars: float


async def ask_model(goal: str, done: list[str]) -> Answer:
    """Stand in for a request to your model, with the goal and everything done for it so far."""
    await asyncio.sleep(0)
    return Answer(SCRIPT[len(done)], dollars=0.01)


@task(budget=1.0, max_retries=3, timeout=600)
async def agent(ctx: Context, goal: str) -> list[str]:
    """Do what the model says until nothing is left; return what was done.

    The budget holds over all runs together: past it, the task fails. After a pause, nothing is done or paid for twice.
    """
    done, action = ctx.checkpoint or ([], None)
    while True:
        if action is None:
            action, dollars = await ask_model(goal, done)
            ctx.spend(dollars)
            if action is None:
                return list(done)
            if action.startswith("send"):
                raise Pause(f"may I {action}?", checkpoint=(done, action))
        ctx.log(action)
        done, action = [*done, action], None
        await ctx.save((done, None))
