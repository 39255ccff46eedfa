"""Learned scheme Hyvar: CUBIC decides per acknowledgement, and a learner now and then scales its window.

A state reasoner asks the learner at the end of a period, if delay or loss call for it, and varies the length of
periods.

Source: Qiu, Liu, Liu, Li, Zhu, "Hybrid Congestion Control with Variable Monitoring Time Period" (slides). This package
has its rewards, and those of two learned schemes for comparison. Orca is the same with a fixed period and an action in
every one. In Aurora, a learner alone sets a rate. The senders are specs of the native crate.
"""
