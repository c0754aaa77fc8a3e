"""Tasks for machines with a GPU: a pool of workers, weights in gigabytes, and a target for one task at a time.

Run `treadle worker examples.gpu_pool --pool gpu --concurrency 24` where the GPU with 24 GB is, `treadle worker
examples.gpu_pool` on any machine, and `python -m examples.gpu_pool`.
"""

import asyncio

from treadle import Client, Context, Options, task


@task(pool="gpu", weight=16, isolation="process", timeout=3600, max_requeues=5)
def train(ctx: Context, model: str, epochs: int = 3) -> str:
    """Train a model in 16 GB: beside it, a worker with 24 GB runs only tasks of 8 GB or less."""
    for epoch in range(ctx.checkpoint or 0, epochs):
        # One epoch of your training goes here. Save the model to a file; the checkpoint is the epoch's number.
        ctx.save(epoch + 1)
        ctx.progress((epoch + 1) / epochs, f"epoch {epoch + 1} of {epochs}")
    return f"{model}, {epochs} epochs"


@task(pool="gpu", weight=4)
async def embed(text: str) -> list[float]:
    """Takes 4 GB: a worker with 24 GB runs six of them at once, or two beside a training."""
    return [float(len(word)) for word in text.split()]


@task
def tell(text: str) -> str:
    """Needs no GPU, so it has no pool: any worker takes it, including those of the pool."""
    return text.upper()


async def main() -> None:
    async with Client():
        # The target: one training of a model runs at a time, in the order of the submits, on any machine.
        trainings = [await train.submit("small", n, options=Options(target="model/small")) for n in (1, 2)]
        vector = await embed.submit("a text of six words")
        print(await vector.result(timeout=60))
        for training in trainings:
            told = await tell.submit(await training.result(timeout=60))
            print(await told.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main())
