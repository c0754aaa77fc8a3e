"""`python -m treadle` is the command `treadle`, wherever its script was put."""

from treadle.cli import main

if __name__ == "__main__":
    main()
