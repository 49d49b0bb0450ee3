"""The workload zoo in PyTorch, one file a workload; nothing here is imported before a training."""
