"""gpuledger: the books of every GPU in a Kubernetes cluster."""

__version__ = "0.1.0"
