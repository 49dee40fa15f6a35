"""What a fit costs on a cluster: a simulation of its tasks and transfers, and fits on local workers."""
