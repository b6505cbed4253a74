"""The demo: an archive becomes a repository, grows, is asked, computed with and kept, in a minute.

`archive` makes the files, and `tour` does the rest, which takes Spark.
"""
