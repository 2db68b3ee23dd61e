"""How plans exchange gradients: a method of ``lightloom.exchange``, the bytes that it makes of a model's gradient, and
the engine that codes them, with the origin of every number."""
