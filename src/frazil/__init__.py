"""The Icechunk storage format in Python, with its data pipeline on Apache Spark."""

__version__ = "0.1.0"
