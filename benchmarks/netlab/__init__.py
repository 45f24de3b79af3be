"""A network of hosts on one machine: see README.md and lab.py."""
