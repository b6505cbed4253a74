"""Repositories as tables of Arrow batches, for engines that ask with SQL.

Plain functions: what a table is made of is planned here, and engines only call `read`. Nothing here
knows Spark.
"""
