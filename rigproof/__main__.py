"""`python -m rigproof` is the command line `rigproof`."""

from rigproof.cli.main import main

if __name__ == "__main__":
    main()
