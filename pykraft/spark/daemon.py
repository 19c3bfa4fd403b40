"""The process that Spark's Python workers are forked from, with the imports done before the fork.

Spark starts one Python process, PySpark's daemon, and forks a worker from it for each task that needs Python. A worker
that reads a topic imports Arrow, numpy, pandas (PySpark wants it wherever Arrow rows cross) and this package: half a
second of the processor, in each worker again. Done here, before the first fork, they are imported once, and their
memory is shared between all workers until one of them writes to it. Python's garbage collector would: it is kept away
from them (`worker`).

Only for workers on this machine: on a cluster the code of this package comes with the task, so a daemon there can not
find it yet.

Follows pyspark.daemon; Spark takes the name of the module from the setting spark.python.daemon.module.
"""

import gc

import pandas  # noqa: F401
import pyarrow  # noqa: F401
from pyspark import daemon
from pyspark.sql.pandas import serializers, types  # noqa: F401

import pykraft.spark.source  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()
