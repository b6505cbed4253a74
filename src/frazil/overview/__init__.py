"""Summaries of a version of a repository, for the command line and web pages."""
