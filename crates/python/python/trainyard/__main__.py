"""The command `trainyard`: `python -m trainyard`, or the script that the package installs."""

import signal
import sys

from trainyard.program import this_program


def main() -> int:
    """Runs the command line of this process, and returns its exit code."""
    # The job handles an interrupt: it writes a checkpoint and ends. Python must not raise KeyboardInterrupt after it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return this_program().run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
