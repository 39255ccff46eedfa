"""Learned scheme for L4S queues: a window that a learner multiplies once per round trip, by the marks that it saw.

Packets leave as ECT(1) (RFC 9331), and acknowledgements count marks. Its spec and its reward are in this folder.
"""
