"""Give Frazil to whoever imports `icechunk`, with the test helpers of the official sources.

The directory of this file is on the path of the run, so processes that a test starts get it as well.
"""

import os
import sys

import frazil
import frazil.testing

del sys.modules["icechunk"]
frazil.install_as_icechunk()
# Strategies and models that the official tests share: they are test code, not part of the library.
frazil.testing.__path__.append(os.environ["CONFORMANCE_HELPERS"])
