"""Long computations in a process of their own, which a timeout or a cancel really ends.

Run `treadle worker examples.isolated`, then `treadle submit @global:tasks:factors number=600851475143 --wait`. With
`number=1000000000000000003 --run-timeout 2` it is killed after two seconds.
"""

from treadle import Context, task


@task(isolation="process", timeout=30, max_retries=0)
def factors(ctx: Context, number: int) -> list[int]:
    """Return the prime factors of a number, in a loop that only killing the process can stop."""
    ctx.log(f"{number} is being taken apart")
    found: list[int] = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found
