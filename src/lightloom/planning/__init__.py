"""Which plan wins: strategies, prices, bounds, search, simulation, economics, calibration, designs, sweeps, traffic."""
