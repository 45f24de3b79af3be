"""What docs/training.md shows: trainings, their results, the tables and pictures made of them."""
