"""What the compiler makes of a corpus of programs, compared with what it made before."""
