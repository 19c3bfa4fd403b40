"""``demo NOTEBOOK``: run a notebook in the terminal, and show what each cell prints as it goes (`course.demo`)."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebook", type=Path)


def run(options: argparse.Namespace) -> int:
    """Show the notebook as it runs."""
    from pykraft.course.authoring import demo

    return demo.run(options.notebook)
