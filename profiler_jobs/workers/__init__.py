"""Training in processes of their own: started, driven through windows, timed and ended."""
