"""The step of a plan as Chakra execution traces, with what ASTRA-sim needs to run them."""
