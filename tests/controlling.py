"""Runs Python code as the foreground job of the terminal on its standard input, which it takes for its own."""

import fcntl
import sys
import termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
code = sys.argv.pop(1)
sys.argv[0] = "-c"
exec(code)
