"""The command `trainyard`: `python -m trainyard`, or the script that the package installs."""

from typing import NoReturn

from trainyard.program import run_to_exit, this_program


def main() -> NoReturn:
    """Runs the command line of this process, and exits with its code."""
    run_to_exit(this_program())


if __name__ == "__main__":
    main()
