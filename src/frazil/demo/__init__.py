"""The demo: an archive becomes a repository, grows, is asked, computed with and kept, in a minute."""

from frazil.demo.tour import run_demo

__all__ = ["run_demo"]
