"""DECENTRALIZED AVERAGING, one method a file."""
