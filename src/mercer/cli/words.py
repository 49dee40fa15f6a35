"""Words for people: texts that a terminal only shows. Light to import."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey: names in files are anybody's."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


# What the library calls by the names of Python, as the command line has it. Not a grammar: only phrases
# that its messages really use, and a message without them passes as it is.
OPTIONS = (
    (r"`mercer\.check_kernel`", "`mercer check`"),
    (r"\bn_components must\b", "--components must"),
    (r"\bn_components=None\b", "--components all"),
    (r"\bn_components=([\w.]*\w)", r"--components \1"),
    (r"\bNone for all components\b", "all"),
    (r"\bfalse_alarm=([\w.-]*\w)", r"--false-alarm \1"),
    (r"\bcontamination=([\w.-]*\w)", r"--contamination \1"),
    (r"\bfalse_alarm\b", "--false-alarm"),
    (r"(?<!-)`?\bcontamination\b`?(?= (?:the share|reads))", "--contamination"),
    (r"\blimits='(\w+)'", r"--limits \1"),
    (r"\bcriterion must be\b", "--criterion must be"),
    (r" where no y is given; got", " without --supervised; got"),
    (r"\bcriterion='([\w-]+)'", r"--criterion \1"),
    (r"\(n_samples\)", "(the number of rows)"),
    (r"\bn_samples=(\d+)", r"there are \1 rows"),
    (r"\bn_samples\b", "the number of rows"),
    (r"\b(approximation|preimage)=None\b", r"no --\1"),
    (r"\bapproximation=RPCholesky\((.*?)\)", r'--approximation "rpcholesky(\1)"'),
    (r"\b(approximation|preimage|kernel|solver|memory)='([\w-]+)'", r"--\1 \2"),
    (r"(--preimage [\w-]+) or '([\w-]+)'", r"\1 or \2"),
    (r"`(memory|preimage|approximation|refine)`", r"--\1"),
)


def optioned(text: str) -> str:
    """A message of the library, with the names of options in place of those of parameters.

    >>> optioned("n_components must be 1 to 400 (n_samples). Raise `memory`, or use preimage='ridge'.")
    '--components must be 1 to 400 (the number of rows). Raise --memory, or use --preimage ridge.'
    """
    import re

    for pattern, option in OPTIONS:
        text = re.sub(pattern, option, text)
    return text
