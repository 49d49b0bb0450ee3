"""What GPUs measured while jobs ran: samples, who held which GPU, and each job's own figures."""
