"""The command line. Light to import: `mercer --help` loads no numerical library."""
