"""A program that starts Spark by itself, and reads a topic: python foreign_session.py SERVERS TOPIC HOW.

HOW the source is found: `found`, Spark finds it by itself, and registering it, as one must where workers do not have
pykraft, changes nothing; `registered`, it must be registered; `imported`, a module was imported before Spark started.
"""

import json
import sys

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pykraft.spark
from pykraft.common.errors import ConfigError

servers, topic, how = sys.argv[1:]
if how == "imported":
    import pyspark_pykraft  # noqa: F401
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
told: dict[str, object] = {}
reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
try:
    told["before"] = reader.load().count()
except (Py4JJavaError, PySparkException):
    told["before"] = "not found"
try:
    pykraft.spark.session()
except ConfigError as error:
    told["session"] = str(error)
pykraft.spark.register(spark)
told["rows"] = reader.load().count()
spark.stop()
sys.stdout.write(json.dumps(told) + "\n")
