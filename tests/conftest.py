"""What holds for every test: no silent skip, no endless test, known Hypothesis profiles. Each has its own module."""

pytest_plugins = ("tests.harness.skips", "tests.harness.limits", "tests.harness.profiles")
