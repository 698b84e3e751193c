"""Elements by index or by value: reading, changing, finding, looking up, distinct ones."""
