"""What every layer may use: errors, units at the edge, files, provenance, plug-ins, study claims."""
