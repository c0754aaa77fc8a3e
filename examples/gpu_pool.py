"""Tasks for machines with a GPU: a pool of workers, weights in gigabytes, and a target for what one alone may do.

Run `treadle worker examples.gpu_pool --pool gpu --concurrency 24` where the GPU with 24 GB is, `treadle worker
examples.gpu_pool` on any machine, and `python -m examples.gpu_pool`.
"""

import asyncio

from treadle import Client, Context, Options, task


@task(pool="gpu", weight=16, isolation="process", timeout=3600, max_requeues=5)
def train(ctx: Context, model: str, epochs: int = 3) -> str:
    """Trains a model, which takes 16 GB: beside it a worker with 24 runs only what takes 8 or less."""
    for epoch in range(ctx.checkpoint or 0, epochs):
        # A step of your training goes here; what it has learnt goes to a file, its number to the checkpoint.
        ctx.save(epoch + 1)
        ctx.progress((epoch + 1) / epochs, f"epoch {epoch + 1} of {epochs}")
    return f"{model}, {epochs} epochs"


@task(pool="gpu", weight=4)
async def embed(text: str) -> list[float]:
    """Takes 4 GB: a worker runs six of them beside each other, or two beside a training."""
    return [float(len(word)) for word in text.split()]


@task
def tell(text: str) -> str:
    """Needs no GPU: it has no pool, and every worker takes it, those of the pool too."""
    return text.upper()


async def main() -> None:
    async with Client():
        # Of one model only one training runs at a time, in the order of the submits, on whichever machine.
        trainings = [await train.submit("small", n, options=Options(target="model/small")) for n in (1, 2)]
        vector = await embed.submit("a text of six words")
        print(await vector.result(timeout=60))
        for training in trainings:
            told = await tell.submit(await training.result(timeout=60))
            print(await told.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main())
