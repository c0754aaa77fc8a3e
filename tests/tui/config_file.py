"""A configuration file with all that one can say in it."""

from pathlib import Path

FILE = Path("/home/mara/.config/treadle/tui.toml")

WHOLE = """\
theme = "light"
ascii = true
context = "prod"
notify = "osc9"
trace_url = "https://traces.example/trace/{trace_id}"

[keys]
pause = "f5"
resume = ["f6", "R"]
report = "?"
help = "f1"

[contexts.prod]
url = "https://queue.example"
token_file = "prod.token"
room = "lab"
read_only = true
production = true

[contexts."my lab"]
url = "http://127.0.0.1:7420,http://127.0.0.1:7421"

[views]
mine = "tag:user=ann -status:done"
"slow ones" = "duration:>1h"
"""
