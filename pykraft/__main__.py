"""``python -m pykraft``: see `pykraft.cli`."""

import sys

from pykraft.cli import main

sys.exit(main())
