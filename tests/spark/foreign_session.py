"""A program that starts Spark by itself, and asks pykraft for its source only: python foreign_session.py SERVERS."""

import json
import sys

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import pykraft.spark
from pykraft.common.errors import ConfigError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
told = {}
try:
    spark.read.format("pykraft").load()
except Py4JJavaError as error:
    told["before"] = str(error.java_exception.getMessage())
try:
    pykraft.spark.session()
except ConfigError as error:
    told["session"] = str(error)
pykraft.spark.register(spark)
reader = spark.read.format("pykraft").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2])
told["rows"] = reader.load().count()
spark.stop()
sys.stdout.write(json.dumps(told) + "\n")
