"""Encrypted tasks that tests run, and that child processes can import."""

import logging
import os
from typing import Any

from treadle import Context, task

SECRET = "correct-horse-battery"


@task(encrypted=True, max_retries=0)
async def whisper(ctx: Context, word: str, *, fails: bool = False) -> dict[str, str]:
    await _say(ctx, word)
    if fails:
        raise KeyError(word)
    return {"said": word}


@task(encrypted=True, max_retries=0)
def whisper_in_thread(ctx: Context, word: str, *, fails: bool = False) -> dict[str, str]:
    return _say_blocking(ctx, word, fails=fails)


@task(encrypted=True, max_retries=0, isolation="process")
def whisper_in_process(ctx: Context, word: str, *, fails: bool = False) -> dict[str, str]:
    return _say_blocking(ctx, word, fails=fails)


def _said(word: str) -> dict[str, str]:
    return {"said": word}


@task(encrypted=True, max_retries=1, retry_base=0.0)
async def whisper_in_steps(ctx: Context, word: str) -> list[Any]:
    kept = await ctx.step("say", _said, word)
    heard = await ctx.receive("heard", timeout=60)
    if ctx.run_id == 0:
        raise KeyError("again")
    return [kept, heard]


@task(isolation="process")
def keys_in_a_child() -> list[str]:
    return sorted(name for name in os.environ if name.startswith("TREADLE_ENCRYPTION"))


def _say_blocking(ctx: Context, word: str, *, fails: bool) -> dict[str, str]:
    ctx.log(f"logged {word}")
    ctx.progress(0.5, f"half of {word}")
    ctx.save({"kept": word})
    print("printed", word)
    if fails:
        raise KeyError(word)
    return {"said": word}


async def _say(ctx: Context, word: str) -> None:
    ctx.log(f"logged {word}")
    ctx.progress(0.5, f"half of {word}")
    await ctx.save({"kept": word})
    logging.getLogger("of_the_task").warning("through logging: %s", word)
    print("printed", word)
