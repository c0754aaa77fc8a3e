"""An agent that plans, acts in steps and asks a person first: killed anywhere, it goes on where it was.

Run `treadle worker examples.approved_agent`, then `treadle submit @global:tasks:assistant goal='invite everybody'`.
It asks, and takes no place in a worker until `treadle send ID approved true` answers; `false`, or a week, ends it.
"""

from treadle import Context, task


def plan(goal: str) -> list[str]:
    """Stands for a request to your model: which tools serve the goal."""
    return ["calendar", "draft"]


def use(tool: str, goal: str) -> str:
    """Stands for the tools that a model may call; they only look, and may fail now and then."""
    return {"calendar": "Friday is free", "draft": f"Please come: {goal}"}[tool]


async def invite(text: str, key: str) -> str:
    """Stands for what can't be undone. Its key is the same when a worker died and the step is run once more."""
    return f"sent: {text}"


@task(max_retries=3, max_requeues=20)
async def assistant(ctx: Context, goal: str) -> list[str]:
    """Does what the model planned, and what a person allowed; returns what came of it."""
    found = []
    for tool in await ctx.step("plan", plan, goal, retries=2, timeout=120):
        found.append(await ctx.step(tool, use, tool, goal, retries=2, timeout=60))
        ctx.log(f"{tool}: {found[-1]}")
    try:
        is_approved = await ctx.receive("approved", timeout=7 * 86_400)
    except TimeoutError:
        is_approved = False
    if is_approved:
        found.append(await ctx.step("invite", invite, found[-1], ctx.task.id))
    return found
