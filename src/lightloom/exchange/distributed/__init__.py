"""Methods on process groups of ``torch.distributed``: hooks, a plain function, and exchanges every H steps."""
