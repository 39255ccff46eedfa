"""Aurora: a rate that a learner alone steers, once per RTT.

Source: Jay, Rotman, Godfrey, Schapira, Tamar, "A Deep Reinforcement Learning Perspective on Internet Congestion
Control", ICML 2019.
"""
