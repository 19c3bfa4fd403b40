"""What holds for every test: no silent skip, no endless test, known Hypothesis profiles, and long ones apart."""

pytest_plugins = ("tests.harness.skips", "tests.harness.limits", "tests.harness.profiles", "tests.harness.long")
