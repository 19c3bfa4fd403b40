"""What ``python -m pykraft`` runs: Kafka's shell tools for one node, as `pykraft.cli` describes them.

The exit code is the shell's only answer about success, so it is handed through.
"""

import sys

from pykraft.cli import main

sys.exit(main())
