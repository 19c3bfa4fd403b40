"""Writes the code that executors need into a zip file: python -m pykraft.spark pykraft.zip"""

import sys
from pathlib import Path

from pykraft.spark.shipping import write_package


def main() -> None:
    """Write the file; one sentence if it is not named."""
    if len(sys.argv) != 2:
        sys.exit("which file? python -m pykraft.spark pykraft.zip writes the code that executors need")
    write_package(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
