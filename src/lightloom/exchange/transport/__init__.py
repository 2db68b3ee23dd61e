"""Processes that find each other and exchange gradients over sockets."""
