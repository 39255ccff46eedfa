"""Hyvar is a congestion controller in which CUBIC decides per acknowledgement and a learner scales its window now and
then, when a state reasoner, looking at the end of periods whose length it varies, finds that delay or loss call for it.

Source: Qiu, Liu, Liu, Li, Zhu, "Hybrid Congestion Control with Variable Monitoring Time Period" (slides). Here too are
the two learners that it is compared with: Orca, the same with a fixed period and the learner acting in every one, and
Aurora, a rate that a learner alone steers. The senders are schemes of the native crate; here is what learning
them needs: the layout of observations, reports and actions (`spec`) and the rewards (`rewards`), with their discounting
over intervals of different lengths.
"""

from ccarena.hyvar.rewards import AuroraReward, HyvarReward, discounted
from ccarena.hyvar.spec import AURORA, HYBRID, Layout

__all__ = ["AURORA", "HYBRID", "AuroraReward", "HyvarReward", "Layout", "discounted"]
