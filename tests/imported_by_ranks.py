"""Modules that every rank of a launch would import for itself, at two CPU seconds each time.

What runs in ranks imports this module, so that all are imported once, before the ranks are forked.
"""

import encodings.idna  # noqa: F401

import scipy.linalg  # noqa: F401
import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.fsdp  # noqa: F401

import lightloom.exchange.distributed.ddp
import lightloom.exchange.distributed.factory
import lightloom.exchange.distributed.fsdp
import lightloom.exchange.distributed.periodic
import lightloom.exchange.transport.gloo  # noqa: F401
