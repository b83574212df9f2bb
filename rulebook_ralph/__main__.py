"""`python -m rulebook_ralph`: the same as `ralph`."""

from rulebook_ralph.cli.main import main

if __name__ == "__main__":
    main()
