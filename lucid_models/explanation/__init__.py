"""What a model has learned and why it said what it said: data first, pictures second."""
