"""Statistics of rows against a fit, their limits, wild readings, slow processes, alarms and reports."""
