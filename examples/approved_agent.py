"""An agent that plans, works in steps and asks a person for approval. Killed anywhere, it resumes where it was.

Run `treadle worker examples.approved_agent`, then `treadle submit @global:tasks:assistant goal='invite everybody'`.
While it waits for approval, it occupies no worker: `treadle send ID approved true` approves, `false` or a week ends it.
"""

from treadle import Context, task


def plan(goal: str) -> list[str]:
    """Stand in for a request to your model, which names the tools that the goal needs."""
    return ["calendar", "draft"]


def use(tool: str, goal: str) -> str:
    """Stand in for the tools that a model may call. They only read, and may fail now and then."""
    return {"calendar": "Friday is free", "draft": f"Please come: {goal}"}[tool]


async def invite(text: str, key: str) -> str:
    """Stand in for what can't be undone. `key` stays the same if a worker dies and the step runs again."""
    return f"sent: {text}"


@task(max_retries=3, max_requeues=20)
async def assistant(ctx: Context, goal: str) -> list[str]:
    """Do what the model planned and what a person approved; return the results."""
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
