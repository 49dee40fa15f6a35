"""`python -m mercer` is the command `mercer`."""

from mercer.cli.main import main

if __name__ == "__main__":
    main(prog_name="mercer")
