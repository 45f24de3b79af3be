"""python -m mpicomp demo | bench | tune | simulate | info | run"""

from .cli import main

if __name__ == "__main__":
    main()
