"""Whether what searches and remembers keeps its promises on this machine: attacks that it has to withstand."""
