"""An existing zndraw-joblib client: its environment, the programs that run in it, and the pipes to them."""

from pathlib import Path

HERE = Path(__file__).parent
