"""Orca: CUBIC per acknowledgement, and a learner that scales its window in periods of a fixed length.

Source: Abbasloo, Yen, Chao, "Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the Internet",
SIGCOMM 2020. Its configuration takes Hyvar's reward.
"""
