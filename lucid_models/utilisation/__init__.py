"""What a job asks of a GPU, predicted from its computation graph before it runs (Horus, TPDS '21)."""
