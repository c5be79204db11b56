"""`python -m gpuledger` is the console script."""

from gpuledger.app.cli import main

raise SystemExit(main())
