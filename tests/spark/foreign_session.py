"""A program that starts Spark by itself, and reads a topic: python foreign_session.py SERVERS TOPIC.

Spark finds the source by itself; registering it, as one must where workers do not have pykraft, changes nothing.
"""

import json
import sys

from pyspark.sql import SparkSession

import pykraft.spark
from pykraft.common.errors import ConfigError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
told: dict[str, object] = {}
reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2])
told["before"] = reader.load().count()
try:
    pykraft.spark.session()
except ConfigError as error:
    told["session"] = str(error)
pykraft.spark.register(spark)
told["rows"] = reader.load().count()
spark.stop()
sys.stdout.write(json.dumps(told) + "\n")
