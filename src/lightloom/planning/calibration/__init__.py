"""Steps and collectives that others measured: predicted, used to calibrate, and judged by.

    rows ──► jobs ──► step times ──► fit (maximum a posteriori) ──► calibration file ──► accuracy

The measured tables are not part of the project. They lie in the folder that ``LIGHTLOOM_MEASURED`` names, or wherever a
command is told.
"""
