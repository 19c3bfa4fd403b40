"""How hard Hypothesis looks: `--hypothesis-profile=quick` (the default), `full` or `soak`.

Under CI the examples of quick and full follow from the test's own text, so that a verdict can be had again; elsewhere,
and in a soak, each run looks at new ones and a failure prints what reproduces it. A deadline per example would measure
the machine and not the code: tests.harness.limits watches over the whole test.
"""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = {"quick": 40, "full": 120, "soak": 5000}

for name, examples in EXAMPLES.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        derandomize=bool(os.environ.get("CI")) and name != "soak",
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")
