"""Incidents: failures of a simulated cluster that the reader repairs with Kafka's commands, while the records count.

::

    from pykraft.course.incidents import incident

    shift = incident(1)
    shift               # the pager, the board, the counters, the terminal
    shift.debrief()     # after it
"""

from pykraft.course.incidents.console import incident

__all__ = ["incident"]
