"""Makes ``spark.read.format("pykraft")`` work in any Spark session: nothing is imported or registered.

Spark looks for Python data sources in top-level modules whose names begin with ``pyspark_``, and takes their
``DefaultSource``. It asks the interpreter of its Python workers, so that one must have pykraft. It is the one that the
environment variable ``PYSPARK_PYTHON`` names, and without it the ``python3`` of the PATH. That is another one than the
program's in a virtual environment that is not activated (``.venv/bin/python script.py``). Such a program imports this
module before it starts Spark: then the workers have the interpreter of the program. With a session that runs already,
``pykraft.spark.register(spark)`` does the same.
"""

import os
import sys

from pykraft.spark.source import PykraftDataSource as DefaultSource

__all__ = ["DefaultSource"]

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
