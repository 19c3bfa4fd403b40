"""The replicas on a broker: leaders that decide what is committed, followers that fetch, and requests that wait."""
