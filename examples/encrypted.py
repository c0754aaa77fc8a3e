"""Tasks that the server can't read: submitter and worker encrypt their payloads, messages and results.

Create a key once, `python -c "from treadle.encryption import new_key; print(new_key())"`, and set it as
`TREADLE_ENCRYPTION_KEYS` for both: `treadle worker examples.encrypted`, and `python -m examples.encrypted` in another
terminal. Where the key is set, `treadle task ID` shows the task in plain text; elsewhere, it says that it is encrypted.
"""

import asyncio

from treadle import Client, Context, task


@task(encrypted=True)
async def summarise(ctx: Context, patient: str, values: list[float]) -> dict[str, float]:
    """Logs, progress, checkpoints and errors are encrypted too."""
    ctx.log(f"{len(values)} values of {patient}")
    ctx.progress(0.5, f"half of {patient} is done")
    return {"mean": sum(values) / len(values), "most": max(values)}


async def main() -> None:
    async with Client():
        handle = await summarise.submit(patient="Ada Lovelace", values=[36.6, 37.1, 38.0])
        print(await handle.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main())
