"""What both sides of compare.py train with."""
LR, MOMENTUM, WEIGHT_DECAY = 0.001, 0.9, 1e-4
STEPS_COMPARED = 5
POCKC = ["--loss", "cross-entropy", "--optimizer", f"sgd:lr={LR},momentum={MOMENTUM},weight_decay={WEIGHT_DECAY}"]
