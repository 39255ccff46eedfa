"""Learning: A3C with one learner logic (`a3c`) and two executors (`local`, `ray`), checkpoints and the training run."""
