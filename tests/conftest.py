"""What holds for every test: no silent skip, no endless test, known Hypothesis profiles, long ones apart, scripts
with expected output, no fault that a node has survived in silence, and less to do for Python's collector."""

pytest_plugins = (
    "tests.harness.skips",
    "tests.harness.limits",
    "tests.harness.profiles",
    "tests.harness.long",
    "tests.harness.network",
    "tests.harness.datadriven",
    "tests.harness.faults",
    "tests.harness.frozen",
)
