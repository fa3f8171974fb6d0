"""Health of a running or recorded job, for people: who hangs, who is slow, what happened when."""
