"""Hyvar is a congestion controller in which CUBIC decides per acknowledgement and a learner scales its window now and
then, when a state reasoner, looking at the end of periods whose length it varies, finds that delay or loss call for it.

Source: Qiu, Liu, Liu, Li, Zhu, "Hybrid Congestion Control with Variable Monitoring Time Period" (slides). Its rewards
are here, with those of the two learners that it is compared with: Orca, the same with a fixed period and the learner
acting in every one, and Aurora, a rate that a learner alone steers. The senders are documents of the native crate.
"""
