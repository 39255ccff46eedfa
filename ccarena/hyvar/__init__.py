"""Learned scheme Hyvar: CUBIC decides per acknowledgement, and a learner now and then scales its window.

A state reasoner asks the learner at the end of a period, if delay or loss call for it, and varies the length of
periods.

Source: Qiu, Liu, Liu, Li, Zhu, "Hybrid Congestion Control with Variable Monitoring Time Period" (slides). Its spec,
its reward and its policies are in this folder.
"""
