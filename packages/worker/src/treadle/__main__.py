"""`python -m treadle` is the command `treadle`, wherever its script is installed."""

from treadle.cli import main

if __name__ == "__main__":
    main()
