"""The coordinators on a broker: their runtimes over its replicas, and what they need from the cluster."""
