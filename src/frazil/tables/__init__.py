"""Repositories as tables of Arrow batches, for engines that query with SQL.

Plain functions plan and read the tables; engines only call `read`. Nothing here depends on Spark.
"""
