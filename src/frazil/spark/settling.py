"""Workers that don't pay for each task what their modules cost once.

Spark collects Python's garbage after every task of a worker. That looks at all objects there are, of
which nearly all belong to modules: a tenth of a second of work a task, for nothing. What is there once
modules are loaded is set aside, and no longer looked at.
"""

import gc
import sys

from pyspark import TaskContext

_settled_modules = 0


def settle_worker() -> None:
    """Set aside what was loaded; to be called at the end of tasks, and does nothing elsewhere."""
    global _settled_modules
    if TaskContext.get() is None or len(sys.modules) == _settled_modules:
        return
    gc.collect()
    gc.freeze()
    _settled_modules = len(sys.modules)
