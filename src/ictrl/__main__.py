"""`python -m ictrl`."""

import sys

from ictrl.cli import main

sys.exit(main())
