"""``python -m tpgate``."""

from __future__ import annotations

import sys

from tpgate.cli import main

sys.exit(main())
