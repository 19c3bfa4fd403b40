"""What holds for every test: no silent skip, no endless test, known Hypothesis profiles, long ones apart, scripts
with expected output, and no fault that a node has survived in silence."""

pytest_plugins = (
    "tests.harness.skips",
    "tests.harness.limits",
    "tests.harness.profiles",
    "tests.harness.long",
    "tests.harness.network",
    "tests.harness.datadriven",
    "tests.harness.faults",
)
