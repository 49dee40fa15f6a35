"""The version of the package: in a module of its own, so that every layer may ask for it."""

VERSION = "0.1.0"
