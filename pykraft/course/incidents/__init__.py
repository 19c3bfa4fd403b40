"""Incidents: failures of a simulated cluster that the reader repairs with Kafka's commands, while the records count.

::

    from pykraft.course.incidents import incident

    shift = incident(1)
    shift               # the pager, the board, the counters, the terminal
    shift.debrief()     # after it

It has more than 15 modules, for each incident is a module of its own, and the programs of some are, too.
"""

from pykraft.course.incidents.console import incident

__all__ = ["incident"]
