"""A moment for records that a broker on the real clock keeps.

A broker deletes what is older than retention.ms, seven days, by the time in the records, and looks for it half a minute
after its start and every five minutes. Records of 2023 are gone then: a test that took longer than usual missed some.
"""

import time

TODAY_MS = int(time.time()) * 1000
"""When the tests began, in whole seconds."""
