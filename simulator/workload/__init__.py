"""What is replayed: jobs with their run times, and what is known or believed of them beforehand."""
