"""Workers of Spark that have loaded already what they need: a fork of this process each."""

from pyspark import daemon

from frazil.spark.tables.data_source import NAME

assert NAME == "icechunk"

if __name__ == "__main__":
    daemon.manager()
