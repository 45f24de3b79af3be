"""What docs/performance.md shows: every measurement, its results, the tables and pictures made of them."""
