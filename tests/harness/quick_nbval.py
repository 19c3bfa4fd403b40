"""nbval is loaded with every pytest, and takes seconds for what no notebook needs.

It reads notebooks with jsonschema, which takes a checker of internationalized addresses along if there is one, and that
one builds a grammar when it is imported. To jsonschema it is optional; here it is not there. A plugin that the command
line names, as this one, comes before nbval.
"""

from __future__ import annotations

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
