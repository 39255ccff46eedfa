"""Learning: A3C with one learner (`a3c`) and two executors (`local`, `ray`), further algorithms, checkpoints and
training.
"""
