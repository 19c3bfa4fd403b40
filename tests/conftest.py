"""What holds for every test: no silent skip, no endless test, known Hypothesis profiles, long ones apart, and scripts
with expected output."""

pytest_plugins = (
    "tests.harness.skips",
    "tests.harness.limits",
    "tests.harness.profiles",
    "tests.harness.long",
    "tests.harness.network",
    "tests.harness.datadriven",
)
