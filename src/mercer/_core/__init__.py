"""What every layer may use: array types, errors, byte sizes and random generators."""
