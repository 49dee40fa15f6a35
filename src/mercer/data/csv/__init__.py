"""CSV and TSV files: blocks of lines, a look at the head, numbers, tables."""
