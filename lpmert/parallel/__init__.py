"""Units of work done by threads, processes or a cluster, with the same outcome as by one thread."""
