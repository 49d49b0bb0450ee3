"""What GPUs measured while jobs ran: samples, which job held which GPU, and each job's own figures."""
