"""The seed of this run's random tests: another one each time, told in the report, and given to run the same again."""

import os
import secrets

VARIABLE = "TREADLE_TEST_SEED"

# pytest-xdist's processes have it from the one that starts them.
SEED = int(os.environ.setdefault(VARIABLE, str(secrets.randbelow(2**32))))

AGAIN = f"random tests: {VARIABLE}={SEED} runs the same again"
